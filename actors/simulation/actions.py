"""What is done to a cluster: the work of its operators, which always goes on, and the faults one asks for.

Rule 1: `ACTIONS` is the whole list. An action has a function that chooses its arguments, from a seed and from what has
        been ordered so far, one that does it, and, if it lasts, one that undoes it. A new kind is a new row.
Rule 2: choosing knows nothing of a running cluster: a schedule is complete before anything runs.
Rule 3: doing looks at what is there: what makes no sense now is left out (`schedule`, rule 2).
Rule 4: operators work on ZooKeeper, as Kafka's tools up to 2.x, or ask a node, as later ones.
"""

from __future__ import annotations

import inspect
import json
import random
from collections.abc import Callable
from functools import partial

import attrs

from actors.simulation.cluster import Cluster, host_of
from actors.simulation.disk import FAILING, FULL
from actors.simulation.schedule import REST, Action, Schedule
from actors.simulation.zookeeper_link import ZOOKEEPER
from messages.admin_requests import (
    AlterPartitionReassignmentsRequest,
    CreatableAssignment,
    CreatableTopic,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    ElectableTopic,
    ElectLeadersRequest,
    GrowingTopic,
    ReassignablePartition,
    ReassignableTopic,
    WantedReplicas,
)
from messages.cluster import ConfigEntry, PartitionAssignment, ReplicaAssignment, TopicPartition
from messages.config_requests import BROKER, TOPIC, ChangedResource, ConfigChange, IncrementalAlterConfigsRequest
from messages.store import CREATE, DELETE, SET, WriteOp
from messages.zookeeper import CreateTopic, RequestTopicDeletion, SetTopicConfig, TopicAssignment
from zk_bridge import paths
from zk_bridge.znodes.partition_states import decode_state
from zk_bridge.znodes.topics import decode_topic, encode_topic

WORK = "work"
"""The part of the actions that is always done."""

ADMIN = "admin"
"""Operators' work too, that newer tools ask of a node; done where one asks for it by name."""

GROUPS = "groups"
"""What members of consumer groups do; done where one asks for it by name."""

RECORDS = "records"
"""What clients do to records, and operators to topics that hold some; done where producers write."""

ABSENT = "absent"
"""Reassignments to a broker that never exists, and the deletion of their topics; done only if requested by name."""

NAMED = (ADMIN, GROUPS, ABSENT)
"""The parts that are done only if requested by name."""

Replicas = tuple[tuple[int, ...], ...]
"""Of each partition of a topic."""


@attrs.define
class Known:
    """What has been ordered so far: topics with their replicas, as the schedule goes, and names that are free."""

    brokers: int
    partitions: int
    replication: int
    most_topics: int
    topics: dict[str, list[tuple[int, ...]]] = attrs.field(factory=dict)
    away: dict[str, list[tuple[int, ...]]] = attrs.field(factory=dict)
    """Topics that were removed by hand: their names are not free."""

    def replicas(self, chance: random.Random) -> tuple[int, ...]:
        """Some partition's replicas: as many as asked for, now and then fewer."""
        most = min(self.replication, self.brokers)
        return tuple(chance.sample(range(self.brokers), most if chance.random() < 0.8 else chance.randint(1, most)))

    def topic(self, chance: random.Random) -> str | None:
        """One of the topics."""
        return chance.choice(sorted(self.topics)) if self.topics else None

    def pair(self, chance: random.Random) -> tuple[str, str]:
        """Two hosts, of which one may be ZooKeeper's."""
        hosts = [str(number) for number in range(self.brokers)]
        one = chance.choice(hosts)
        return one, chance.choice([*(host for host in hosts if host != one), "zk"])


Chosen = tuple[str, ...] | None
Choose = Callable[[random.Random, Known], Chosen]


@attrs.frozen
class Kind:
    """One kind of action: to which part of the faults it belongs, how often it is done in proportion, how long it
    lasts.

    `choose` gives its arguments (None: not now); `do` and `undo` take the cluster and them.
    """

    name: str
    part: str
    weight: int
    choose: Choose
    do: Callable[..., None]
    undo: Callable[..., None] | None = None
    seconds: tuple[float, float] = (0.0, 0.0)


# ---------------------------------------------------------------------------------------------------- operators


