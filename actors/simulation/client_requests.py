"""Send client requests at random times while a simulated cluster runs; some are valid, others must be rejected.

Rule 1: a row of `REQUESTS` makes one request about a partition or a group. Every node receives it: the leader,
        followers, the controller, and nodes that are not concerned.
Rule 2: a request changes nothing that an invariant expects: it appends records, reads, describes, and changes
        overrides, topics and groups of its own.
Rule 3: a request uses the state of ZooKeeper at the time of sending. A row returns None if it cannot make a request
        now. The requests of a tuple reach a stalled node together, and it handles them at once, in order. The elements
        of a list are sent one second apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

from actors.core.topic.topic_name import GROUP_METADATA
from actors.simulation.members import instance_of
from actors.simulation.simulated_cluster import PORT, Cluster, host_of
from messages.admin_requests import (
    PREFERRED,
    UNCLEAN,
    AlterPartitionReassignmentsRequest,
    CreatableAssignment,
    CreatableConfig,
    CreatableTopic,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    ElectableTopic,
    ElectLeadersRequest,
    GrowingTopic,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
    ReassignablePartition,
    ReassignableTopic,
    WantedReplicas,
)
from messages.cluster import UNKNOWN_BROKER_EPOCH, TopicPartition
from messages.config_requests import (
    BROKER,
    TOPIC,
    AlterConfigsRequest,
    ChangedResource,
    ConfigChange,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    IncrementalAlterConfigsRequest,
)
from messages.data_requests import (
    ACKS_ALL,
    CONSUMER,
    EARLIEST,
    LATEST,
    DeleteRecordsRequest,
    EpochQuery,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ListOffsetsRequest,
    OffsetForLeaderEpochRequest,
    OffsetQuery,
    ProducePartition,
    ProduceRequest,
    TrimmedPartition,
)
from messages.error_codes import NONE
from messages.group_requests import (
    NO_GENERATION,
    NO_MEMBER,
    TRANSACTION_KEY,
    CommittedPartition,
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    FindCoordinatorRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    JoinProtocol,
    LeaveGroupRequest,
    LeavingMember,
    ListGroupsRequest,
    OffsetCommitRequest,
    OffsetDeletePartition,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    OffsetFetchTopic,
    SyncGroupRequest,
)
from messages.log_dir_requests import DescribableLogDirTopic, DescribeLogDirsRequest
from messages.records import CONTROL_BIT, TRANSACTION_BIT, Records
from messages.requests import (
    ApiVersionsRequest,
    ControlledShutdownRequest,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LiveLeader,
    MetadataRequest,
    StopReplicaPartitionState,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from messages.security_requests import (
    AclCreation,
    CreateAclsRequest,
    CreateDelegationTokenRequest,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DescribeAclsRequest,
    DescribeDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
)
from messages.transaction_requests import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTransaction,
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    EndTxnRequest,
    ListTransactionsRequest,
    TxnOffsetCommitRequest,
    WritableTxnMarker,
    WriteTxnMarkersRequest,
)
from messages.vocabulary import AnyMessage, Message
from messages.wire.record_batch import HEADER, batch_of, read_records, with_records
from zk_bridge import paths
from zk_bridge.znodes.controller import decode_controller
from zk_bridge.znodes.partition_states import decode_state
from zk_bridge.znodes.topics import decode_topic

ABSENT_TOPIC = "absent"
BAD_NAME = "bad/name"
OWN_GROUP = "own"
"""A group without members: a consumer that assigns its partitions itself commits under its name."""
TIMEOUT_MS = 3000
ANY = 0, 0, 0, 0
ZSTD_ATTRIBUTES = 4


class RequestTarget(NamedTuple):
    """The node that receives a client request, and the partition and consumer group that the request is about."""

    cluster: Cluster
    node: int
    topic: str
    number: int
    group: str

    @property
    def partition(self) -> TopicPartition:
        """The partition."""
        return TopicPartition(self.topic, self.number)

    @property
    def absent(self) -> TopicPartition:
        """A partition that does not exist."""
        return TopicPartition(ABSENT_TOPIC, 0)

    @property
    def leader_epoch(self) -> int:
        """The partition's leader epoch in ZooKeeper; 0 without a state."""
        path = paths.partition_state(self.partition)
        node = self.cluster.zookeeper.nodes.get(path)
        return 0 if node is None else decode_state(path, node.data, 0).leader_epoch

    @property
    def partitions(self) -> int:
        """The number of the topic's partitions in ZooKeeper."""
        data = self.cluster.zookeeper.read(paths.topic(self.topic)).data
        return 0 if data is None else len(decode_topic("", data))

    @property
    def replicas(self) -> tuple[int, ...]:
        """The partition's replicas in ZooKeeper."""
        data = self.cluster.zookeeper.read(paths.topic(self.topic)).data
        found = () if data is None else decode_topic("", data)
        return next((each.assignment.replicas for each in found if each.partition == self.number), ())

    @property
    def controller(self) -> tuple[int, int]:
        """The id of the controller and its epoch; -1 and 0 without a controller.

        /controller_epoch may be higher: the action `fence` raises it.
        """
        data = self.cluster.zookeeper.read(paths.CONTROLLER).data
        id = -1 if data is None else decode_controller(paths.CONTROLLER, data)
        context = self.cluster.controllers().get(id)
        return (-1, 0) if context is None else (id, context.epoch)

    @property
    def broker_epoch(self) -> int:
        """The epoch of the node's registration; -1 without a registration."""
        node = self.cluster.zookeeper.nodes.get(f"/brokers/ids/{self.node}")
        return UNKNOWN_BROKER_EPOCH if node is None else node.czxid


Make = Callable[[RequestTarget], AnyMessage | None]
Step = AnyMessage | tuple[AnyMessage, ...]
Wanted = Callable[[RequestTarget], Step | list[Step] | None]

GAP = 1.0
"""Seconds between the elements of a list (rule 3)."""

