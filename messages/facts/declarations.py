"""Classes of the facts that are read from a trace, such as the election of a controller or a refused request.

A fact has the run, the number and the time of the delivery that shows the fact: `replay --run RUN --until DELIVERY`
stops at this delivery.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol, TypeAlias

from messages.apis.update_metadata import UpdateMetadataPartitionState
from messages.cluster import TopicPartition
from messages.events import EVENT_WORDS
from messages.trace.endings import KILLED
from messages.trace.schema import STOPPED


class TracePosition(NamedTuple):
    """The position of a fact in a trace: its time in seconds since 1970, its run, and the number of the delivery.

    `event_id` is the number of the delivery that began the event to which this delivery belongs
    (`messages.trace.schema`).
    """

    at: float
    node: int
    run: str
    n: int
    event_id: int = 0


class ControllerEvent(NamedTuple):
    """An event that a controller received, with its position in the trace and the broker or topic that it concerns.

    The number of the event's delivery is also the event id: `place.n == place.event_id`. `waited` (in the queue) and
    `took` (in the handler) are in milliseconds, None until the event has ended: then a run shows it a second time.
    `client` is the client id if the event is a client's request.
    """

    place: TracePosition
    kind: str
    about: str = ""
    waited: float | None = None
    took: float | None = None
    client: str = ""

    @property
    def name(self) -> str:
        """The event without its place, as text."""
        return f"{self.kind} {self.about}".rstrip()

    @property
    def words(self) -> str:
        """A description of the event for readers who do not know its class."""
        known = EVENT_WORDS.get(self.kind)
        if known is not None:
            return known
        api = self.kind.removesuffix("Request")
        return f"{api} of client {self.client}" if self.client else f"a client's {api}"

    def __str__(self) -> str:
        return f"{self.words} ({self.name}, delivery {self.place.n})"


class StateWrite(NamedTuple):
    """A partition's state that a controller or leader, named in `by`, wrote to the znode or read from it.

    `event` is the controller event that caused the write or read. `version` is the version of the znode, -1 if unknown.
    `read` is True if a controller only read the state. The traces may lack the write of such a state: its writer was
    killed before ZooKeeper's answer, or has no trace.
    """

    place: TracePosition
    partition: TopicPartition
    leader: int
    epoch: int
    isr: tuple[int, ...]
    by: str
    taken: float
    event: ControllerEvent | None = None
    version: int = -1
    read: bool = False


class ReplicasAssigned(NamedTuple):
    """A new assignment of a partition: all its replicas, and which of them are being added or removed.

    `written` is True if this delivery wrote the assignment to ZooKeeper, and False if a controller read the assignment
    from ZooKeeper.
    """

    place: TracePosition
    partition: TopicPartition
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]
    event: ControllerEvent | None = None
    written: bool = False


class ReassignmentRequestRemoved(NamedTuple):
    """A reassignment request that a controller removed from /admin/reassign_partitions."""

    place: TracePosition
    partition: TopicPartition
    replicas: tuple[int, ...]
    event: ControllerEvent | None = None


class BrokersRead(NamedTuple):
    """The broker ids and broker epochs that a controller read from ZooKeeper."""

    place: TracePosition
    by: int
    brokers: dict[int, int]
    event: ControllerEvent | None = None


class BrokerGone(NamedTuple):
    """A broker was not registered in ZooKeeper any more, as a controller noticed, until it was `back` (None: never).

    `noticed` is the delivery of the event. `epoch` is the broker epoch of the registration that ended. `since` is the
    end of the broker's process, the begin of the time in which it did not run, or else the time of `noticed`. If the
    broker was killed, `late` is the number of seconds from `since` to `noticed`; otherwise 0.
    """

    place: TracePosition
    broker: int
    by: int
    event: ControllerEvent | None
    noticed: TracePosition
    epoch: int = 0
    since: float = 0.0
    late: float = 0.0
    back: TracePosition | None = None


class BrokerCame(NamedTuple):
    """A controller noticed that a broker has registered in ZooKeeper."""

    place: TracePosition
    broker: int
    by: int
    event: ControllerEvent | None


class Outage(NamedTuple):
    """The time in which a partition had no leader, in seconds since 1970; `until` is infinity if it is not over.

    It begins with the loss of the leader of `led`, the last state with this leader, as `shown_by` says: by the
    ELECTION of a broker that was dead, the LAST_RECORD of the broker, its SILENCE while its process did not run, or the
    controller's EVENT. It ends when the leader of the state `after` answers its LeaderAndIsr request (`order`); without
    an answer, when this was sent, or else when ZooKeeper stored the state. Without `after`, it ends when the topic was
    queued for deletion. `gap` has the states without a leader; there are none if one write replaced the leader. If the
    first recorded state has no leader, `led` is this state.
    """

    place: TracePosition
    partition: TopicPartition
    since: float
    until: float
    shown_by: str
    led: StateWrite
    gap: tuple[StateWrite, ...] = ()
    after: StateWrite | None = None
    order: LeaderAndIsrSent | None = None

    @property
    def first(self) -> StateWrite:
        """The state that replaced the lost leader."""
        first = self.gap[0] if self.gap else self.after
        assert first is not None
        return first


ELECTION, LAST_RECORD, SILENCE, EVENT = "election", "last record", "silence", "event"


class IsrChange(NamedTuple):
    """A broker `joined` or left the ISR of a partition; `after` is the state that replaced `before`."""

    place: TracePosition
    partition: TopicPartition
    broker: int
    joined: bool
    before: StateWrite
    after: StateWrite
    reason: ReasonToLeave | None = None


class Term(NamedTuple):
    """The term of a controller, from its election to its end; `ended` is None if the end is not recorded."""

    place: TracePosition
    broker: int
    epoch: int
    ended: ControllerResigned | None = None


class ControllerElected(NamedTuple):
    """A broker was elected as controller, with this controller epoch."""

    place: TracePosition
    broker: int
    epoch: int
    event: ControllerEvent | None = None


class ControllerResigned(NamedTuple):
    """A controller's term ended: `why` is the reason; if `why` is empty, the reason is `event`."""

    place: TracePosition
    broker: int
    why: str
    event: ControllerEvent | None = None