def written(replicas: Replicas) -> tuple[str, ...]:
    """Replicas as arguments: 0,1,2 for each partition."""
    return tuple(",".join(map(str, each)) for each in replicas)


def read(args: tuple[str, ...]) -> Replicas:
    """The replicas that `written` wrote."""
    return tuple(tuple(int(number) for number in arg.split(",")) for arg in args)


def _choose_new(chance: random.Random, known: Known) -> Chosen:
    taken = known.topics.keys() | known.away.keys()
    free = [name for number in range(known.most_topics) if (name := f"t{number}") not in taken]
    if not free:
        return None
    topic = chance.choice(free)
    partitions = [known.replicas(chance) for _ in range(chance.randint(1, known.partitions))]
    known.topics[topic] = partitions
    return (topic, *written(tuple(partitions)))


def _create(cluster: Cluster, topic: str, *replicas: str) -> None:
    """The topic's znodes, as kafka-topics writes them."""
    if cluster.zookeeper.up and not cluster.exists(paths.delete_topic(topic)):
        cluster.try_ask(CreateTopic(TopicAssignment(topic, _assigned(read(replicas)))))


def _assigned(replicas: Replicas) -> tuple[PartitionAssignment, ...]:
    return tuple(PartitionAssignment(number, ReplicaAssignment(each)) for number, each in enumerate(replicas))


def _ask_create(cluster: Cluster, topic: str, *replicas: str) -> None:
    """The same, asked of the controller."""
    assignments = tuple(CreatableAssignment(number, each) for number, each in enumerate(read(replicas)))
    request = CreateTopicsRequest(5, (CreatableTopic(topic, -1, -1, assignments),), 15_000)
    cluster.ask_controller(request)


def _choose_growth(chance: random.Random, known: Known) -> Chosen:
    topic = known.topic(chance)
    if topic is None:
        return None
    added = [known.replicas(chance) for _ in range(chance.randint(1, 2))]
    known.topics[topic] += added
    return (topic, *written(tuple(added)))


def _grow(cluster: Cluster, topic: str, *replicas: str) -> None:
    """Partitions are added to the topic's znode, as kafka-topics did: also where the topic is being deleted."""
    data = cluster.zookeeper.read(paths.topic(topic)).data
    if data is None or not cluster.zookeeper.up:
        return
    there = decode_topic("", data)
    added = [PartitionAssignment(len(there) + n, ReplicaAssignment(each)) for n, each in enumerate(read(replicas))]
    cluster.write(WriteOp(SET, paths.topic(topic), encode_topic((*there, *added))))


def _choose_deletion(chance: random.Random, known: Known) -> Chosen:
    topic = known.topic(chance)
    if topic is None:
        return None
    del known.topics[topic]
    return (topic,)


def _delete(cluster: Cluster, topic: str) -> None:
    """The request to delete a topic, as a znode."""
    if cluster.zookeeper.up and cluster.exists(paths.topic(topic)):
        cluster.try_ask(RequestTopicDeletion(topic))


def _choose_again(chance: random.Random, known: Known) -> Chosen:
    topic = known.topic(chance)
    if topic is None:
        return None
    replicas = known.topics[topic] = [known.replicas(chance) for _ in range(chance.randint(1, known.partitions))]
    return (topic, *written(tuple(replicas)))


def _recreate(cluster: Cluster, topic: str, *replicas: str) -> None:
    """A topic is deleted, and created under the same name as soon as it is gone."""
    _delete(cluster, topic)
    _create_when_gone(cluster, cluster.now + GONE, topic, *replicas)


def _create_when_gone(cluster: Cluster, until: float, topic: str, *replicas: str) -> None:
    if not cluster.exists(paths.topic(topic)) and not cluster.exists(paths.delete_topic(topic)):
        _create(cluster, topic, *replicas)
    elif cluster.now < until:
        cluster.scheduler.call_later(0.1, partial(_create_when_gone, cluster, until, topic, *replicas))


def _delete_records(cluster: Cluster, topic: str, number: str) -> None:
    """A partition's first records are deleted, by a request to its leader."""
    cluster.delete_records(TopicPartition(topic, int(number)))


def _ask_delete(cluster: Cluster, topic: str) -> None:
    """The same, asked of the controller."""
    cluster.ask_controller(DeleteTopicsRequest(4, (topic,), 15_000))