STALL = 0.1
"""Seconds for which a tuple of requests stalls its node."""

SPACING = 0.0015
"""Seconds between the requests of a tuple: more than the jitter of the network, so that they keep their order."""

# ---------------------------------------------------------------------------------------------------- records


def _batch(about: RequestTarget, **header: int) -> Records:
    """Return a batch of one record, with these fields in its header."""
    batch = batch_of([(b"key", b"asked")], about.cluster.wall_ms())
    if not header:
        return batch
    changed = batch.batches[0]._replace(**header)
    return read_records(with_records(changed, bytes(batch.body.data)[HEADER.size :]))


def _produce(
    partition: Callable[[RequestTarget], TopicPartition] = lambda about: about.partition,
    acks: int = ACKS_ALL,
    version: int = 8,
    value: bytes = b"",
    **header: int,
) -> Make:
    def make(about: RequestTarget) -> Message:
        batch = batch_of([(b"key", value)], about.cluster.wall_ms()) if value else _batch(about, **header)
        return ProduceRequest(version, None, acks, TIMEOUT_MS, (ProducePartition(partition(about), batch),))

    return make


def _fetch(
    offset: int = 0,
    epoch: Callable[[RequestTarget], int] = lambda about: -1,
    partition: Callable[[RequestTarget], TopicPartition] = lambda about: about.partition,
    version: int = 11,
    session: tuple[int, int] = (0, -1),
    replica: int = CONSUMER,
) -> Make:
    def make(about: RequestTarget) -> Message:
        part = FetchPartition(partition(about), offset, 1 << 16, epoch(about))
        return FetchRequest(version, replica, 0, 0, (part,), 1 << 16, session_id=session[0], session_epoch=session[1])

    return make


def _offsets(
    timestamp: int = LATEST,
    epoch: Callable[[RequestTarget], int] = lambda about: -1,
    partition: Callable[[RequestTarget], TopicPartition] = lambda about: about.partition,
    version: int = 5,
) -> Make:
    return lambda about: ListOffsetsRequest(
        version, CONSUMER, (OffsetQuery(partition(about), timestamp, epoch(about)),)
    )


def _epoch_end(
    epoch: Callable[[RequestTarget], int] = lambda about: -1,
    partition: Callable[[RequestTarget], TopicPartition] = lambda about: about.partition,
) -> Make:
    return lambda about: OffsetForLeaderEpochRequest(
        3, CONSUMER, (EpochQuery(partition(about), about.leader_epoch, epoch(about)),)
    )


def _trim(offset: int, partition: Callable[[RequestTarget], TopicPartition] = lambda about: about.partition) -> Make:
    return lambda about: DeleteRecordsRequest(2, (TrimmedPartition(partition(about), offset),), TIMEOUT_MS)


def _absent(about: RequestTarget) -> TopicPartition:
    return about.absent


def _internal(about: RequestTarget) -> TopicPartition:
    return TopicPartition(GROUP_METADATA, 0)


def _old(about: RequestTarget) -> int:
    return about.leader_epoch - 1


def _coming(about: RequestTarget) -> int:
    return about.leader_epoch + 1


DATA: Mapping[str, Make] = {
    "produce": _produce(),
    "produce-one-ack": _produce(acks=1),
    "produce-bad-acks": _produce(acks=2),
    "produce-absent": _produce(_absent),
    "produce-internal": _produce(_internal),
    "produce-large": _produce(value=b"x" * 1_100_000),
    "produce-bad-offset": _produce(base_offset=5),
    "produce-control": _produce(attributes=CONTROL_BIT),
    "produce-old-zstd": _produce(version=3, attributes=ZSTD_ATTRIBUTES),
    "produce-old-time": _produce(first_timestamp=0, max_timestamp=0),
    "produce-gap": _produce(producer_id=7, producer_epoch=1, base_sequence=9),
    "produce-sequence": _produce(producer_id=7, producer_epoch=1, base_sequence=0),
    "produce-fenced": _produce(producer_id=7, producer_epoch=0, base_sequence=0),
    "produce-corrupt": lambda about: ProduceRequest(
        8, None, 1, TIMEOUT_MS, (ProducePartition(about.partition, _batch(about)._replace(error_code=2)),)
    ),
    "fetch": _fetch(),
    "fetch-absent": _fetch(partition=_absent),
    "fetch-beyond": _fetch(1 << 40),
    "fetch-old-version": _fetch(version=9),
    "fetch-old-epoch": _fetch(epoch=_old),
    "fetch-coming-epoch": _fetch(epoch=_coming),
    "fetch-unassigned": _fetch(replica=90),
    "fetch-no-session": _fetch(session=(1 << 30, 3)),
    "fetch-session": _fetch(session=(0, 0)),
    "list-offsets": _offsets(),
    "list-first-offsets": _offsets(EARLIEST),
    "list-offsets-of-a-time": _offsets(0, version=4),
    "list-offsets-old-version": _offsets(version=2),
    "list-offsets-absent": _offsets(partition=_absent),
    "list-offsets-old-epoch": _offsets(epoch=_old),
    "list-offsets-coming-epoch": _offsets(epoch=_coming),
    "epoch-end": _epoch_end(),
    "epoch-end-absent": _epoch_end(partition=_absent),
    "epoch-end-old-epoch": _epoch_end(_old),
    "epoch-end-coming-epoch": _epoch_end(_coming),
    "trim-absent": _trim(0, _absent),
    "trim-beyond": _trim(1 << 40),
    "trim-nothing": _trim(0),
    "producer-id": lambda about: InitProducerIdRequest(3, None, 60_000),
    "transactional-producer-id": lambda about: InitProducerIdRequest(3, "transaction", 60_000),
}
"""Requests of producers and consumers."""

# ---------------------------------------------------------------------------------------------------- admin clients


def _create(*topics: CreatableTopic, validate_only: bool = True) -> Make:
    return lambda about: CreateTopicsRequest(5, topics, TIMEOUT_MS, validate_only)