class OverridesChanged(NamedTuple):
    """A broker wrote the overrides of `resource`, "topic NAME" or "broker ID": the changed values, None if removed."""

    place: TracePosition
    resource: str
    changes: dict[str, str | None]
    event: ControllerEvent | None = None


class TopicDeletionStep(NamedTuple):
    """A step in the deletion of topics: requested, queued, ineligible or deleted."""

    place: TracePosition
    step: str
    topics: tuple[str, ...]
    event: ControllerEvent | None = None


class LeaderAndIsrSent(NamedTuple):
    """A LeaderAndIsr request to a broker: when it was `sent` and `answered`, and the answer's error code (`outcome`).

    `sent` is 0 if the request was not sent; `answered` is 0 if it was not answered. Without an answer, `outcome` is
    None, and `why` has the error of the channel's last attempt to send.
    """

    place: TracePosition
    broker: int
    partition: TopicPartition
    leader: int
    epoch: int
    sent: float = 0.0
    answered: float = 0.0
    outcome: int | None = None
    why: str = ""


class RequestFailed(NamedTuple):
    """A request to a broker remained without a response, because the connection failed."""

    place: TracePosition
    broker: int
    reason: str


class BrokerResponse(NamedTuple):
    """The last response of a broker to a controller's requests in a run."""

    place: TracePosition
    broker: int


class RequestRefused(NamedTuple):
    """A request that a controller rejected, and the topic, partition or broker that it concerned.

    If a controlled shutdown was rejected, `left` has the partitions that the broker still leads.
    """

    place: TracePosition
    request: str
    subject: str | TopicPartition | int
    code: int
    why: str = ""
    left: tuple[TopicPartition, ...] = ()


