"""Error codes of group requests: those that Apache Kafka 3.9.1 gave to the same requests (`group_codes.txt`).

`tests/cluster/test_apache_groups.py` compares the file with Apache's broker.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs

from messages.apis.list_groups import ListGroupsRequest
from messages.apis.offset_commit import CommittedPartition
from messages.cluster import TopicPartition
from messages.errors import UNKNOWN_TOPIC_OR_PARTITION
from tests.broker.harness import alive, known
from tests.coordinator.group_matrix import ANOTHER, RECORDED, TOPIC, Group, table
from tests.coordinator.world import World


@attrs.frozen
class InProcess:
    """A broker in virtual time."""

    world: World

    @classmethod
    def at(cls, place: Path) -> InProcess:
        world = World(place, partitions=1, group_initial_rebalance_delay_ms=0)
        world.update(known(TOPIC), known(ANOTHER), live=(alive(0), alive(1, 9093)))
        world.coordinate(0)
        world.find("any")
        return cls(world)

    def send(self, request: Any) -> int:
        id = self.world.post(request)
        self.world.run()
        return id

    def answer(self, handle: int, may_wait: bool = False) -> Any:
        if not may_wait:
            self.world.pass_time(0.001)
        response = self.world.answer(handle)
        assert may_wait or response is not None
        self.world.answers = [each for each in self.world.answers if each.correlation_id > handle]
        return response

    def producer(self, group: str) -> tuple[str, int, int]:
        return "id", 1, 0


def test_each_request_gets_the_codes_of_apache(tmp_path: Path) -> None:
    assert table(InProcess.at(tmp_path / "data")) == RECORDED.read_text()


def test_a_commit_of_missing_topics_alone_makes_no_group(tmp_path: Path) -> None:
    wire = InProcess.at(tmp_path / "data")
    group = Group(wire, "g")
    group.absent()
    commit = group.commit("none", None, None)
    missing = (CommittedPartition(TopicPartition("missing", 0), 7),)
    for partitions, codes in ((missing, [UNKNOWN_TOPIC_OR_PARTITION]), ((), [])):
        response = group.ask(attrs.evolve(commit, partitions=partitions))
        assert [each.error_code for each in response.partitions] == codes
    assert group.ask(ListGroupsRequest(4)).groups == ()