def _grow(
    by: int, *replicas: tuple[int, ...], topic: str = "", twice: bool = False, validate_only: bool = True
) -> Make:
    def make(about: RequestTarget) -> Message:
        wanted = tuple(map(WantedReplicas, replicas)) if replicas else None
        growing = GrowingTopic(topic or about.topic, about.partitions + by, wanted)
        return CreatePartitionsRequest(1, (growing,) * (2 if twice else 1), TIMEOUT_MS, validate_only)

    return make


def _elect(topic: str = "", kind: int = 0) -> Make:
    return lambda about: ElectLeadersRequest(
        1, (ElectableTopic(topic or about.topic, (about.number,)),), TIMEOUT_MS, kind
    )


def _reassign(replicas: tuple[int, ...] | None, topic: str = "") -> Make:
    return lambda about: AlterPartitionReassignmentsRequest(
        0, TIMEOUT_MS, (ReassignableTopic(topic or about.topic, (ReassignablePartition(about.number, replicas),)),)
    )


def _describe(kind: int, name: str | None = None) -> Make:
    return lambda about: DescribeConfigsRequest(
        3, (DescribeConfigsResource(kind, about.topic if name is None else name),), include_synonyms=True
    )


def _configure(
    kind: int, name: str | None, key: str, value: str, whole: bool = False, validate_only: bool = True
) -> Make:
    def make(about: RequestTarget) -> Message:
        changed = ChangedResource(kind, about.topic if name is None else name, (ConfigChange(key, value),))
        request = AlterConfigsRequest if whole else IncrementalAlterConfigsRequest
        return request(1, (changed,), validate_only)

    return make


def _log_dirs(about: RequestTarget) -> Message:
    return DescribeLogDirsRequest(2, (DescribableLogDirTopic(about.topic, (about.number,)),))


_TWICE = CreatableTopic("twice", 1, 1)

LATE = "late"
"""A topic whose only replica is on a broker that does not exist: it never has a leader."""


def _create_late(about: RequestTarget) -> Message:
    return CreateTopicsRequest(5, (CreatableTopic(LATE, assignments=(CreatableAssignment(0, (90,)),)),), 1)


def _own_topic(about: RequestTarget) -> list[Step]:
    """Return requests that create, change and delete a topic, without waiting for results."""
    name, brokers = f"own-{about.number}", sorted(about.cluster.machines)
    one = tuple(CreatableAssignment(number, (brokers[0],)) for number in range(2))
    moved = ReassignableTopic(name, (ReassignablePartition(0, (brokers[-1], brokers[0])),))
    growing = GrowingTopic(name, 3)
    return [
        CreateTopicsRequest(5, (CreatableTopic(name, assignments=one),), 1),
        AlterPartitionReassignmentsRequest(0, TIMEOUT_MS, (moved,)),
        CreatePartitionsRequest(1, (growing,), 1),
        ElectLeadersRequest(1, (ElectableTopic(name, (0,)),), 1),
        DeleteTopicsRequest(4, (name,), 1),
        CreatePartitionsRequest(1, (growing,), 1),
        ElectLeadersRequest(1, (ElectableTopic(name, (0,)),), 1),
    ]


def _moving_topic(about: RequestTarget) -> tuple[AnyMessage, ...]:
    """Return requests to add partitions to a topic during a reassignment; the controller must refuse the addition."""
    brokers = sorted(about.cluster.machines)
    moved = ReassignableTopic(about.topic, (ReassignablePartition(about.number, tuple(brokers)),))
    return (
        AlterPartitionReassignmentsRequest(0, TIMEOUT_MS, (moved,)),
        CreatePartitionsRequest(1, (GrowingTopic(about.topic, about.partitions + 1),), TIMEOUT_MS, True),
        _reassign(None)(about),
    )


def _late_topic(about: RequestTarget) -> list[Step]:
    """Return requests for leader elections of a partition that never has a leader.

    The partition's only replica is on a broker that does not exist, so the deletion of its topic never ends.
    """
    elections = [
        ElectLeadersRequest(1, (ElectableTopic(LATE, (0,)),), TIMEOUT_MS, kind) for kind in (PREFERRED, UNCLEAN)
    ]
    return [_create_late(about), *elections, DeleteTopicsRequest(4, (LATE,), 1)]