def _choose_removal(chance: random.Random, known: Known) -> Chosen:
    topic = known.topic(chance)
    if topic is None:
        return None
    known.away[topic] = known.topics.pop(topic)
    return topic, *written(tuple(known.away[topic]))


def _take_away(cluster: Cluster, topic: str, *replicas: str) -> None:
    """A topic with unchanged states is removed by hand, while brokers serve it; in the next rest it is
    made again as it was, when the controller has noticed.
    """
    zookeeper = cluster.zookeeper
    below = [path for path, _ in zookeeper.walk(paths.topic(topic))]
    if zookeeper.up and not cluster.exists(paths.delete_topic(topic)) and _is_fresh(cluster, topic, read(replicas)):
        cluster.write(*(WriteOp(DELETE, path) for path in sorted(below, reverse=True)))


def _is_fresh(cluster: Cluster, topic: str, replicas: Replicas) -> bool:
    """Has the topic these partitions, each in the state in which it began, all replicas in the ISR?"""
    data = cluster.zookeeper.read(paths.topic(topic)).data
    if data is None or decode_topic("", data) != _assigned(replicas):
        return False
    for number, each in enumerate(replicas):
        path = paths.partition_state(TopicPartition(topic, number))
        node = cluster.zookeeper.nodes.get(path)
        if node is None or node.version or decode_state(path, node.data, 0).isr != each:
            return False
    return True


def _put_back(cluster: Cluster, topic: str, *replicas: str) -> None:
    """It is made again, once a controller that does not know it knows all brokers: they find it as they left it."""
    cluster.scheduler.call_later(SETTLED, partial(_make_again, cluster, topic, *replicas))


def _make_again(cluster: Cluster, topic: str, *replicas: str) -> None:
    contexts = cluster.controllers().values()
    brokers = len(cluster.machines)
    if cluster.exists(paths.topic(topic)) or not cluster.exists(paths.topic_config(topic)):
        return
    if contexts and all(topic not in each.topics and len(each.online_brokers) == brokers for each in contexts):
        cluster.write(WriteOp(CREATE, paths.topic(topic), encode_topic(_assigned(read(replicas)))))
    else:
        _put_back(cluster, topic, *replicas)


def _choose_stranding(chance: random.Random, known: Known) -> Chosen:
    """A partition; its topic's name stays in use, because the deletion waits for the absent broker."""
    topic = known.topic(chance)
    if topic is None:
        return None
    known.away[topic] = known.topics.pop(topic)
    return topic, str(chance.randrange(len(known.away[topic])))


def _strand(cluster: Cluster, topic: str, number: str) -> None:
    """Reassign a partition to a broker that does not exist."""
    _reassign(cluster, topic, number, str(len(cluster.machines)))


def _delete_stranded(cluster: Cluster, topic: str, number: str) -> None:
    """Delete its topic, as soon as ZooKeeper is up."""
    if cluster.zookeeper.up:
        _delete(cluster, topic)
    else:
        cluster.scheduler.call_later(1.0, partial(_delete_stranded, cluster, topic, number))


def _choose_config(chance: random.Random, known: Known) -> Chosen:
    topic = known.topic(chance)
    return None if topic is None else (topic, f"retention.ms={chance.randint(1, 9)}00000000")


def _configure(cluster: Cluster, topic: str, entry: str) -> None:
    """An override, as kafka-configs writes it."""
    name, _, value = entry.partition("=")
    if cluster.zookeeper.up and cluster.exists(paths.topic(topic)) and not cluster.exists(paths.delete_topic(topic)):
        cluster.try_ask(SetTopicConfig(topic, (ConfigEntry(name, value),)))


def _choose_move(chance: random.Random, known: Known) -> Chosen:
    topic = known.topic(chance)
    if topic is None:
        return None
    number = chance.randrange(len(known.topics[topic]))
    replicas = known.topics[topic][number] = known.replicas(chance)
    return topic, str(number), *written((replicas,))


def _reassign(cluster: Cluster, topic: str, number: str, replicas: str) -> None:
    """A partition gets other replicas, by /admin/reassign_partitions."""
    wanted = {"topic": topic, "partition": int(number), "replicas": list(read((replicas,))[0])}
    if _has(cluster, topic, number):
        data = json.dumps({"version": 1, "partitions": [wanted]}).encode()
        cluster.write(WriteOp(CREATE, paths.REASSIGNMENTS, data))