class OperationDenied(NamedTuple):
    """An operation of a client that the authorizer refused, with Kafka's names, and how many times.

    `denied_by` is the ACL that denies it; "" if no ACL allows it.
    """

    place: TracePosition
    principal: str
    client_host: str
    client_id: str
    api: str
    operation: str
    resource: str
    name: str
    denied_by: str
    times: int = 1


class AuthenticationFailures(NamedTuple):
    """Clients failed to authenticate on a listener, about a second before: how often, with this mechanism.

    The mechanism is TLS for a failed handshake, and "" if the client has chosen none.
    """

    place: TracePosition
    listener: str
    mechanism: str
    times: int


class StateChangeRefused(NamedTuple):
    """The controller could not do `what` for a partition, such as move it to a state; `why` is what it logged."""

    place: TracePosition
    partition: TopicPartition
    what: str
    why: str
    event: ControllerEvent | None = None


class ReplicaDeletionFailed(NamedTuple):
    """A broker answered StopReplica with an error: it did not delete its replica of this partition."""

    place: TracePosition
    broker: int
    partition: TopicPartition
    code: int


class ErrorAnswered(NamedTuple):
    """An error code in the response to a client or broker, and how many `times` the response contains it.

    `client_id`, `group` and `batch` come from the request. They are empty or None if the request is not recorded or
    does not have them.
    """

    place: TracePosition
    api: str
    code: int
    subject: str
    times: int = 1
    client_id: str = ""
    group: str = ""
    batch: ProducerBatch | None = None


class ProducerBatch(NamedTuple):
    """A batch of an idempotent producer: the producer's id and epoch, and the batch's first sequence number.

    `expected` is the sequence number that follows the producer's earlier batches; -1 if it is not recorded.
    """

    producer_id: int
    producer_epoch: int
    sequence: int
    expected: int = -1


class InjectedFaultReturned(NamedTuple):
    """A client's request that a listener answered with a fault injected by a test."""

    place: TracePosition
    fault: str
    value: float
    api: str
    client_id: str


class NodeFaultChange(NamedTuple):
    """A fault of a node was injected by a test, took effect for the first time, or was removed."""

    place: TracePosition
    fault: str
    value: float
    change: str
    hits: int


class FollowerLagged(NamedTuple):
    """A leader removes a follower from the ISR, because the follower has lagged for more than `lag` seconds.

    `end` and `leader_end` are the log end offsets of the follower (-1 before its first fetch) and of the leader.
    `fetched_ago` and `caught_up_ago` are the seconds since the follower's last fetch and since the follower was last
    caught up; -1 means never. `version` is the version of the partition's znode that the write replaces.
    """

    place: TracePosition
    partition: TopicPartition
    leader: int
    broker: int
    end: int
    leader_end: int
    fetched_ago: float
    caught_up_ago: float
    lag: float
    version: int = -1


class FetchFailed(NamedTuple):
    """A follower's fetch got no response from its leader, because the connection failed."""

    place: TracePosition
    leader: int
    reason: str


class ReplicationThrottled(NamedTuple):
    """A broker's throttle of replication changed: `rate` is in bytes per second, None without a limit.

    `side` is "leader" or "follower". `topics` has the throttled partitions of each topic; None means all of them.
    """

    place: TracePosition
    side: str
    rate: int | None
    topics: dict[str, tuple[int, ...] | None]

    def concerns(self, partition: TopicPartition) -> bool:
        """Return whether the rate of this partition is limited."""
        numbers = self.topics.get(partition.topic, ())
        return self.rate is not None and (numbers is None or partition.partition in numbers)


class MinInsyncReplicas(NamedTuple):
    """The `min.insync.replicas` of a leader's partition; there is no such fact if a new leader has the default, 1."""

    place: TracePosition
    partition: TopicPartition
    replicas: int


