"""Fetches that wait until there is enough to be read (broker.md 3.7).

Rule 1: `min_bytes` and `max_bytes` are totals over a request. It is answered when there is enough, when a partition
        fails, when it asks for nothing, or when its time is up: with what is there then.
Rule 2: the first partition with anything to be read gives at least one batch; what the next ones have must fit into
        what is left, or waits for the next request.
Rule 3: a partition is watched once for all who wait for it, and read again for each of them when it has grown.
"""

from __future__ import annotations

from typing import Any

import attrs

from messages.cluster import TopicPartition
from messages.data_requests import CONSUMER, FetchedPartition, FetchRequest
from messages.errors import NONE
from messages.records import EMPTY


@attrs.define
class WaitingFetch:
    """One fetch: what its partitions gave so far, and where each was read up to."""

    request: FetchRequest
    deadline: float
    results: list[FetchedPartition | None]
    limits: list[int]
    outstanding: int = 0
    parked: bool = False

    @property
    def committed(self) -> bool:
        """Whether it reads committed records only: a consumer's does."""
        return self.request.replica_id == CONSUMER

    @property
    def is_satisfied(self) -> bool:
        """Rule 1, but for the time."""
        found = [result for result in self.results if result is not None]
        if not found or any(result.error_code != NONE for result in found):
            return True
        return sum(result.body.size for result in found) >= self.request.min_bytes

    def indexes_of(self, partition: TopicPartition) -> list[int]:
        """Where the request names the partition."""
        return [index for index, part in enumerate(self.request.partitions) if part.partition == partition]

    def answer(self) -> tuple[FetchedPartition, ...]:
        """The partitions' results, cut to the request's size (rule 2)."""
        left, answered = self.request.max_bytes, []
        anything = False
        for result in self.results:
            assert result is not None
            if result.body.size > left and anything:
                whole: Any = result
                result = attrs.evolve(whole, body=EMPTY)
            anything = anything or result.body.size > 0
            left -= result.body.size
            answered.append(result)
        return tuple(answered)