def _ask_reassign(cluster: Cluster, topic: str, number: str, replicas: str) -> None:
    """The same, asked of the controller."""
    part = ReassignablePartition(int(number), read((replicas,))[0])
    cluster.ask_controller(AlterPartitionReassignmentsRequest(0, 15_000, (ReassignableTopic(topic, (part,)),)))


def _has(cluster: Cluster, topic: str, number: str) -> bool:
    data = cluster.zookeeper.read(paths.topic(topic)).data
    there = () if data is None else decode_topic("", data)
    return cluster.zookeeper.up and any(each.partition == int(number) for each in there)


def _choose_election(chance: random.Random, known: Known) -> Chosen:
    topic = known.topic(chance)
    return None if topic is None else (topic, str(chance.randrange(len(known.topics[topic]))))


def _elect(cluster: Cluster, topic: str, number: str) -> None:
    """A preferred leader is asked for, by /admin/preferred_replica_election."""
    if _has(cluster, topic, number):
        data = json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": int(number)}]}).encode()
        cluster.write(WriteOp(CREATE, paths.PREFERRED_ELECTION, data))


def _ask_elect(cluster: Cluster, topic: str, number: str) -> None:
    """The same, asked of the controller."""
    cluster.ask_controller(ElectLeadersRequest(1, (ElectableTopic(topic, (int(number),)),), 15_000))


def _ask_grow(cluster: Cluster, topic: str, *replicas: str) -> None:
    """The same, asked of the controller, which receives the new number."""
    data = cluster.zookeeper.read(paths.topic(topic)).data
    there = () if data is None else decode_topic("", data)
    wanted = tuple(WantedReplicas(each) for each in read(replicas))
    growing = GrowingTopic(topic, len(there) + len(wanted), wanted)
    cluster.ask_controller(CreatePartitionsRequest(1, (growing,), 15_000))


def _alter(cluster: Cluster, resource: int, name: str, entry: str) -> None:
    key, _, value = entry.partition("=")
    changed = ChangedResource(resource, name, (ConfigChange(key, value),))
    cluster.ask_controller(IncrementalAlterConfigsRequest(0, (changed,)))


def _ask_configure(cluster: Cluster, topic: str, entry: str) -> None:
    """The same, asked of the controller, without a word of the other overrides."""
    _alter(cluster, TOPIC, topic, entry)


def _choose_broker_config(chance: random.Random, known: Known) -> Chosen:
    return (f"num.replica.fetchers={chance.randint(1, 2)}",)


def _configure_brokers(cluster: Cluster, entry: str) -> None:
    """An override for all brokers, asked of the controller."""
    _alter(cluster, BROKER, "", entry)


def _choose_member(chance: random.Random, known: Known) -> Chosen:
    return f"g{chance.randrange(2)}", str(chance.randrange(4))


def _join(cluster: Cluster, group: str, number: str) -> None:
    """Add a member to a consumer group: it sends heartbeats, and commits."""
    cluster.members.join(group, number)


def _leave_group(cluster: Cluster, group: str, number: str) -> None:
    """A member leaves its group."""
    cluster.members.leave(group, number)


def _fall_silent(cluster: Cluster, group: str, number: str) -> None:
    """A member is heard of no more."""
    cluster.members.leave(group, number, silently=True)


def _nothing(chance: random.Random, known: Known) -> Chosen:
    return ()


def _move_controller(cluster: Cluster) -> None:
    """Delete /controller, to elect another controller."""
    if cluster.zookeeper.up:
        cluster.write(WriteOp(DELETE, paths.CONTROLLER))


def _never(chance: random.Random, known: Known) -> Chosen:
    return None


def _put(cluster: Cluster, path: str, *data: str) -> None:
    """A znode is written by hand, whether it was there or not. Seeds do not: anything might be written."""
    text = " ".join(data).encode()
    cluster.write(WriteOp(SET if cluster.exists(path) else CREATE, path, text))


def _remove(cluster: Cluster, path: str) -> None:
    """A znode, with all below it, is removed by hand. Seeds do not."""
    for each in sorted((each for each, _ in cluster.zookeeper.walk(path)), reverse=True):
        cluster.write(WriteOp(DELETE, each))


def _one(chance: random.Random, known: Known) -> Chosen:
    return (str(chance.randrange(known.brokers)),)