class MetadataCached(NamedTuple):
    """A broker stored metadata that a controller sent: leaders and replicas of `states`, and the live brokers.

    `controller` is None in a part of a large request, which has only states. Only a reader of one node's view has it.
    """

    place: TracePosition
    controller: int | None
    controller_epoch: int
    brokers: tuple[int, ...]
    states: tuple[UpdateMetadataPartitionState, ...]


class SessionChanged(NamedTuple):
    """The state of a node's ZooKeeper session changed: `connected`, `suspended` or `expired`."""

    place: TracePosition
    state: str


class ControllerZnodeDeleted(NamedTuple):
    """A node was notified by ZooKeeper that /controller was deleted."""

    place: TracePosition


class RegistrationTaken(NamedTuple):
    """A broker could not register, because another live session has its broker id.

    `owner` is the id of that session.
    """

    place: TracePosition
    owner: int


class LogDirectoryFailed(NamedTuple):
    """A disk error occurred in the log of a partition, so its log directory is offline."""

    place: TracePosition
    partition: TopicPartition
    error: str


class NodeFailure(NamedTuple):
    """A node stopped by itself because of an error, which `reason` describes."""

    place: TracePosition
    reason: str


class StopRequested(NamedTuple):
    """A node was stopped from outside, for example by SIGTERM."""

    place: TracePosition


class RecordingGap(NamedTuple):
    """A node recorded nothing for `seconds`, then lost its ZooKeeper connection; the gap ends at `place`.

    If ZooKeeper ended the node's session before the node noticed the loss, the node did not run during the gap.
    """

    place: TracePosition
    seconds: float

    @property
    def began(self) -> float:
        """The time of the last delivery before the gap, in seconds since 1970."""
        return self.place.at - self.seconds


class LogTruncated(NamedTuple):
    """A replica truncated its log: the end offset changed from `end` (-1 if not recorded) to `to`."""

    place: TracePosition
    partition: TopicPartition
    end: int
    to: int


class LogStartMoved(NamedTuple):
    """A replica removed the records before offset `start`, the new start of its log; `how` is RETAINED or DELETED.

    `before` is the former start, -1 if not recorded. `setting` is the one by which the retention removed records, "" if
    not recorded. `client_id` is that of the DeleteRecords request, None if there was none.
    """

    place: TracePosition
    partition: TopicPartition
    before: int
    start: int
    how: str
    setting: str = ""
    client_id: str | None = None


RETAINED, DELETED = "retention", "deleted"
"""Retention was over; a client deleted records, or the leader's log begins there."""


class LogPartCleaned(NamedTuple):
    """The log cleaner cleaned the offsets from `first` up to `end`, exclusive: of `before` bytes, `after` remained."""

    place: TracePosition
    partition: TopicPartition
    first: int
    end: int
    before: int
    after: int


class ClientThrottled(NamedTuple):
    """A broker throttled a client that used more than its quota, of `bound` per second, `times` times.

    `quota` is the quota's name, `owner` whose quota it is, and `longest_ms` the longest time the client had to wait.
    """

    place: TracePosition
    user: str
    client_id: str
    quota: str
    owner: str
    bound: float
    times: int
    longest_ms: int


class EventWithoutEffect(NamedTuple):
    """A controller event that changed nothing, and the reason."""

    place: TracePosition
    event: ControllerEvent
    why: str


class PendingEvent(NamedTuple):
    """A controller event that was pending when the trace ended: its `age` in seconds, and what it waits for."""

    place: TracePosition
    event: ControllerEvent
    age: float
    waits_for: str


class TransactionRequest(NamedTuple):
    """A producer's request about a transactional id, and the error code in the coordinator's response.

    The producer id and epoch are those of the request; for a successful InitProducerId, those of the response.
    """

    place: TracePosition
    transactional_id: str
    api: str
    producer_id: int
    producer_epoch: int
    code: int
    partitions: tuple[TopicPartition, ...] = ()
    group: str = ""
    client_id: str = ""