ADMIN: Mapping[str, Wanted] = {
    "metadata": lambda about: MetadataRequest(9, (about.topic,), False),
    "metadata-old-version": lambda about: MetadataRequest(0, None, False),
    "metadata-absent": lambda about: MetadataRequest(9, (ABSENT_TOPIC,), False),
    "metadata-bad-name": lambda about: MetadataRequest(9, (BAD_NAME,), True),
    "metadata-creates": lambda about: MetadataRequest(9, (f"auto-{about.number}",), True),
    "api-versions": lambda about: ApiVersionsRequest(3, "simulation", "1.0"),
    "api-versions-unknown": lambda about: ApiVersionsRequest(99),
    "api-versions-bad-name": lambda about: ApiVersionsRequest(3, "-", "-"),
    "log-dirs": _log_dirs,
    "create-valid": _create(CreatableTopic("valid", 2, 1)),
    "create-existing": lambda about: CreateTopicsRequest(5, (CreatableTopic(about.topic, 1, 1),), TIMEOUT_MS, True),
    "create-twice": _create(_TWICE, _TWICE),
    "create-bad-name": _create(CreatableTopic(BAD_NAME, 1, 1)),
    "create-no-partitions": _create(CreatableTopic("none", 0, 1)),
    "create-many-replicas": _create(CreatableTopic("many", 1, 90)),
    "create-bad-replicas": _create(CreatableTopic("bad", assignments=(CreatableAssignment(0, (0, 0)),))),
    "create-bad-config": _create(CreatableTopic("bad", 1, 1, configs=(CreatableConfig("no.such.config", "1"),))),
    "late-topic": _late_topic,
    "own-topic": _own_topic,
    "moving-topic": _moving_topic,
    "elect-unknown-type": _elect(kind=9),
    "metadata-internal": lambda about: MetadataRequest(9, (GROUP_METADATA,), True),
    "delete-absent": lambda about: DeleteTopicsRequest(4, (ABSENT_TOPIC,), TIMEOUT_MS),
    "delete-absent-old-version": lambda about: DeleteTopicsRequest(2, (ABSENT_TOPIC,), TIMEOUT_MS),
    "grow-valid": _grow(1),
    "grow-by-nothing": _grow(0),
    "grow-bad-replicas": _grow(1, (90,)),
    "grow-absent": _grow(1, topic=ABSENT_TOPIC),
    "grow-twice": _grow(1, twice=True),
    "elect": _elect(),
    "elect-absent": _elect(ABSENT_TOPIC),
    "elect-unclean-absent": _elect(ABSENT_TOPIC, UNCLEAN),
    "elect-all": lambda about: ElectLeadersRequest(1, None, TIMEOUT_MS),
    "reassign-cancel": _reassign(None),
    "reassign-absent": _reassign((0,), ABSENT_TOPIC),
    "reassign-nowhere": _reassign(()),
    "list-reassignments": lambda about: ListPartitionReassignmentsRequest(0, TIMEOUT_MS),
    "list-reassignment": lambda about: ListPartitionReassignmentsRequest(
        0, TIMEOUT_MS, (ListPartitionReassignmentsTopics(about.topic, (about.number,)),)
    ),
    "describe-topic": _describe(TOPIC),
    "describe-absent": _describe(TOPIC, ABSENT_TOPIC),
    "describe-bad-name": _describe(TOPIC, BAD_NAME),
    "describe-brokers": _describe(BROKER, ""),
    "describe-broker": _describe(BROKER, "0"),
    "alter-whole": _configure(TOPIC, None, "retention.ms", "900000000", whole=True),
    "alter-whole-absent": _configure(TOPIC, ABSENT_TOPIC, "retention.ms", "1", whole=True),
    "alter-whole-bad": _configure(TOPIC, None, "retention.ms", "soon", whole=True),
    "alter-whole-unknown": _configure(BROKER, "unknown", "num.replica.fetchers", "1", whole=True),
    "alter": _configure(TOPIC, None, "retention.ms", "900000000"),
    "alter-absent": _configure(TOPIC, ABSENT_TOPIC, "retention.ms", "1"),
    "alter-bad": _configure(TOPIC, None, "retention.ms", "soon"),
    "alter-broker": _configure(BROKER, "1", "num.replica.fetchers", "1"),
    "sasl-handshake": lambda about: SaslHandshakeRequest(1, "PLAIN"),
    "sasl": lambda about: SaslAuthenticateRequest(2),
    "describe-acls": lambda about: DescribeAclsRequest(2, 1, None, None, None, 1, 1),
    "create-acls": lambda about: CreateAclsRequest(2, (AclCreation(2, about.topic, "User:a", "*", 2, 3),)),
    "delete-acls": lambda about: DeleteAclsRequest(2, (DeleteAclsFilter(1, None, None, None, 1, 1),)),
    "create-token": lambda about: CreateDelegationTokenRequest(2),
    "renew-token": lambda about: RenewDelegationTokenRequest(2),
    "expire-token": lambda about: ExpireDelegationTokenRequest(2),
    "describe-token": lambda about: DescribeDelegationTokenRequest(2, None),
}
"""Requests of admin clients, of which most are only validated (rule 2)."""

# ---------------------------------------------------------------------------------------------------- groups


def _commit(
    group: str = OWN_GROUP,
    partition: Callable[[RequestTarget], TopicPartition] = lambda about: about.partition,
    generation: int = NO_GENERATION,
    member: str = NO_MEMBER,
    metadata: str = "",
) -> Make:
    return lambda about: OffsetCommitRequest(
        *(7, group or about.group, generation, member),
        (CommittedPartition(partition(about), 1, committed_metadata=metadata),),
    )


def _commit_in_transaction(
    group: str = OWN_GROUP,
    partition: Callable[[RequestTarget], TopicPartition] = lambda about: about.partition,
    member: str = NO_MEMBER,
    metadata: str = "",
) -> Make:
    """Return a function that makes a transactional commit, which is refused before its append.

    Nothing would end its transaction.
    """
    generation = NO_GENERATION if member == NO_MEMBER else 1
    return lambda about: TxnOffsetCommitRequest(
        *(3, "transaction", group, 1, 0),
        (CommittedPartition(partition(about), 1, committed_metadata=metadata),),
        *(generation, member),
    )


def _join(
    session_ms: int = 6000,
    member: str = NO_MEMBER,
    protocol: str = "range",
    group: str | None = None,
    version: int = 5,
    kind: str = "consumer",
) -> Make:
    return lambda about: JoinGroupRequest(
        *(version, about.group if group is None else group, session_ms, member, kind),
        (JoinProtocol(protocol, b""),),
        5000,
    )


def _forget(group: str, partition: Callable[[RequestTarget], TopicPartition] = lambda about: about.partition) -> Make:
    return lambda about: OffsetDeleteRequest(0, group or about.group, (OffsetDeletePartition(partition(about)),))


def _as_member(make: Callable[[RequestTarget, str, int], AnyMessage], leads: bool = True) -> Wanted:
    """Return a function that makes a request in the name of a group member; `leads`: the group leader may be chosen."""

    def made(about: RequestTarget) -> AnyMessage | None:
        group = about.cluster.members.groups.get(about.group)
        members = [] if group is None else [each for _, each in sorted(group.living.items()) if each.id]
        members = [each for each in members if leads or not each.leads]
        return make(about, members[0].id, members[0].generation) if members else None

    return made


