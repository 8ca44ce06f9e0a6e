"""Send client requests at random times while a simulated cluster runs; some are valid, others must be rejected.

Rule 1: a request is named after its API, which means the sample in the API's declaration (`messages.apis`), or after
        changes of this sample: `Fetch:version=9;current_leader_epoch-1`. `FIELD=VALUE` sets the first field of this
        name, in nested messages and batch headers as well; `FIELD+1` and `FIELD-1` change a number; `as=ROLE` sets the
        fields of a row of `ROLES`. A value may contain the words of `_fill`; `|` separates the elements of a tuple.
Rule 2: every node receives a request: the leader, followers, the controller, and nodes that are not concerned.
Rule 3: a request does not violate an invariant. It may read, describe, append records, elect leaders, reassign
        replicas, and change groups and transactional ids. It deletes only topics that a row of `SCENARIOS` creates.
        Changes of config overrides are only validated. If a request deletes a simulated group, the invariants no longer
        require that commits of this group exist.
Rule 4: a request uses the state of ZooKeeper at the time of sending, and is not sent if it cannot be made then. The
        steps of a scenario are sent one second apart. The requests of a step that is a tuple reach a stalled node
        together. The node handles them one after another, without other messages in between.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import attrs

from actors.core.topic.topic_name import GROUP_METADATA
from actors.simulation.members import instance_of
from actors.simulation.simulated_cluster import PORT, Cluster, host_of
from messages import errors
from messages.apis import APIS, declaration
from messages.apis.add_partitions_to_txn import AddPartitionsToTxnTransaction
from messages.apis.declaration import Api, Target
from messages.apis.fetch import FetchResponse
from messages.apis.init_producer_id import InitProducerIdResponse
from messages.apis.join_group import JoinGroupResponse
from messages.apis.leader_and_isr import LeaderAndIsrPartitionState, LiveLeader
from messages.apis.produce import ProducePartition
from messages.cluster import UNKNOWN_BROKER_EPOCH, TopicPartition, partition_named
from messages.records import BatchHeader, Records
from messages.vocabulary import AnyMessage, Message, evolve
from messages.wire.record_batch import HEADER, batch_of, read_records, with_records
from zk_bridge import paths
from zk_bridge.controller import decode_controller
from zk_bridge.partition_states import decode_state
from zk_bridge.topics import decode_topic

GAP = 1.0
"""Seconds between the steps of a scenario (rule 4)."""

STALL = 0.1
"""Seconds for which the requests of a tuple stall their node."""

SPACING = 0.0015
"""Seconds between the requests of a tuple: more than the jitter of the network, so that they keep their order."""

ABSENT_TOPIC = "absent"

Step = str | tuple[str, ...]
"""The name of a request, or of several that reach a stalled node together."""

_LATE = "ElectLeaders:name=late;partitions=0"
_OWN = (
    "CreatePartitions:name=own-@number;count=3;assignments=null;validate_only=no;timeout_ms=1",
    "ElectLeaders:name=own-@number;partitions=0;timeout_ms=1",
)

SCENARIOS: Mapping[str, tuple[Step, ...]] = {
    # The only replica of this topic is on a broker that does not exist: it never has a leader, and is never deleted.
    "late-topic": (
        *("CreateTopics:name=late;broker_ids=90;validate_only=no;timeout_ms=1", _LATE, f"{_LATE};election_type=1"),
        "DeleteTopics:topics=late;timeout_ms=1",
    ),
    "own-topic": (
        "CreateTopics:name=own-@number;broker_ids=@first;validate_only=no;timeout_ms=1",
        "AlterPartitionReassignments:name=own-@number;partition_index=0;replicas=@last|@first",
        *(*_OWN, "DeleteTopics:topics=own-@number;timeout_ms=1", *_OWN),
    ),
    "moving-topic": (
        (
            "AlterPartitionReassignments:replicas=@brokers",
            "CreatePartitions:assignments=null",
            "AlterPartitionReassignments",
        ),
    ),
    # A group is deleted while other requests about it are in flight.
    "own-group": (
        "OffsetCommit",
        (
            *("OffsetCommit", "TxnOffsetCommit:committed_metadata=long", "OffsetDelete", "DeleteGroups:groups=own"),
            *("DeleteGroups:groups=own", "Heartbeat:group_id=own;generation_id=0", "SyncGroup:group_id=own"),
            *("LeaveGroup:group_id=own", "JoinGroup:group_id=own;member_id="),
        ),
    ),
    # The only member of this group never sends the assignment of its generation (`_send_more`).
    "stuck-group": ("JoinGroup:group_id=stuck;member_id=;group_instance_id=stuck-0",),
}


def _requests(choice: Callable[[Api], bool], *scenarios: str) -> tuple[str, ...]:
    """Return the names of all requests of the chosen APIs, then these scenarios."""
    chosen = [(api.name, *(f"{api.name}:{odd}" for odd in api.odd.split())) for api in APIS if choice(api)]
    return (*itertools.chain.from_iterable(chosen), *scenarios)


_OF_GROUPS = (declaration.GROUPS, declaration.COORDINATOR_FINDER)
_OF_LEADERS = ("AlterPartition",)
"""The requests that leaders send the controller themselves, from protocol version 2.7 on."""
STALE = _requests(lambda api: api.control and api.name not in _OF_LEADERS)
"""Requests of a controller, and of a broker that leaves, that must be refused: by an old epoch, or for a partition that
is not there.
"""
DATA = _requests(lambda api: api.answerer == declaration.PARTITIONS)
GROUPS = _requests(lambda api: api.answerer in _OF_GROUPS, "own-group", "stuck-group")
TRANSACTIONS = _requests(lambda api: api.answerer == declaration.TRANSACTIONS)
_NOT_ADMIN = {name.partition(":")[0] for name in (*STALE, *DATA, *GROUPS, *TRANSACTIONS, *_OF_LEADERS)}
ADMIN = _requests(
    lambda api: api.name not in _NOT_ADMIN,
    *("late-topic", "own-topic", "moving-topic"),
)
"""Requests of admin clients, of which most are only validated (rule 3)."""

OF_COORDINATORS = (
    *(api.name for api in APIS if api.answerer in (declaration.GROUPS, declaration.TRANSACTIONS)),
    *("OffsetCommit:group_id=@group;generation_id=1;member_id=stranger", "OffsetFetch:version=1;group_id=@group"),
    *("OffsetDelete:group_id=@group", "LeaveGroup:as=member", "SyncGroup:as=follower", "own-group"),
    "WriteTxnMarkers:as=coordinator",
)
"""Requests that each coordinator refuses while it loads its groups."""

OF_GROUPS = tuple(name for name in GROUPS if name not in SCENARIOS and not name.startswith("FindCoordinator"))
"""Requests whose responses depend on the state of a group."""

_SAMPLES = {api.name: api.sample for api in APIS}


def is_request(name: str) -> bool:
    """Return whether this names a scenario, or a request of an API."""
    return name in SCENARIOS or name.partition(":")[0] in _SAMPLES


# ---------------------------------------------------------------------------------------------------- sending


def send(cluster: Cluster, name: str, topic: str, number: int, group: str, nodes: Iterable[int] | None = None) -> None:
    """Send the request or scenario of this name to these nodes, by default to all, and ignore the responses."""
    for node in cluster.machines if nodes is None else nodes:
        about = partial(target, cluster, node, TopicPartition(topic, number), group)
        _send_steps(cluster, about, SCENARIOS.get(name, (name,)), _send_more)


GoOn = Callable[[Cluster, Callable[[], Target], AnyMessage, AnyMessage | None], None]
"""Called with each request and its response."""


def _send_steps(cluster: Cluster, about: Callable[[], Target], steps: Iterable[Step], go_on: GoOn) -> None:
    for place, step in enumerate(steps):
        if place:
            cluster.scheduler.call_later(place * GAP, partial(_send_step, cluster, about, step, go_on))
        else:
            _send_step(cluster, about, step, go_on)


def _send_step(cluster: Cluster, about: Callable[[], Target], step: Step, go_on: GoOn) -> None:
    now = about()
    made = [request_named(name, cluster, now) for name in ((step,) if isinstance(step, str) else step)]
    if isinstance(step, tuple):
        cluster.stall(now.node, STALL)
    for place, request in enumerate(each for each in made if each is not None):
        ask = partial(cluster.ask, now.node, request, partial(go_on, cluster, about, request))
        if place:
            cluster.scheduler.call_later(place * SPACING, ask)
        else:
            ask()


def _end(cluster: Cluster, about: Callable[[], Target], request: Message, response: Message | None) -> None:
    """Ignore the response."""


def _send_more(cluster: Cluster, about: Callable[[], Target], request: AnyMessage, response: AnyMessage | None) -> None:
    """Send further requests after some responses.

    They continue a fetch session with the next epoch, with the same epoch again, with a wrong one, and either
    after another has replaced it or without its partition, end a transaction that has not begun, or concern a group
    that waits for its leader's assignment; the last of these replaces the leader.
    """
    if isinstance(response, InitProducerIdResponse) and response.error_code == errors.NONE:
        id, epoch = response.producer_id, response.producer_epoch
        verify = f"AddPartitionsToTxn:as=verifier;transactions.producer_id={id};transactions.producer_epoch={epoch}"
        _send_steps(cluster, about, (verify,), _end)
        end = f"EndTxn:version=1;transactional_id=stray;producer_id={id};producer_epoch={epoch}"
        _send_steps(cluster, about, (end,), _end)
    if isinstance(response, FetchResponse) and response.session_id:
        ends = ("2;forgotten=@partition",) if response.session_id % 2 else (0, 2)
        fetches = (f"Fetch:session_id={response.session_id};session_epoch={each}" for each in (1, 1, 9, *ends))
        _send_steps(cluster, about, fetches, _end)
    if isinstance(response, JoinGroupResponse) and response.error_code == errors.NONE and request.group_id == "stuck":
        stuck, generation = f"group_id=stuck;member_id={response.member_id}", response.generation_id
        commits = (
            *(f"{stuck};generation_id={each}" for each in (generation, generation - 1)),
            f"as=instance;group_id=stuck;group_instance_id=stuck-0;generation_id={generation}",
        )
        at_once = (
            *(f"OffsetCommit:{commits[0]}", *(f"TxnOffsetCommit:{each}" for each in commits)),
            *("OffsetDelete:group_id=stuck", "DeleteGroups:groups=stuck", f"JoinGroup:{stuck}"),
        )
        _send_steps(cluster, about, (at_once, *SCENARIOS["stuck-group"]), _end)


# ---------------------------------------------------------------------------------------------------- targets


def target(cluster: Cluster, node: int, partition: TopicPartition, group: str) -> Target:
    """Return what a request to this node is about, by the state of ZooKeeper.

    The controller is that of /controller and its own epoch, which may be lower than /controller_epoch: the action
    `fence` raises that. It is -1 and 0 without a controller.
    """
    path, nodes = paths.partition_state(partition), cluster.zookeeper.nodes
    data = cluster.zookeeper.read(paths.CONTROLLER).data
    controller = -1 if data is None else decode_controller(paths.CONTROLLER, data)
    context = cluster.controllers().get(controller)
    return Target(
        partition,
        group,
        node,
        partitions=len(_replicas(cluster, partition.topic)),
        leader_epoch=decode_state(path, nodes[path].data, 0).leader_epoch if path in nodes else 0,
        controller=-1 if context is None else controller,
        controller_epoch=0 if context is None else context.epoch,
        broker_epoch=nodes[own].czxid if (own := f"/brokers/ids/{node}") in nodes else UNKNOWN_BROKER_EPOCH,
        records=batch_of([(b"key", b"asked")], cluster.wall_ms()),
    )


def _replicas(cluster: Cluster, topic: str) -> dict[int, tuple[int, ...]]:
    """Return the replicas of each partition of a topic in ZooKeeper."""
    data = cluster.zookeeper.read(paths.topic(topic)).data
    partitions = () if data is None else decode_topic("", data).partitions
    return {each.partition: each.assignment.replicas for each in partitions}


# ---------------------------------------------------------------------------------------------------- roles


class NotNow(Exception):
    """A request cannot be made in the present state of the cluster."""


Role = Callable[[Cluster, Target], Mapping[str, Any]]
"""Function that returns the fields of a request of this role; fields that the request lacks are ignored."""


def _member(cluster: Cluster, about: Target, leads: bool = True) -> Mapping[str, Any]:
    """Return the fields of a member of the group; `leads`: whether the member may be the leader."""
    group = cluster.members.groups.get(about.group)
    for _, each in [] if group is None else sorted(group.living.items()):
        if each.id and (leads or not each.leads):
            return {"group_id": about.group, "member_id": each.id, "generation_id": each.generation}
    raise NotNow


def _instance(cluster: Cluster, about: Target) -> Mapping[str, Any]:
    """Return the fields of a stranger with the instance id of the group's static member."""
    fields = {"member_id": "stranger", "generation_id": 1, "group_instance_id": instance_of(about.group)}
    return {"group_id": about.group, **fields}