class TransactionDecision(NamedTuple):
    """A coordinator decided to commit or to abort a transaction, and sends markers to these partitions.

    `api` is the request that caused the decision, "" for the transaction timeout. `loaded` is True if an earlier
    coordinator made the decision, and the new coordinator found the decision when it loaded the transactional id.
    """

    place: TracePosition
    transactional_id: str
    producer_id: int
    producer_epoch: int
    commit: bool
    partitions: tuple[TopicPartition, ...]
    api: str = ""
    loaded: bool = False


class TransactionMarked(NamedTuple):
    """The marker that ends a transaction was written to these partitions."""

    place: TracePosition
    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: tuple[TopicPartition, ...]


class GroupHosted(NamedTuple):
    """A broker began to coordinate a consumer group; `log` is the group's partition of __consumer_offsets."""

    place: TracePosition
    group: str
    log: TopicPartition


class CoordinatorPartitionRead(NamedTuple):
    """A coordinator has read a partition of its topic, without `unreadable` damaged batches; 0 if it was read whole.

    `code` is not NONE if the partition could not be read at all.
    """

    place: TracePosition
    partition: TopicPartition
    unreadable: int
    code: int


class GroupStateChanged(NamedTuple):
    """A consumer group has a new state, such as PreparingRebalance."""

    place: TracePosition
    group: str
    state: str


class GroupMemberAction(NamedTuple):
    """A client's request to join or leave a consumer group, or the expiry of one of the group's timers.

    `action` is JOINED, LEFT, EXPIRED, NOT_JOINED or NOT_SYNCED. `timeout_ms` is the session timeout of a member, and
    `reason` the one that the client gives for its request.
    """

    place: TracePosition
    group: str
    action: str
    member: str = ""
    client_id: str = ""
    timeout_ms: int = -1
    reason: str = ""


class GroupMemberAdmitted(NamedTuple):
    """The coordinator answered a JoinGroup request: the member belongs to this generation of the group."""

    place: TracePosition
    group: str
    generation: int
    member: str
    client_id: str = ""


JOINED, LEFT, EXPIRED, NOT_JOINED, NOT_SYNCED = "joined", "left", "expired", "not joined", "not synced"


class NodeRun(NamedTuple):
    """A run of a node from its start to its end, with its registrations in ZooKeeper and the reason why it ended.

    `registered` has the broker epoch and the time of each registration. It is empty if the registration was refused.
    """

    place: TracePosition
    began: float
    ending: str
    registered: tuple[tuple[int, float], ...] = ()

    @property
    def end(self) -> float:
        """When the process ended; infinity if only its recording ended, or if it still runs."""
        return self.place.at if self.ending in (STOPPED, KILLED) else math.inf


class Undecodable(NamedTuple):
    """A message that cannot be decoded as its type, so no fact can be read from it; `why` is the error."""

    place: TracePosition
    type: str
    why: str


RegistrationEnd: TypeAlias = NodeRun | NodeFailure | StopRequested | SessionChanged | RecordingGap
"""Why a broker's registration ended."""
ReasonToLeave: TypeAlias = FollowerLagged | BrokerGone | LogDirectoryFailed | ControllerEvent
"""Why a broker left an ISR."""


class Fact(Protocol):
    """Any of these classes. A controller's fact without `event` belongs to the event `place.event_id`."""

    @property
    def place(self) -> TracePosition:
        """The position of the delivery that shows the fact."""

    def _asdict(self) -> dict[str, object]: ...


def fields_of(fact: Fact) -> dict[str, object]:
    """Return the values of a fact by name, without its place and empty values; partitions and events are texts."""
    values = {name: _plain(value) for name, value in fact._asdict().items()}
    return {name: value for name, value in values.items() if name != "place" and value not in (None, "", ())}


def _plain(value: object) -> object:
    if isinstance(value, ControllerEvent):
        return value.name
    if isinstance(value, TopicPartition):
        return str(value)
    return tuple(map(_plain, value)) if isinstance(value, tuple) else value