def _commit_as(about: RequestTarget, member: str, generation: int) -> AnyMessage:
    committed = (CommittedPartition(about.partition, 1),)
    return OffsetCommitRequest(7, about.group, generation, member, committed)


def _join_static(about: RequestTarget) -> AnyMessage | None:
    """Return a JoinGroup request of a static member, which replaces an earlier member with its instance id."""
    group = about.cluster.members.groups.get(about.group)
    if group is None:
        return None
    group.has_static = True
    protocols = (JoinProtocol("range", b""),)
    return JoinGroupRequest(5, about.group, 6000, NO_MEMBER, "consumer", protocols, 5000, "another")


def _own_group(about: RequestTarget) -> list[Step]:
    """Return requests that delete a group while other requests about it are in flight."""
    deletion = DeleteGroupsRequest(2, (OWN_GROUP,))
    return [
        _commit()(about),
        (
            _commit()(about),
            _commit_in_transaction(partition=_absent)(about),
            _forget(OWN_GROUP)(about),
            deletion,
            deletion,
            HeartbeatRequest(3, OWN_GROUP, 0, "stranger"),
            SyncGroupRequest(3, OWN_GROUP, 1, "stranger"),
            LeaveGroupRequest(3, OWN_GROUP, (LeavingMember("stranger"),)),
            _join(group=OWN_GROUP)(about),
        ),
    ]


STUCK_GROUP = "stuck"
"""A group whose only member never sends the assignment of its generation."""

STUCK_INSTANCE = "stuck-0"


def _join_stuck_group(about: RequestTarget) -> Message:
    protocols = (JoinProtocol("range", b""),)
    return JoinGroupRequest(5, STUCK_GROUP, 6000, NO_MEMBER, "consumer", protocols, 5000, STUCK_INSTANCE)


def _to_stuck_group(about: RequestTarget, member: str, generation: int) -> list[Step]:
    """Return requests to a group that waits for its leader's assignment; the last one replaces the leader."""
    return [
        (
            _commit(STUCK_GROUP, generation=generation, member=member)(about),
            _commit_as_in_transaction(about, member, generation, group=STUCK_GROUP),
            _commit_as_in_transaction(about, member, generation - 1, group=STUCK_GROUP),
            _commit_as_in_transaction(about, "stranger", generation, STUCK_INSTANCE, STUCK_GROUP),
            _forget(STUCK_GROUP)(about),
            DeleteGroupsRequest(2, (STUCK_GROUP,)),
            _join(member=member, group=STUCK_GROUP)(about),
        ),
        _join_stuck_group(about),
    ]


def _delete_busy_group(about: RequestTarget) -> AnyMessage | None:
    """Return a request to delete a group with members. They may have left, so its commits are no longer expected."""
    group = about.cluster.members.groups.get(about.group)
    if group is not None:
        group.is_deleted = True
    return DeleteGroupsRequest(2, (about.group,))


GROUPS: Mapping[str, Wanted] = {
    "find-coordinator": lambda about: FindCoordinatorRequest(2, OWN_GROUP),
    "find-transactions": lambda about: FindCoordinatorRequest(2, "transaction", TRANSACTION_KEY),
    "find-other": lambda about: FindCoordinatorRequest(2, OWN_GROUP, 7),
    "commit": _commit(),
    "commit-absent": _commit(partition=_absent),
    "commit-long": _commit(metadata="x" * 5000),
    "commit-stranger": _commit("", generation=1, member="stranger"),
    "commit-outside": _commit(""),
    "commit-in-transaction-absent": _commit_in_transaction(partition=_absent),
    "commit-in-transaction-long": _commit_in_transaction(metadata="x" * 5000),
    "commit-in-transaction-stranger": _commit_in_transaction(member="stranger"),
    "commit-in-transaction-nameless": _commit_in_transaction(""),
    "fetch-offsets": lambda about: OffsetFetchRequest(7, OWN_GROUP, None),
    "fetch-one-offset": lambda about: OffsetFetchRequest(
        1, about.group, (OffsetFetchTopic(about.topic, (about.number,)),)
    ),
    "forget-offsets": _forget(OWN_GROUP),
    "forget-absent": _forget(OWN_GROUP, _absent),
    "forget-of-unknown": _forget("unknown"),
    "forget-of-nameless": lambda about: OffsetDeleteRequest(0, "", ()),
    "forget-passing": _forget("passing"),
    "forget-subscribed": _forget(""),
    "join-short-session": _join(1),
    "join-stranger": _join(member="stranger"),
    "join-other-protocol": _join(protocol="no other member has it"),
    "join-nameless": _join(group=""),
    "join-and-go": _join(group="passing", kind="connect"),
    "join-at-once": _join(group="passing", kind="connect", version=3),
    "join-as-well": _join(version=3),
    "sync-stranger": lambda about: SyncGroupRequest(3, about.group, 1, "stranger"),
    "sync-nameless": lambda about: SyncGroupRequest(3, "", 1, "stranger"),
    "sync-without-protocol": lambda about: SyncGroupRequest(5, about.group, 1, "stranger"),
    "beat-stranger": lambda about: HeartbeatRequest(3, about.group, 1, "stranger"),
    "beat-nameless": lambda about: HeartbeatRequest(3, "", 1, "stranger"),
    "leave-stranger": lambda about: LeaveGroupRequest(3, about.group, (LeavingMember("stranger"),)),
    "leave-nameless": lambda about: LeaveGroupRequest(3, "", (LeavingMember("stranger"),)),
    "describe-groups": lambda about: DescribeGroupsRequest(4, (about.group, OWN_GROUP, "unknown")),
    "list-groups": lambda about: ListGroupsRequest(4),
    "list-stable-groups": lambda about: ListGroupsRequest(4, ("Stable",)),
    "own-group": _own_group,
    "stuck-group": _join_stuck_group,
    "delete-busy-group": _delete_busy_group,
    "beat-as-member": _as_member(lambda about, id, generation: HeartbeatRequest(3, about.group, generation, id)),
    "beat-of-old": _as_member(lambda about, id, generation: HeartbeatRequest(3, about.group, generation - 1, id)),
    "sync-as-member": _as_member(
        lambda about, id, generation: SyncGroupRequest(3, about.group, generation, id), leads=False
    ),
    "sync-of-old": _as_member(lambda about, id, generation: SyncGroupRequest(3, about.group, generation - 1, id)),
    "join-as-member": _as_member(lambda about, id, generation: _join(member=id)(about)),
    "leave-as-member": _as_member(lambda about, id, _: LeaveGroupRequest(3, about.group, (LeavingMember(id),))),
    "commit-as-member": _as_member(_commit_as),
    "join-static": _join_static,
    "sync-other-protocol": _as_member(
        lambda about, id, generation: SyncGroupRequest(5, about.group, generation, id, (), None, "consumer", "other"),
        leads=False,
    ),
    "delete-of-unknown": lambda about: DeleteGroupsRequest(2, ("unknown", OWN_GROUP)),
    "beat-fenced": lambda about: HeartbeatRequest(3, about.group, 1, "stranger", instance_of(about.group)),
    "sync-fenced": lambda about: SyncGroupRequest(
        3, about.group, 1, "stranger", group_instance_id=instance_of(about.group)
    ),
    "commit-fenced": lambda about: OffsetCommitRequest(
        *(7, about.group, 1, "stranger", (CommittedPartition(about.partition, 1),)), instance_of(about.group)
    ),
    "join-fenced": lambda about: JoinGroupRequest(
        *(5, about.group, 6000, "stranger", "consumer", (JoinProtocol("range", b""),), 5000, instance_of(about.group))
    ),
    "leave-fenced": lambda about: LeaveGroupRequest(
        3, about.group, (LeavingMember("stranger", instance_of(about.group)),)
    ),
    "commit-of-stranger": _commit("", generation=0, member="stranger"),
    "delete-own-group": lambda about: DeleteGroupsRequest(2, (OWN_GROUP, "unknown", "passing")),
}
"""Requests of consumers and their admin clients that simulated members do not send."""


