"""Simulated transactions: each has its records, and its outcome as far as the producer knows it.

Rule 1: a transaction without a requested commit, or with an acknowledged abort, is never visible to readers of
        committed data. A transaction with an acknowledged commit is visible as a whole. If a requested commit got no
        response, both outcomes are valid, but all partitions must have the same outcome.
"""

from __future__ import annotations

import enum

import attrs

from messages.cluster import TopicPartition


class KnownOutcome(enum.Enum):
    """The outcome of a transaction from its producer's point of view: committed, aborted or unknown."""

    OPEN = "open"
    COMMITTING = "commit requested"
    COMMITTED = "committed"
    ABORTED = "aborted"


@attrs.define(eq=False)
class SimulatedTransaction:
    """A transaction and its records; `born` maps each topic to the zxid of the topic's creation.

    `offset` is the input offset that a worker commits in the transaction; -1 if it commits none.
    """

    name: str
    fate: KnownOutcome = KnownOutcome.OPEN
    offset: int = -1
    values: dict[TopicPartition, list[bytes]] = attrs.field(factory=dict)
    born: dict[str, int] = attrs.field(factory=dict)

    @property
    def may_be_visible(self) -> bool:
        """Whether a reader of committed data may see the transaction."""
        return self.fate in (KnownOutcome.COMMITTING, KnownOutcome.COMMITTED)


@attrs.frozen
class CommittedView:
    """The records that a leader returned to a reader of committed data, from the log start to the last stable offset.

    Attributes:
        values: The visible values in the order of the log.
        stable: The last stable offset.
        high_watermark: The high watermark.
        data: The batches as they were read.
    """

    values: tuple[bytes, ...]
    stable: int
    high_watermark: int
    data: bytes = attrs.field(repr=False)


@attrs.frozen
class TransactionBroken:
    """A response or a read contradicts what producers know of their transactions.

    `text` describes the contradiction.
    """

    text: str