def _static(cluster: Cluster, about: Target) -> Mapping[str, Any]:
    """Return the fields of a new static member, which replaces the member with the same instance id."""
    group = cluster.members.groups.get(about.group)
    if group is None:
        raise NotNow
    group.has_static = True
    return {"member_id": "", "group_instance_id": "another"}


def _deleter(cluster: Cluster, about: Target) -> Mapping[str, Any]:
    """Return the group, which is deleted if its members leave before the request arrives."""
    group = cluster.members.groups.get(about.group)
    if group is not None:
        group.is_deleted = True
    return {"groups": (about.group,)}


def _producer(cluster: Cluster, about: Target) -> Mapping[str, Any]:
    """Return the fields of a transactional producer whose epoch is the newest epoch minus 1."""
    known = cluster.newest_producers
    id = sorted(known)[about.partition.partition % len(known)] if known else ""
    producer_id, epoch = known.get(id, (0, 0))
    if not epoch:
        raise NotNow
    return {"transactional_id": id, "producer_id": producer_id, "producer_epoch": epoch - 1}


def _two_producers(cluster: Cluster, about: Target) -> Mapping[str, Any]:
    """Return the batches of two producers in a transaction."""
    topic, number = about.partition
    batches = [batch_of([(b"key", b"asked")], cluster.wall_ms(), id, 0, 0, is_transactional=True) for id in (5, 6)]
    parts = (ProducePartition(TopicPartition(topic, number + place), each) for place, each in enumerate(batches))
    return {"partitions": tuple(parts)}