def _leave(cluster: Cluster, node: str) -> None:
    """A node is stopped in order, and started again."""
    cluster.leave(int(node))


def _start(cluster: Cluster, node: str) -> None:
    """A node is started, where it does not run."""
    cluster.start(int(node))


# ---------------------------------------------------------------------------------------------------- faults


def _kill(cluster: Cluster, node: str) -> None:
    """A process is killed, and started again."""
    cluster.kill(int(node))


def _crash(cluster: Cluster, node: str) -> None:
    """A machine loses its power, and what was not durable; it is started again."""
    cluster.kill(int(node), power=True)


def _pause(cluster: Cluster, node: str) -> None:
    """Suspend a process, as a zombie may be."""
    cluster.pause(int(node))


def _resume(cluster: Cluster, node: str) -> None:
    """It goes on."""
    cluster.resume(int(node))


def _host(name: str) -> str:
    return ZOOKEEPER if name == "zk" else host_of(int(name))


def _pair(chance: random.Random, known: Known) -> Chosen:
    one, other = known.pair(chance)
    return (one, other) if chance.random() < 0.5 else (other, one)


def _mute(cluster: Cluster, one: str, other: str) -> None:
    """Nothing comes through from one host to the other; the other way it does."""
    cluster.cut(_host(one), _host(other))


def _unmute(cluster: Cluster, one: str, other: str) -> None:
    """It does again."""
    cluster.mend(_host(one), _host(other))


def _cut(cluster: Cluster, one: str, other: str) -> None:
    """Nothing comes through between two hosts."""
    _mute(cluster, one, other)
    _mute(cluster, other, one)


def _mend(cluster: Cluster, one: str, other: str) -> None:
    """It does again."""
    _unmute(cluster, one, other)
    _unmute(cluster, other, one)


def _split(chance: random.Random, known: Known) -> Chosen:
    """Two sides; ZooKeeper is on one of them."""
    nodes = chance.sample(range(known.brokers), chance.randint(1, max(1, known.brokers - 1)))
    one = [str(node) for node in sorted(nodes)]
    other = [str(node) for node in range(known.brokers) if node not in nodes]
    (one if chance.random() < 0.3 else other).append("zk")
    return ",".join(one), ",".join(other) or "zk"


def _across(sides: tuple[str, str], do: Callable[..., None], cluster: Cluster) -> None:
    for one in sides[0].split(","):
        for other in sides[1].split(","):
            if one != other:
                do(cluster, one, other)


def _partition(cluster: Cluster, one: str, other: str) -> None:
    """Nothing comes through between two sides of the cluster; ZooKeeper is on one of them."""
    _across((one, other), _cut, cluster)


def _unite(cluster: Cluster, one: str, other: str) -> None:
    """It does again."""
    _across((one, other), _mend, cluster)


def _reset(cluster: Cluster, one: str, other: str) -> None:
    """Every connection between two hosts breaks; what is on its way is lost."""
    cluster.reset(_host(one), _host(other))


def _expire(cluster: Cluster, node: str) -> None:
    """ZooKeeper ends a session."""
    cluster.expire(int(node))


def _choose_delay(chance: random.Random, known: Known) -> Chosen:
    one, other = known.pair(chance)
    return one, other, f"{chance.choice((0.05, 0.5, 2.0)):g}"


def _delay(cluster: Cluster, one: str, other: str, seconds: str) -> None:
    """Everything between two hosts takes longer."""
    cluster.delay(_host(one), _host(other), float(seconds))


def _hurry(cluster: Cluster, one: str, other: str, seconds: str) -> None:
    """It takes as long as before."""
    _delay(cluster, one, other, f"-{seconds}")


def _zookeeper_down(cluster: Cluster) -> None:
    """ZooKeeper goes away, and comes back with its data."""
    cluster.set_zookeeper(False)


def _zookeeper_up(cluster: Cluster) -> None:
    """It is back."""
    cluster.set_zookeeper(True)


def _zookeeper_slow(cluster: Cluster) -> None:
    """ZooKeeper responds slowly to all clients."""
    for node in cluster.machines:
        _delay(cluster, str(node), "zk", "0.4")


def _zookeeper_fast(cluster: Cluster) -> None:
    """It does not."""
    for node in cluster.machines:
        _delay(cluster, str(node), "zk", "-0.4")


def _choose_disk(chance: random.Random, known: Known) -> Chosen:
    return str(chance.randrange(known.brokers)), str(chance.randrange(2))