# ---------------------------------------------------------------------------------------------------- transactions

STRAY_ID = "stray"
"""A transactional id without an open transaction."""

UNKNOWN_ID = "unknown-id"
"""A transactional id without a producer."""

MARKED = TopicPartition("x", 2)
"""The partition for markers without a transaction: the readers of its topic skip markers."""

MARKED_PRODUCER = 901


def _of_producer(make: Callable[[str, int, int], Message]) -> Make:
    """Return a function that makes a request with the producer epoch before the newest of a transactional id."""

    def made(about: RequestTarget) -> AnyMessage | None:
        known = about.cluster.newest_producers
        id = sorted(known)[about.number % len(known)] if known else UNKNOWN_ID
        producer_id, epoch = known.get(id, (0, 0))
        return make(id, producer_id, epoch - 1) if epoch else None

    return made


def _add(id: str, *partitions: TopicPartition) -> Make:
    return lambda about: AddPartitionsToTxnRequest(1, id, 5, 0, partitions or (about.partition,))


def _in_transaction(id: str | None, *producers: int) -> Make:
    """Return a function that makes a Produce request of an unknown transaction, with one batch for each producer id."""

    def make(about: RequestTarget) -> Message:
        parts = [
            ProducePartition(TopicPartition(about.topic, about.number + place), _batch_in_transaction(about, producer))
            for place, producer in enumerate(producers)
        ]
        return ProduceRequest(8, id, ACKS_ALL, TIMEOUT_MS, tuple(parts))

    return make


def _batch_in_transaction(about: RequestTarget, producer: int) -> Records:
    return _batch(about, attributes=TRANSACTION_BIT, producer_id=producer, producer_epoch=0, base_sequence=0)


def _mark(*epochs: tuple[int, int]) -> Wanted:
    """Return a function that makes one WriteTxnMarkers request for each (producer epoch, coordinator epoch)."""
    return lambda about: [
        WriteTxnMarkersRequest(0, (WritableTxnMarker(MARKED_PRODUCER, producer, False, (MARKED,), coordinator),))
        for producer, coordinator in epochs
    ]


def _offsets_partitions(about: RequestTarget) -> Iterator[TopicPartition]:
    """Yield the partitions of __consumer_offsets."""
    data = about.cluster.zookeeper.read(paths.topic(GROUP_METADATA)).data
    for each in () if data is None else decode_topic("", data):
        yield TopicPartition(GROUP_METADATA, each.partition)


def _verify(about: RequestTarget, producer_id: int = 5, producer_epoch: int = 0) -> Message:
    """Return a leader's verification request for a transaction that has not begun."""
    asked = AddPartitionsToTxnTransaction(STRAY_ID, producer_id, producer_epoch, True, (about.partition,))
    return AddPartitionsToTxnRequest(4, transactions=(asked,))


def _commit_as_in_transaction(
    about: RequestTarget, member: str, generation: int, instance: str | None = None, group: str | None = None
) -> Message:
    """Return a TxnOffsetCommit request of a group member."""
    return TxnOffsetCommitRequest(
        *(3, UNKNOWN_ID, about.group if group is None else group, 1, 0, (CommittedPartition(about.partition, 1),)),
        *(generation, member, instance),
    )