def _verifier(cluster: Cluster, about: Target) -> Mapping[str, Any]:
    """Return the fields of a leader's verification request for a transaction that has not begun."""
    wanted = AddPartitionsToTxnTransaction("stray", 5, 0, verify_only=True, partitions=(about.partition,))
    fields = {"transactional_id": "", "producer_id": -1, "producer_epoch": -1, "partitions": ()}
    return {"version": 4, **fields, "transactions": (wanted,)}


def _coordinator(cluster: Cluster, about: Target) -> Mapping[str, Any]:
    """Return the partitions of __consumer_offsets."""
    return {"partitions": tuple(TopicPartition(GROUP_METADATA, each) for each in _replicas(cluster, GROUP_METADATA))}


def _old_state(cluster: Cluster, about: Target, leads: bool) -> Mapping[str, Any]:
    """Return the fields of a LeaderAndIsr request with the next leader epoch but an old znode version.

    No request can be made if the topic is queued for deletion, or if the broker has no replica. If a broker has already
    deleted its replica of a queued topic, the request would create that replica again. Kafka's brokers behave in the
    same way.
    """
    brokers = _replicas(cluster, about.partition.topic).get(about.partition.partition, ())
    if about.node not in brokers or paths.delete_topic(about.partition.topic) in cluster.zookeeper.nodes:
        raise NotNow
    leader = about.node if leads else next((each for each in brokers if each != about.node), 90)
    epochs = about.controller_epoch, about.leader_epoch + 1
    state = LeaderAndIsrPartitionState(about.partition, epochs[0], leader, epochs[1], brokers, -2, brokers)
    # This leader may be offline. If it is, the broker that receives the request creates the partition's log, and
    # does nothing else (broker.md 1.4).
    return {"partition_states": (state,), "live_leaders": (LiveLeader(leader, host_of(leader), PORT),)}


