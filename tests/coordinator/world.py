"""A broker with its group coordinator on virtual time. The partitions of __consumer_offsets are real logs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from thespian.actors import ActorAddress

from actors.coordinator.coordinator_finder import CoordinatorFinderActor
from actors.coordinator.group_coordinator import GroupCoordinatorActor
from actors.core.topic.topic_name import GROUP_METADATA
from messages.apis.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from messages.apis.heartbeat import HeartbeatRequest
from messages.apis.join_group import JoinGroupRequest, JoinProtocol
from messages.apis.offset_commit import CommittedPartition, OffsetCommitRequest
from messages.apis.offset_fetch import OffsetFetchRequest
from messages.apis.sync_group import MemberAssignment, SyncGroupRequest
from messages.ask import Answer, Ask, Failure
from messages.broker import CreateMissingTopics
from messages.cluster import PartitionAssignment, ReplicaAssignment, TopicPartition
from messages.node import StartCoordinatorFinder, StartGroupCoordinator, StartRequestHandler
from messages.placement import slot
from messages.vocabulary import Message
from messages.zookeeper import Assignments, GetAssignments, TopicAssignment
from tests.broker.harness import Broker, alive, known, order

T0 = TopicPartition("t", 0)
RANGE = (JoinProtocol("range", b"\0\1\0\0\0\1\0\1t"),)


class World(Broker):
    """Broker 0, which leads the partitions of __consumer_offsets that the test selects, of `partitions`."""

    def __init__(self, place: Path, partitions: int = 4, **fields: Any) -> None:
        self.topic_exists: bool | None = True
        """None while ZooKeeper is unavailable."""
        self.partitions = partitions
        self.created: list[Message] = []
        super().__init__(place, start=False, **fields)
        topic_creation = self.base.external_endpoint(
            "topic creation", lambda message, sender: self.created.append(message)
        )
        self.finder = self.system.createActor(CoordinatorFinderActor)
        self.base.inject(self.finder, StartCoordinatorFinder(self._bridge, self.cache, topic_creation))
        self._coordinator = self.coordinator = self.system.createActor(GroupCoordinatorActor)
        self.base.inject(self.coordinator, StartGroupCoordinator(self.settings, self.cache, self.finder))
        self.base.inject(
            self.handler,
            StartRequestHandler(
                *(self.settings, self.cache, self.manager, None, self.partition_requests),
                group_coordinator=self.coordinator,
                coordinator_finder=self.finder,
            ),
        )
        self.start()
        self.epoch = 0
        self.update(known("t"), live=(alive(0), alive(1, 9093)))

    def _asked(self, message: Ask, sender: ActorAddress) -> None:
        if not isinstance(message.question, GetAssignments):
            super()._asked(message, sender)
            return
        replicas = tuple(PartitionAssignment(n, ReplicaAssignment((0, 1))) for n in range(self.partitions))
        topics = (TopicAssignment(GROUP_METADATA, replicas),) if self.topic_exists else ()
        away = Failure("ConnectionLoss", "ZooKeeper is away")
        result = away if self.topic_exists is None else Assignments(topics)
        self.base.inject(sender, Answer(message.id, result), self._bridge)

    def coordinate(self, *partitions: int, leader: int = 0) -> None:
        """Make a broker the leader of these partitions of __consumer_offsets."""
        self.epoch += 1
        reported = {"leader": leader, "epoch": self.epoch, "isr": (leader,), "replicas": (leader, 1 - leader)}
        self.update(
            *(known(GROUP_METADATA, number, **reported) for number in partitions), live=(alive(0), alive(1, 9093))
        )
        self.lead(*(order(GROUP_METADATA, number, **reported, is_new=self.epoch == 1) for number in partitions))

    def partition_of(self, group: str) -> int:
        return slot(group) % self.partitions

    def pass_time(self, seconds: float) -> None:
        self.base.simulate(self.clock.now() + seconds)

    def answer(self, id: int) -> Any:
        """Return the response to a request; None while it waits."""
        self.run()
        return next((answer.response for answer in self.answers if answer.correlation_id == id), None)

    def find(self, group: str, **fields: Any) -> FindCoordinatorResponse:
        response: FindCoordinatorResponse = self.ask(FindCoordinatorRequest(3, group, **fields))
        return response

    def commit(self, group: str = "g", offset: int = 7, member: str = "", generation: int = -1, *more: Any) -> int:
        """Commit an offset for t-0, and return the error code."""
        part = (CommittedPartition(T0, offset), *more)
        response = self.ask(OffsetCommitRequest(8, group, generation, member, part))
        return int(response.partitions[0].error_code)

    def fetch(self, group: str = "g") -> dict[TopicPartition, int] | int:
        """Return all offsets of a group, or the error code."""
        response = self.ask(OffsetFetchRequest(7, group, None))
        return response.error_code or {each.partition: each.committed_offset for each in response.partitions}

    def join(self, group: str = "g", member: str = "", version: int = 3, **fields: Any) -> int:
        """Send a JoinGroup request without waiting for its response, and return its correlation id."""
        defaults: dict[str, Any] = {"session_timeout_ms": 10_000, "rebalance_timeout_ms": 60_000}
        request = JoinGroupRequest(
            version, group, member_id=member, protocol_type="consumer", protocols=RANGE, **{**defaults, **fields}
        )
        id = self.post(request)
        self.run()
        return id

    def member(self, group: str = "g", **fields: Any) -> str:
        """Create a group with one member that has its assignment, and return the member id."""
        joining = self.join(group, **fields)
        self.pass_time(3.0)
        joined = self.answer(joining)
        given = (MemberAssignment(joined.member_id, b"all"),)
        synced = self.ask(SyncGroupRequest(3, group, joined.generation_id, joined.member_id, given))
        assert synced.assignment == b"all"
        return str(joined.member_id)

    def heartbeat(self, member: str, group: str = "g", generation: int = 1) -> int:
        return int(self.ask(HeartbeatRequest(4, group, generation, member)).error_code)

    def made(self) -> list[tuple[str, ...]]:
        """Return the topics of the CreateMissingTopics messages."""
        return [message.topics for message in self.created if isinstance(message, CreateMissingTopics)]