TRANSACTIONS: Mapping[str, Wanted] = {
    "init-half-pair": lambda about: InitProducerIdRequest(3, STRAY_ID, 60_000, 5, -1),
    "init-nameless": lambda about: InitProducerIdRequest(3, "", 60_000),
    "init-long": lambda about: InitProducerIdRequest(3, STRAY_ID, 1 << 30),
    "init-stray": lambda about: InitProducerIdRequest(3, STRAY_ID, 60_000),
    "init-stale": _of_producer(lambda id, producer, epoch: InitProducerIdRequest(3, id, 60_000, producer, epoch)),
    "init-stale-new": _of_producer(lambda id, producer, epoch: InitProducerIdRequest(4, id, 60_000, producer, epoch)),
    "add-nameless": _add(""),
    "add-unknown": _add(UNKNOWN_ID),
    "add-internal": lambda about: AddPartitionsToTxnRequest(1, UNKNOWN_ID, 5, 0, (_internal(about), MARKED)),
    "add-absent": _add(UNKNOWN_ID, TopicPartition(ABSENT_TOPIC, 0)),
    "add-stale": _of_producer(lambda id, producer, epoch: AddPartitionsToTxnRequest(2, id, producer, epoch, (MARKED,))),
    "add-stale-old": _of_producer(
        lambda id, producer, epoch: AddPartitionsToTxnRequest(1, id, producer, epoch, (MARKED,))
    ),
    "verify": _verify,
    "add-offsets-nameless": lambda about: AddOffsetsToTxnRequest(1, "", 5, 0, OWN_GROUP),
    "add-offsets-unknown": lambda about: AddOffsetsToTxnRequest(1, UNKNOWN_ID, 5, 0, OWN_GROUP),
    "add-offsets-stale": _of_producer(
        lambda id, producer, epoch: AddOffsetsToTxnRequest(2, id, producer, epoch, OWN_GROUP)
    ),
    "add-offsets-stale-old": _of_producer(
        lambda id, producer, epoch: AddOffsetsToTxnRequest(1, id, producer, epoch, OWN_GROUP)
    ),
    "end-nameless": lambda about: EndTxnRequest(1, "", 5, 0, True),
    "end-unknown": lambda about: EndTxnRequest(1, UNKNOWN_ID, 5, 0, True),
    "end-stale": _of_producer(lambda id, producer, epoch: EndTxnRequest(2, id, producer, epoch, True)),
    "end-stale-old": _of_producer(lambda id, producer, epoch: EndTxnRequest(1, id, producer, epoch, True)),
    "describe-producers": lambda about: DescribeProducersRequest(
        0, (about.partition, about.absent, TopicPartition(BAD_NAME, 0))
    ),
    "describe-transactions": lambda about: DescribeTransactionsRequest(
        0, ("id0", "id1", "worker", STRAY_ID, UNKNOWN_ID, "")
    ),
    "list-transactions": lambda about: ListTransactionsRequest(0),
    "produce-without-id": _in_transaction(None, 5),
    "produce-of-unknown": _in_transaction(UNKNOWN_ID, 5),
    "produce-of-two": _in_transaction(UNKNOWN_ID, 5, 6),
    "commit-of-unknown": lambda about: TxnOffsetCommitRequest(
        3, UNKNOWN_ID, OWN_GROUP, 5, 0, (CommittedPartition(about.partition, 1),)
    ),
    "commit-in-transaction-of-member": _as_member(_commit_as_in_transaction),
    "commit-in-transaction-of-old": _as_member(
        lambda about, member, generation: _commit_as_in_transaction(about, member, generation - 1)
    ),
    "commit-in-transaction-fenced": lambda about: _commit_as_in_transaction(
        about, "stranger", 1, instance_of(about.group)
    ),
    "mark-of-old-coordinator": _mark((1, 5), (1, 4)),
    "mark-of-old-producer": _mark((1, 5), (0, 5)),
    "mark-without-epoch": _mark((-1, 5)),
    "mark-offsets": lambda about: WriteTxnMarkersRequest(
        0, (WritableTxnMarker(MARKED_PRODUCER, 1, False, tuple(_offsets_partitions(about)), 5),)
    ),
}
"""Requests of transactions: they describe, are refused, or use ids of their own."""


# ---------------------------------------------------------------------------------------------------- stale requests


def _orders(
    epoch: Callable[[RequestTarget], tuple[int, int]] = lambda about: (about.controller[1], about.broker_epoch),
    topic: str = "",
    leader_epoch: int = 0,
) -> tuple[Make, Make, Make]:
    """Return functions that make LeaderAndIsr, StopReplica and UpdateMetadata requests about one partition.

    `epoch` returns the requests' controller epoch and broker epoch; `leader_epoch` is added to the partition's leader
    epoch.
    """

    def partition(about: RequestTarget) -> TopicPartition:
        return TopicPartition(topic or about.topic, about.number)

    def lead(about: RequestTarget) -> Message:
        controller_epoch, broker_epoch = epoch(about)
        state = LeaderAndIsrPartitionState(
            *(partition(about), controller_epoch, 90, about.leader_epoch + leader_epoch, (90,), 0, (90,))
        )
        return LeaderAndIsrRequest(4, about.controller[0], controller_epoch, broker_epoch, (state,), ())

    def stop(about: RequestTarget) -> AnyMessage | None:
        if leader_epoch and not about.leader_epoch:
            return None
        state = StopReplicaPartitionState(partition(about), about.leader_epoch + leader_epoch)
        return StopReplicaRequest(3, about.controller[0], *epoch(about), (state,))

    def publish(about: RequestTarget) -> Message:
        return UpdateMetadataRequest(6, about.controller[0], *epoch(about), (), ())

    return lead, stop, publish


def _of_old_state(leads: bool) -> Make:
    """Return a function that makes a LeaderAndIsr request with the next leader epoch but an old state znode version.

    The function returns None for a topic that is queued for deletion: a broker that has deleted its replica would
    create it again, as a Kafka broker does.
    """

    def make(about: RequestTarget) -> AnyMessage | None:
        brokers = about.replicas
        if about.node not in brokers or paths.delete_topic(about.topic) in about.cluster.zookeeper.nodes:
            return None
        leader = about.node if leads else next((each for each in brokers if each != about.node), 90)
        state = LeaderAndIsrPartitionState(
            *(about.partition, about.controller[1], leader, about.leader_epoch + 1, brokers, -2, brokers)
        )
        live = LiveLeader(leader, host_of(leader), PORT)  # a follower creates a log even if the leader is not alive
        return LeaderAndIsrRequest(4, *about.controller, about.broker_epoch, (state,), (live,))

    return make