ROLES: Mapping[str, Role] = {
    "member": _member,
    "follower": partial(_member, leads=False),
    "instance": _instance,
    "static": _static,
    "deleter": _deleter,
    "producer": _producer,
    "two-producers": _two_producers,
    "verifier": _verifier,
    "coordinator": _coordinator,
    "old-leader": partial(_old_state, leads=True),
    "old-follower": partial(_old_state, leads=False),
}

# ---------------------------------------------------------------------------------------------------- changes

_CHANGE = re.compile(r"([\w.]+)([=+-])(.*)")


def request_named(name: str, cluster: Cluster, about: Target) -> Message | None:
    """Return the request of this name (rule 1); None if it cannot be made now (rule 4)."""
    api, _, changes = name.partition(":")
    try:
        return _with_changes(cluster, about, _SAMPLES[api](about), changes)
    except NotNow:
        return None


def _with_changes(cluster: Cluster, about: Target, request: Message, changes: str) -> AnyMessage:
    for field, operator, text in _CHANGE.findall(changes.replace(";", "\n")):
        if field == "as":
            for own, value in ROLES[text](cluster, about).items():
                request = _change_field(request, own, partial(_value_of_role, value))
        else:
            made = partial(_value, cluster, operator, _fill(text, cluster, about))
            request = _change_field(request, field, made)
    return request


