"""Drive the controller's flows by `.send()`.

Dicts answer as ZooKeeper does, and a real `TopicDeletions` record plans deletions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from actors.core.controller.context import ControllerContext
from actors.core.controller.instructions import RecordRefusals, SendRequest
from actors.core.controller.states import PartitionState, ReplicaState
from actors.core.controller.topic_deletion import TopicDeletions
from actors.core.controller.validation import disagreements, inconsistencies
from actors.runtime.flow.flow import Raised, Returned, advance
from messages import cluster, zookeeper
from messages.ask import AskFailed, ConnectionLoss, Done, Question, ZooKeeperRefused
from messages.events import Refusal
from messages.flow.conversation import Await, Begin, Flow, Worked
from messages.node import NodeSettings
from messages.store import BAD_VERSION, NO_NODE, NODE_EXISTS, OK

EPOCH = 50
FENCE = 7


def endpoint(broker_id: int) -> cluster.Endpoint:
    """Return the only listener of a broker."""
    return cluster.Endpoint("PLAINTEXT", f"host{broker_id}", 9092)


def settings(**options: Any) -> NodeSettings:
    """Return the settings of broker 5."""
    return NodeSettings(5, (endpoint(5),), (endpoint(5),), (), "zk", **options)


class Scene:
    """A controller context of epoch 50 with these live brokers, and the ZooKeeper state that its flows use."""

    def __init__(self, *broker_ids: int, broker_epoch: int = 1, **options: Any) -> None:
        self.context = context = ControllerContext(settings(**options))
        context.begin_term(EPOCH, FENCE)
        for broker_id in broker_ids:
            context.add_broker(cluster.Broker(broker_id, (endpoint(broker_id),), broker_epoch))
        self.record = TopicDeletions()
        self.znodes: dict[cluster.TopicPartition, cluster.LeaderIsrAndControllerEpoch] = {}
        self.configs: dict[str, tuple[cluster.ConfigEntry, ...]] = {}
        self.wanted: tuple[cluster.TopicPartition, ...] | None = None
        """Partitions in /admin/preferred_replica_election; None without the znode."""
        self.reassignments: tuple[zookeeper.RequestedReassignment, ...] | None = None
        """Requests in /admin/reassign_partitions; None without the znode."""
        self.topic_znodes: dict[str, zookeeper.TopicAssignment] = {}
        """Last written assignment of each topic."""
        self.raising: dict[type, Exception] = {}
        self.before_write: list[Callable[[], None]] = []
        self.asked: list[Any] = []
        self.begun: list[Any] = []
        """Results of the `Begin` steps, by ticket."""
        self.sent: list[tuple[int, Any]] = []
        self.parts: list[tuple[Any, ...]] = []
        """Parts of each sent request, in the order of `sent`."""
        self.done: list[Any] = []
        self.steps: list[Any] = []
        """Questions, requests with their receivers, and other steps, in order."""
        self.refused: list[Refusal] = []
        """State changes that the controller recorded as refused."""
        self.worked = 0.0
        """Sum of the shares of all `Worked` steps."""
        self.refused_topics: set[str] = set()
        """Topics whose znode cannot be written."""
        self.breaks_at: tuple[int, bool] | None = None
        """(number of the question whose answer is lost, whether the question is carried out)"""

    def run(self, flow: Flow[Any]) -> Any:
        """Drive a flow to its end and return its result."""
        match advance(flow, self.perform):
            case Returned(result):
                assert inconsistencies(self.context) == []
                return result
            case Raised(error):
                raise error

    def perform(self, step: Any) -> Any:
        """Perform one step of a flow.

        Answer questions at once, also those that are awaited later; record requests and other steps.
        """
        if isinstance(step, Begin):
            try:
                self.begun.append(self.perform(step.question))
            except AskFailed as error:
                self.begun.append(error)
            return len(self.begun) - 1
        if isinstance(step, Await):
            result = self.begun[step.ticket]
            if isinstance(result, AskFailed):
                raise result
            return result
        if isinstance(step, Question):
            self.asked.append(step)
            self.steps.append(step)
            if self.breaks_at is not None and self.breaks_at[0] == len(self.asked) - 1:
                if self.breaks_at[1]:
                    self.answer(step)
                raise ConnectionLoss("its answer is lost")
            if type(step) in self.raising:
                raise self.raising[type(step)]
            return self.answer(step)
        if isinstance(step, SendRequest):
            self.sent.append((step.broker_id, step.request))
            self.parts.append(step.parts)
            self.steps.append((step.broker_id, step.request))
        elif isinstance(step, RecordRefusals):
            self.refused += step.refused.refusals
        elif isinstance(step, Worked):
            self.worked += step.share
        else:
            self.done.append(step)
            self.steps.append(step)
        return None

    def answer(self, question: Any) -> Any:
        """Return the answer of ZooKeeper, or of the deletion record, to a question."""
        match question:
            case zookeeper.GetPartitionStates(partitions, _):
                return zookeeper.PartitionStates(
                    tuple(zookeeper.PartitionStateRead(tp, self.znodes.get(tp)) for tp in partitions)
                )
            case zookeeper.CreatePartitionStates(states):
                return zookeeper.WriteResults(tuple(self._create(*entry) for entry in states))
            case zookeeper.UpdatePartitionStates(states):
                if self.before_write:
                    self.before_write.pop(0)()
                return zookeeper.WriteResults(tuple(self._update(*entry) for entry in states))
            case zookeeper.GetBrokerConfigs(brokers):
                return zookeeper.BrokerConfigs(tuple(zookeeper.BrokerConfig(broker, ()) for broker in brokers))
            case zookeeper.GetTopicConfigs(topics):
                return zookeeper.TopicConfigs(
                    tuple(zookeeper.TopicConfig(topic, self.configs.get(topic, ())) for topic in topics)
                )
            case zookeeper.GetPreferredElections():
                return zookeeper.PreferredElections(self.wanted is not None, self.wanted or ())
            case zookeeper.DeletePreferredElections():
                self.wanted = None
                return Done()
            case zookeeper.GetReassignments():
                return zookeeper.Reassignments(self.reassignments is not None, self.reassignments or ())
            case zookeeper.RemoveReassignments(requests):
                left = tuple(each for each in self.reassignments or () if each not in requests)
                self.reassignments = left or None
                return zookeeper.Reassignments(bool(left), left)
            case zookeeper.SetAssignments(topics):
                if not self.refused_topics.isdisjoint(each.topic for each in topics):
                    raise ZooKeeperRefused("NO_NODE")
                self.topic_znodes.update((each.topic, each) for each in topics)
                return Done()
            case zookeeper.StartWatching() | zookeeper.StopWatching() | zookeeper.DeleteTopics():
                return Done()
        return planned(self.record, question)

    def _create(
        self, partition: cluster.TopicPartition, state: cluster.LeaderIsrAndControllerEpoch
    ) -> zookeeper.WriteResult:
        if partition in self.znodes:
            return zookeeper.WriteResult(partition, NODE_EXISTS, -1)
        self.znodes[partition] = state
        return zookeeper.WriteResult(partition, OK, 0)

    def _update(
        self, partition: cluster.TopicPartition, state: cluster.LeaderIsrAndControllerEpoch
    ) -> zookeeper.WriteResult:
        current = self.znodes.get(partition)
        if current is None:
            return zookeeper.WriteResult(partition, NO_NODE, -1)
        if current.zk_version != state.zk_version:
            return zookeeper.WriteResult(partition, BAD_VERSION, -1)
        written = leadership(
            state.leader, *state.isr, epoch=state.leader_epoch, version=state.zk_version + 1, by=state.controller_epoch
        )
        self.znodes[partition] = written
        return zookeeper.WriteResult(partition, OK, written.zk_version)

    # ------------------------------------------------------------------------------------------- setup

    def assign(self, topic: str, *assignments: tuple[int, ...]) -> list[cluster.TopicPartition]:
        """Assign these replicas to a topic's partitions, in the context only, and return the partitions."""
        partitions = [cluster.TopicPartition(topic, n) for n in range(len(assignments))]
        for partition, replicas in zip(partitions, assignments, strict=True):
            self.context.set_assignment(partition, cluster.ReplicaAssignment(replicas))
        return partitions

    def lead(self, partition: cluster.TopicPartition, leader: int, *isr: int, epoch: int = 0, version: int = 0) -> None:
        """Set a partition's leadership in the context and in ZooKeeper."""
        state = leadership(leader, *isr, epoch=epoch, version=version)
        self.znodes[partition] = state
        self.context.lead(partition, state)

    def put(self, partition: cluster.TopicPartition, state: PartitionState) -> None:
        """Set a partition's state."""
        self.context.set_partition_state(partition, state)

    def put_replica(self, partition: cluster.TopicPartition, broker_id: int, state: ReplicaState) -> None:
        """Set a replica's state."""
        self.context.set_replica_states(broker_id, (partition,), state)

    # ------------------------------------------------------------------------------------------- results

    def requests(self, kind: type, broker_id: int | None = None) -> list[Any]:
        """Return the requests of a kind that were sent, by default to all brokers."""
        return [request for to, request in self.sent if isinstance(request, kind) and broker_id in (None, to)]

    def receivers(self, kind: type) -> list[int]:
        """Return the brokers to which requests of a kind were sent, in order."""
        return [to for to, request in self.sent if isinstance(request, kind)]

    def forget(self) -> None:
        """Clear the recorded questions, requests and other steps."""
        self.asked.clear()
        self.sent.clear()
        self.parts.clear()
        self.done.clear()
        self.steps.clear()

    def agreed(self) -> bool:
        """Return True if the controller and the deletion record agree; fail otherwise."""
        found = disagreements(self.context, self.record.report())
        assert found == []
        return True


def planned(record: TopicDeletions, question: Any) -> Any:
    """Return the deletion record's answer to a question."""
    match advance(record.answer(question), lambda step: None):
        case Returned(result):
            return result
        case Raised(error):
            raise error


def leadership(
    leader: int, *isr: int, epoch: int = 0, version: int = 0, by: int = EPOCH
) -> cluster.LeaderIsrAndControllerEpoch:
    """Return a partition's leadership."""
    return cluster.LeaderIsrAndControllerEpoch(leader, epoch, tuple(isr), by, version)