def _disk(cluster: Cluster, node: str, disk: str, fault: str) -> None:
    disks = cluster.machines[int(node)].disks
    disks.faults[disks.names[int(disk)]] = fault


def _fill(cluster: Cluster, node: str, disk: str) -> None:
    """A disk is full. When that is over, the next rest restarts its node."""
    _disk(cluster, node, disk, FULL)


def _break(cluster: Cluster, node: str, disk: str) -> None:
    """A disk fails. When that is over, the next rest restarts its node."""
    _disk(cluster, node, disk, FAILING)


def _repair(cluster: Cluster, node: str, disk: str) -> None:
    """The disk is whole again; its node needs a restart to see it."""
    disks = cluster.machines[int(node)].disks
    disks.faults.pop(disks.names[int(disk)], None)


def _clog(cluster: Cluster, node: str, disk: str) -> None:
    """A disk is slow: the node waits for each write."""
    disks = cluster.machines[int(node)].disks
    disks.delays[disks.names[int(disk)]] = 0.2


def _clear(cluster: Cluster, node: str, disk: str) -> None:
    """It is as fast as before."""
    disks = cluster.machines[int(node)].disks
    disks.delays.pop(disks.names[int(disk)], None)


# ---------------------------------------------------------------------------------------------------- the table

SHORT = (0.5, 20.0)

ROUND = 60.0
"""Seconds of actions between two rests."""

SETTLED = 10.0
"""Seconds after which whatever a fault has done to a session is known."""

GONE = 30.0
"""Seconds after which a deletion is not waited for."""

KINDS: tuple[Kind, ...] = (
    Kind("create", WORK, 6, _choose_new, _create),
    Kind("ask-create", WORK, 2, _choose_new, _ask_create),
    Kind("grow", WORK, 3, _choose_growth, _grow),
    Kind("delete", WORK, 4, _choose_deletion, _delete),
    Kind("ask-delete", WORK, 1, _choose_deletion, _ask_delete),
    Kind("configure", WORK, 1, _choose_config, _configure),
    Kind("reassign", WORK, 3, _choose_move, _reassign),
    Kind("ask-reassign", WORK, 2, _choose_move, _ask_reassign),
    Kind("elect", WORK, 2, _choose_election, _elect),
    Kind("remake", WORK, 1, _choose_removal, _take_away, _put_back, (ROUND, ROUND)),
    Kind("move-controller", WORK, 2, _nothing, _move_controller),
    Kind("ask-grow", ADMIN, 2, _choose_growth, _ask_grow),
    Kind("ask-elect", ADMIN, 2, _choose_election, _ask_elect),
    Kind("ask-configure", ADMIN, 2, _choose_config, _ask_configure),
    Kind("configure-brokers", ADMIN, 2, _choose_broker_config, _configure_brokers),
    Kind("join", GROUPS, 6, _choose_member, _join),
    Kind("leave", GROUPS, 2, _choose_member, _leave_group),
    Kind("fall-silent", GROUPS, 2, _choose_member, _fall_silent),
    Kind("delete-records", RECORDS, 5, _choose_election, _delete_records),
    Kind("recreate", RECORDS, 5, _choose_again, _recreate),
    Kind("strand", ABSENT, 3, _choose_stranding, _strand, _delete_stranded, (0.5, 10.0)),
    Kind("put", WORK, 0, _never, _put),
    Kind("remove", WORK, 0, _never, _remove),
    Kind("roll", WORK, 2, _one, _leave, _start, (1.0, 10.0)),
    Kind("kill", "kill", 8, _one, _kill, _start, SHORT),
    Kind("pause", "pause", 6, _one, _pause, _resume, SHORT),
    Kind("cut", "partition", 3, _pair, _cut, _mend, SHORT),
    Kind("mute", "partition", 3, _pair, _mute, _unmute, SHORT),
    Kind("partition", "partition", 2, _split, _partition, _unite, SHORT),
    Kind("reset", "partition", 2, _pair, _reset),
    Kind("expire", "expire", 4, _one, _expire),
    Kind("fill", "disk", 2, _choose_disk, _fill, _repair, SHORT),
    Kind("break", "disk", 2, _choose_disk, _break, _repair, SHORT),
    Kind("clog", "disk", 2, _choose_disk, _clog, _clear, SHORT),
    Kind("crash", "disk", 2, _one, _crash, _start, SHORT),
    Kind("slow", "slow", 6, _choose_delay, _delay, _hurry, SHORT),
    Kind("zookeeper-down", "zookeeper", 2, _nothing, _zookeeper_down, _zookeeper_up, (0.5, 8.0)),
    Kind("zookeeper-slow", "zookeeper", 2, _nothing, _zookeeper_slow, _zookeeper_fast, SHORT),
)