def _value_of_role(value: object, hint: str, old: object) -> object:
    return value


def _fill(text: str, cluster: Cluster, about: Target) -> str:
    """Replace the words for the target in a value."""
    brokers = sorted(cluster.machines)
    words = {
        "@partition": about.partition,
        "@topic": about.partition.topic,
        "@number": about.partition.partition,
        "@group": about.group,
        "@node": about.node,
        "@first": brokers[0],
        "@last": brokers[-1],
        "@brokers": "|".join(map(str, brokers)),
    }
    for word, value in words.items():
        text = text.replace(word, str(value))
    return text


def _change_field(value: object, path: str, made: Callable[[str, Any], Any]) -> Any:
    """Return a copy in which the first field with this path has a new value, in all elements of a tuple.

    `made` gets the annotation of the field, and its old value. The value is returned if it has no such field.
    """
    if type(value) is tuple:
        return tuple(_change_field(each, path, made) for each in value)
    if isinstance(value, Records) and path in BatchHeader._fields:
        header = value.batches[0]
        header = header._replace(**{path: made("int", getattr(header, path))})
        return read_records(with_records(header, bytes(value.body.data)[HEADER.size :]))
    if not isinstance(value, Message):
        return value
    name, _, rest = path.partition(".")
    fields: dict[str, Any] = {each.name: each for each in attrs.fields(type(value))}
    if name in fields:
        old = getattr(value, name)
        return evolve(value, **{name: _change_field(old, rest, made) if rest else made(str(fields[name].type), old)})
    for other in fields:
        inner = _change_field(getattr(value, other), path, made)
        if inner != getattr(value, other):
            return evolve(value, **{other: inner})
    return value


def _value(cluster: Cluster, operator: str, text: str, hint: str, old: Any) -> object:
    """Return the value that a text means for a field with this annotation."""
    if operator != "=":
        if old + int(operator + text) < 0:
            raise NotNow
        return old + int(operator + text)
    if text == "null":
        return None
    if text == "twice":
        return old * 2
    if text == "large":
        return batch_of([(b"key", b"x" * 1_100_000)], cluster.wall_ms())
    if text == "corrupt":
        return old._replace(error_code=errors.CORRUPT_MESSAGE)
    return _parse(text, hint)


def _parse(text: str, hint: str) -> object:
    if hint.startswith("tuple["):
        return tuple(_parse(each, hint.removeprefix("tuple[")) for each in text.split("|") if text)
    if hint.startswith("TopicPartition"):
        return partition_named(text) or TopicPartition(text, 0)
    if hint.startswith("int"):
        return int(text)
    if hint.startswith("float"):
        return float(text)
    if hint.startswith("bool"):
        return text == "yes"
    return "x" * 5000 if text == "long" else text