def _old_controller(about: RequestTarget) -> tuple[int, int]:
    return about.controller[1] - 1, about.broker_epoch


def _old_registration(about: RequestTarget) -> tuple[int, int]:
    return about.controller[1], max(about.broker_epoch - 1, 0)


def _shutdown(node: int | None, stale: bool) -> Make:
    return lambda about: ControlledShutdownRequest(
        3, about.node if node is None else node, max(about.broker_epoch - 1, 0) if stale else about.broker_epoch
    )


_BY_OLD_CONTROLLER = _orders(_old_controller)
_FOR_OLD_REGISTRATION = _orders(_old_registration)

STALE: Mapping[str, Make] = {
    "lead-old-controller": _BY_OLD_CONTROLLER[0],
    "stop-old-controller": _BY_OLD_CONTROLLER[1],
    "publish-old-controller": _BY_OLD_CONTROLLER[2],
    "lead-old-registration": _FOR_OLD_REGISTRATION[0],
    "stop-old-registration": _FOR_OLD_REGISTRATION[1],
    "publish-old-registration": _FOR_OLD_REGISTRATION[2],
    "lead-old-epoch": _orders(leader_epoch=-1)[0],
    "lead-elsewhere": _orders(leader_epoch=1)[0],
    "lead-on-old-state": _of_old_state(leads=True),
    "follow-on-old-state": _of_old_state(leads=False),
    "lead-bad-name": _orders(topic=BAD_NAME, leader_epoch=1)[0],
    "stop-old-epoch": _orders(leader_epoch=-1)[1],
    "stop-bad-name": _orders(topic=BAD_NAME)[1],
    "shutdown-old-registration": _shutdown(None, stale=True),
    "shutdown-of-unknown": _shutdown(90, stale=False),
}
"""Requests of a controller, and of a broker that leaves, that must be refused: by an old epoch, or for a partition
that is not there."""

OF_COORDINATORS = (
    *("join-stranger", "sync-stranger", "leave-stranger", "commit-stranger", "fetch-offsets", "forget-subscribed"),
    *("describe-groups", "list-groups", "beat-stranger", "fetch-one-offset", "own-group", "delete-of-unknown"),
    *("commit-of-unknown", "init-stray", "add-unknown", "add-offsets-unknown", "end-unknown"),
    *("describe-transactions", "list-transactions", "commit-of-stranger", "leave-as-member", "sync-as-member"),
    "mark-offsets",
)
"""Requests that each coordinator refuses while it loads its groups."""

OF_GROUPS = (
    *("join-as-member", "beat-as-member", "beat-of-old", "sync-as-member", "sync-of-old", "commit-as-member"),
    *("commit-of-stranger", "leave-as-member", "delete-busy-group", "forget-subscribed", "join-stranger"),
    *("join-other-protocol", "join-as-well", "join-static", "beat-fenced", "sync-fenced", "commit-fenced"),
    *("commit-in-transaction-of-member", "commit-in-transaction-of-old", "commit-in-transaction-fenced"),
    *("join-fenced", "leave-fenced", "join-at-once", "forget-passing", "delete-own-group", "sync-other-protocol"),
)
"""Requests whose responses depend on the state of a group."""

REQUESTS: Mapping[str, Wanted] = {**DATA, **ADMIN, **GROUPS, **TRANSACTIONS, **STALE}


def send(
    cluster: Cluster, request: str, topic: str, number: int, group: str, nodes: Iterable[int] | None = None
) -> None:
    """Send the request of this name to these nodes, by default to all (rule 1), and ignore the responses."""
    for node in cluster.machines if nodes is None else nodes:
        about = RequestTarget(cluster, node, topic, number, group)
        _send_steps(about, REQUESTS[request](about), _go_on)


GoOn = Callable[[RequestTarget, AnyMessage, AnyMessage | None], None]


def _send_steps(about: RequestTarget, made: Step | list[Step] | None, go_on: GoOn) -> None:
    """Send the requests of a row (rule 3); `go_on` is called with each request and its response."""
    steps = made if isinstance(made, list) else [] if made is None else [made]
    for place, step in enumerate(steps):
        if place:
            about.cluster.scheduler.call_later(place * GAP, partial(_send_step, about, step, go_on))
        else:
            _send_step(about, step, go_on)


def _send_step(about: RequestTarget, step: Step, go_on: GoOn) -> None:
    """Send a request, or stall the node and send it several requests."""
    cluster, requests = about.cluster, step if isinstance(step, tuple) else (step,)
    if isinstance(step, tuple):
        cluster.stall(about.node, STALL)
    for place, request in enumerate(requests):
        ask = partial(cluster.ask, about.node, request, partial(go_on, about, request))
        if place:
            cluster.scheduler.call_later(place * SPACING, ask)
        else:
            ask()


def _end(about: RequestTarget, request: AnyMessage, response: AnyMessage | None) -> None:
    """Ignore the response."""


def _go_on(about: RequestTarget, request: AnyMessage, response: AnyMessage | None) -> None:
    """Send further requests after some responses.

    They continue a fetch session with a wrong epoch, end a transaction that has not begun, or concern a group that
    waits for its leader's assignment.
    """
    if isinstance(response, InitProducerIdResponse) and response.error_code == NONE:
        pair = response.producer_id, response.producer_epoch
        for each in (_verify(about, *pair), EndTxnRequest(1, STRAY_ID, *pair, True)):
            _send_steps(about, each, _end)
    if isinstance(response, FetchResponse) and response.session_id:
        _send_steps(about, _fetch(session=(response.session_id, 9))(about), _end)
    if isinstance(response, JoinGroupResponse) and response.error_code == NONE and request.group_id == STUCK_GROUP:
        _send_steps(about, _to_stuck_group(about, response.member_id, response.generation_id), _end)