ACTIONS: dict[str, Kind] = {kind.name: kind for kind in KINDS}
"""All kinds of actions, by name."""


def _is_node(word: str, brokers: int) -> bool:
    return word.isdecimal() and int(word) < brokers


def _is_host(word: str, brokers: int) -> bool:
    return word == "zk" or _is_node(word, brokers)


def _is_number(word: str, brokers: int) -> bool:
    return word.isdecimal()


def _is_seconds(word: str, brokers: int) -> bool:
    return word.replace(".", "", 1).isdecimal()


_ARGUMENTS: dict[str, tuple[Callable[[str, int], bool], str]] = {
    "node": (_is_node, "a node"),
    "replicas": (_is_node, "a node"),
    "one": (_is_host, "a node or zk"),
    "other": (_is_host, "a node or zk"),
    "number": (_is_number, "a number"),
    "disk": (lambda word, brokers: word in ("0", "1"), "a disk, 0 or 1"),
    "seconds": (_is_seconds, "a number of seconds"),
}
"""What the words of an argument must be, by its name in the action's function; several are separated by commas."""


def unfit(action: Action, brokers: int) -> str | None:
    """Why this action is invalid on a cluster of `brokers` brokers; None if it is valid."""
    kind = ACTIONS.get(action.name)
    if action.name == REST:
        return None
    if kind is None:
        return f"there is no action {action.name!r}; there are {', '.join((REST, *ACTIONS))}"
    try:
        bound = inspect.signature(kind.do).bind(None, *action.args).arguments
    except TypeError as error:
        return f"{action}: {error}"
    for name, value in bound.items():
        fits, what = _ARGUMENTS.get(name, (None, ""))
        words = [word for each in ((value,) if isinstance(value, str) else value or ()) for word in each.split(",")]
        for word in words:
            if fits is not None and not fits(word, brokers):
                return f"{action}: {word!r} is not {what}; the nodes are 0 to {brokers - 1}"
    return None


FAULTS: tuple[str, ...] = tuple(dict.fromkeys(kind.part for kind in KINDS if kind.part not in (WORK, RECORDS, *NAMED)))
"""What goes wrong: the optional parts of the actions."""

EVERY = 2.5
"""Average seconds between two actions."""


def invent(
    seed: int,
    brokers: int = 3,
    topics: int = 8,
    partitions: int = 4,
    replication: int = 3,
    duration: float = 120.0,
    faults: tuple[str, ...] = FAULTS,
    records: bool = False,
    validated: bool = True,
    every: float = EVERY,
    rests: float = ROUND,
) -> Schedule:
    """The schedule of a seed. `partitions` are a topic's at most, at its beginning; `every` is the
    average, something is done, and the cluster is left alone when `rests` seconds of that are over.
    """
    chance = random.Random(seed)
    known = Known(brokers, partitions, replication, topics)
    parts = (WORK, *faults, *((RECORDS,) if records else ()))
    kinds = [kind for kind in KINDS if kind.part in parts]
    weights = [kind.weight for kind in kinds]
    actions: list[Action] = []
    at, rests_at = 5.0, rests
    for _ in range(topics // 2):
        chosen = _choose_new(chance, known)
        if chosen is not None:
            actions.append(Action(round(chance.uniform(4.0, 5.0), 3), "create", chosen))
    while (at := round(at + chance.expovariate(1 / every), 3)) < duration:
        if at >= rests_at:
            actions.append(Action(rests_at, REST))
            rests_at += rests
        (kind,) = chance.choices(kinds, weights)
        args = kind.choose(chance, known)
        if args is not None:
            lasts = None if kind.undo is None else round(chance.uniform(*kind.seconds), 3)
            actions.append(Action(at, kind.name, args, lasts))
    actions.sort(key=lambda action: action.at)
    return Schedule(brokers, seed, duration, records, validated, actions=tuple(actions))
