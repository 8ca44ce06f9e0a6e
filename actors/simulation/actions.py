"""The actions of a simulated run: the usual operations of a cluster's administrator, and faults.

Rule 1: `KINDS` lists all kinds of actions. Each row has a function that chooses arguments from the seed and the actions
        planned so far, and a function that runs the action. If the action lasts, the row also has a function that ends
        it. A new kind is a new row.
Rule 2: arguments are chosen without a running cluster: a schedule is complete before the run starts.
Rule 3: an action checks the cluster when it runs, and does nothing if it is impossible then (`schedule`, rule 2).
Rule 4: administrators write to ZooKeeper, as Kafka's tools up to 2.x do, or send requests to the controller, as newer
        tools do.
"""

from __future__ import annotations

import inspect
import json
import math
import random
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial

import attrs

from actors.core.topic.topic_admin import numbered
from actors.simulation import client_requests
from actors.simulation.client_requests import ABSENT_TOPIC
from actors.simulation.coincidences import Occasion, draw_coincidence
from actors.simulation.schedule import REST, Action, Schedule
from actors.simulation.simulated_cluster import UP, Cluster, host_of
from actors.simulation.swarm import ClusterParameters, draw_config, draw_surroundings, draw_weights
from actors.simulation.zookeeper_link import ZOOKEEPER
from actors.storage.log_directories import FAILING, FULL
from messages.apis.alter_configs import ChangedResource, ConfigChange
from messages.apis.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from messages.apis.create_partitions import CreatePartitionsRequest, GrowingTopic, WantedReplicas
from messages.apis.create_topics import CreatableAssignment, CreatableTopic, CreateTopicsRequest
from messages.apis.delete_topics import DeleteTopicsRequest
from messages.apis.describe_configs import BROKER, TOPIC
from messages.apis.elect_leaders import ElectableTopic, ElectLeadersRequest
from messages.apis.incremental_alter_configs import IncrementalAlterConfigsRequest
from messages.cluster import ConfigEntry, TopicPartition, partition_named
from messages.store import CREATE, DELETE, SET, WriteOp
from messages.zookeeper import CreateTopic, RequestTopicDeletion, SetTopicConfig, TopicAssignment
from zk_bridge import paths
from zk_bridge.controller import decode_controller_epoch, encode_controller_epoch
from zk_bridge.partition_states import decode_state
from zk_bridge.topics import decode_topic, encode_topic

WORK = "work"
"""The group of actions that every run contains."""

ADMIN = "admin"
"""Requests of newer admin tools to the controller; included if requested by name or with `all`."""

GROUPS = "groups"
"""Actions of consumer group members; included if requested by name or with `all`."""

RECORDS = "records"
"""Actions on records and on topics with records; included in runs with producers."""

ABSENT = "absent"
"""Reassignments to a broker that never exists, and deletions of their topics; included if requested by name or with
`all`."""

STALE = "stale"
"""Requests with old epochs, and requests of controllers for partitions that do not exist; included if requested by name
or with `all`."""

PRODUCERS = "producers"
"""Idempotent producers, in runs with records; included if requested by name or with `all`."""

TRANSACTIONS = "transactions"
"""Transactional producers and a worker, in runs with records; included if requested by name or with `all`."""

FLIPS = "flips"
"""Bits that flip on a disk while its node is down; included if requested by name or with `all`."""

NAMED = (ADMIN, GROUPS, ABSENT, STALE, PRODUCERS, TRANSACTIONS, FLIPS)
"""The groups of actions beside the faults; `all` includes them."""

Replicas = tuple[tuple[int, ...], ...]
"""The replicas of each partition of a topic."""


@attrs.define
class PlannedTopics:
    """The topics, with replicas, that will exist after the actions generated so far; the next actions may use them."""

    brokers: int
    partitions: int
    replication: int
    most_topics: int
    topics: dict[str, list[tuple[int, ...]]] = attrs.field(factory=dict)
    away: dict[str, list[tuple[int, ...]]] = attrs.field(factory=dict)
    """Topics that an action removes for a while: their names stay in use."""

    def replicas(self, chance: random.Random) -> tuple[int, ...]:
        """Choose replicas for a partition: usually as many as the replication factor, sometimes fewer."""
        most = min(self.replication, self.brokers)
        return tuple(chance.sample(range(self.brokers), most if chance.random() < 0.8 else chance.randint(1, most)))

    def topic(self, chance: random.Random) -> str | None:
        """Choose a topic; None without topics."""
        return chance.choice(sorted(self.topics)) if self.topics else None

    def pair(self, chance: random.Random) -> tuple[str, str]:
        """Choose two hosts; the second may be ZooKeeper's."""
        hosts = [str(number) for number in range(self.brokers)]
        one = chance.choice(hosts)
        return one, chance.choice([*(host for host in hosts if host != one), "zk"])


Chosen = tuple[str, ...] | None
Choose = Callable[[random.Random, PlannedTopics], Chosen]


@attrs.frozen
class ActionKind:
    """A kind of action in a schedule, such as creating a topic or killing a broker.

    Attributes:
        part: The value of `--faults` that includes this kind of action.
        weight: Its relative frequency.
        choose: Returns the arguments, or None if the action is impossible at this point of the schedule.
        do: Runs the action; takes the cluster and the arguments.
        undo: Ends the action; takes the same arguments as `do`. None if the action has no duration.
        seconds: The shortest and the longest duration in seconds.
        needs_all: Whether `undo` waits until all brokers are online. If so, a schedule with a fault that lasts to the
            end of the run has no such action.
        stay: Runs after `do` if the action lasts to the end of the run; None if it always ends.
    """

    name: str
    part: str
    weight: int
    choose: Choose
    do: Callable[..., None]
    undo: Callable[..., None] | None = None
    seconds: tuple[float, float] = (0.0, 0.0)
    stay: Callable[..., None] | None = None
    needs_all: bool = False


# ---------------------------------------------------------------------------------------------------- operators


def written(replicas: Replicas) -> tuple[str, ...]:
    """Return replicas as arguments of an action: one text such as "0,1,2" for each partition."""
    return tuple(",".join(map(str, each)) for each in replicas)


def read(args: tuple[str, ...]) -> Replicas:
    """Return the replicas from the arguments that `written` returned."""
    return tuple(tuple(int(number) for number in arg.split(",")) for arg in args)


def _choose_new(chance: random.Random, known: PlannedTopics) -> Chosen:
    taken = known.topics.keys() | known.away.keys()
    free = [name for number in range(known.most_topics) if (name := f"t{number}") not in taken]
    if not free:
        return None
    topic = chance.choice(free)
    partitions = [known.replicas(chance) for _ in range(chance.randint(1, known.partitions))]
    known.topics[topic] = partitions
    return (topic, *written(tuple(partitions)))


def _create(cluster: Cluster, topic: str, *replicas: str) -> None:
    """Create a topic by writing its znodes, as `kafka-topics --zookeeper` does."""
    if cluster.zookeeper.up and not cluster.exists(paths.delete_topic(topic)) and _is_new(cluster, topic):
        cluster.try_ask(CreateTopic(TopicAssignment(topic, numbered(read(replicas)))))


def _is_new(cluster: Cluster, topic: str) -> bool:
    """Return False if a broker still has logs of an earlier, deleted topic of that name.

    A controller that resigns may forget to stop a replica that a reassignment has removed. Without topic ids (KIP-516),
    a broker with such a replica refuses the new topic's leader epochs, which begin at 0 again.
    """
    return cluster.exists(paths.topic(topic)) or not cluster.has_log_of(topic)


def _ask_create(cluster: Cluster, topic: str, *replicas: str) -> None:
    """Create a topic by a CreateTopics request to the controller."""
    assignments = tuple(CreatableAssignment(number, each) for number, each in enumerate(read(replicas)))
    if _is_new(cluster, topic):
        cluster.ask_controller(CreateTopicsRequest(5, (CreatableTopic(topic, -1, -1, assignments),), 15_000))


def _choose_growth(chance: random.Random, known: PlannedTopics) -> Chosen:
    topic = known.topic(chance)
    if topic is None:
        return None
    added = [known.replicas(chance) for _ in range(chance.randint(1, 2))]
    known.topics[topic] += added
    return (topic, *written(tuple(added)))


def _grow(cluster: Cluster, topic: str, *replicas: str) -> None:
    """Add partitions in a topic's znode, as `kafka-topics --zookeeper` does; a topic deletion does not prevent this."""
    data = cluster.zookeeper.read(paths.topic(topic)).data
    if data is None or not cluster.zookeeper.up:
        return
    there = decode_topic(paths.topic(topic), data)
    whole = there.partitions + numbered(read(replicas), first=len(there.partitions))
    cluster.write(WriteOp(SET, paths.topic(topic), encode_topic(there._replace(partitions=whole))))


def _choose_deletion(chance: random.Random, known: PlannedTopics) -> Chosen:
    topic = known.topic(chance)
    if topic is None:
        return None
    del known.topics[topic]
    return (topic,)


def _delete(cluster: Cluster, topic: str) -> None:
    """Delete a topic by writing its znode below /admin/delete_topics."""
    if cluster.zookeeper.up and cluster.exists(paths.topic(topic)):
        cluster.try_ask(RequestTopicDeletion(topic))


def _choose_again(chance: random.Random, known: PlannedTopics) -> Chosen:
    topic = known.topic(chance)
    if topic is None:
        return None
    replicas = known.topics[topic] = [known.replicas(chance) for _ in range(chance.randint(1, known.partitions))]
    return (topic, *written(tuple(replicas)))


def _recreate(cluster: Cluster, topic: str, *replicas: str) -> None:
    """Delete a topic, and create it again as soon as it is gone."""
    _delete(cluster, topic)
    _create_when_gone(cluster, cluster.now + GONE, topic, *replicas)


def _create_when_gone(cluster: Cluster, until: float, topic: str, *replicas: str) -> None:
    if not cluster.exists(paths.topic(topic)) and not cluster.exists(paths.delete_topic(topic)):
        _create(cluster, topic, *replicas)
    elif cluster.now < until:
        cluster.scheduler.call_later(0.1, partial(_create_when_gone, cluster, until, topic, *replicas))


def _choose_burst(chance: random.Random, known: PlannedTopics) -> Chosen:
    topic = known.topic(chance)
    if topic is None:
        return None
    batches, size = chance.choice(((10, 2_000), (40, 1_000), (100, 300)))
    return topic, str(chance.randrange(len(known.topics[topic]))), str(batches), str(size)


def _burst(cluster: Cluster, topic: str, number: str, batches: str, size: str) -> None:
    """Produce many batches to a partition at once, each with one record of `size` bytes."""
    cluster.burst(TopicPartition(topic, int(number)), int(batches), int(size))


def _delete_records(cluster: Cluster, topic: str, number: str) -> None:
    """Delete the first records of a partition by a DeleteRecords request to its leader."""
    cluster.delete_records(TopicPartition(topic, int(number)))


def _produce(cluster: Cluster, topic: str, number: str) -> None:
    """Start an idempotent producer that writes to a partition."""
    cluster.start_stream(TopicPartition(topic, int(number)))


def _end_stream(cluster: Cluster, topic: str, number: str) -> None:
    """Stop the idempotent producer of the partition."""
    cluster.end_stream(TopicPartition(topic, int(number)))


def _choose_transactional_id(chance: random.Random, known: PlannedTopics) -> Chosen:
    return (chance.choice((*TRANSACTIONAL_IDS, WORKER)),)


def _transact(cluster: Cluster, id: str) -> None:
    """Start a transactional producer. A running producer with the same transactional id becomes a zombie."""
    cluster.start_transactions(id)


def _end_transactions(cluster: Cluster, id: str) -> None:
    """Stop the transactional producer at the end of its present transaction."""
    cluster.end_transactions(id)


def _ask_delete(cluster: Cluster, topic: str) -> None:
    """Delete a topic by a DeleteTopics request to the controller."""
    cluster.ask_controller(DeleteTopicsRequest(4, (topic,), 15_000))


def _choose_removal(chance: random.Random, known: PlannedTopics) -> Chosen:
    topic = known.topic(chance)
    if topic is None:
        return None
    known.away[topic] = known.topics.pop(topic)
    return topic, *written(tuple(known.away[topic]))


def _remove_znodes(cluster: Cluster, topic: str, *replicas: str) -> None:
    """Remove the znodes of a topic in use. `_create_again` creates the topic again with the same replicas."""
    zookeeper = cluster.zookeeper
    below = [path for path, _ in zookeeper.walk(paths.topic(topic))]
    if zookeeper.up and not cluster.exists(paths.delete_topic(topic)) and _is_fresh(cluster, topic, read(replicas)):
        cluster.write(*(WriteOp(DELETE, path) for path in sorted(below, reverse=True)))


def _is_fresh(cluster: Cluster, topic: str, replicas: Replicas) -> bool:
    """Return whether the topic has these partitions, each in its first state with all replicas in the ISR."""
    data = cluster.zookeeper.read(paths.topic(topic)).data
    if data is None or decode_topic("", data).partitions != numbered(replicas):
        return False
    for number, each in enumerate(replicas):
        path = paths.partition_state(TopicPartition(topic, number))
        node = cluster.zookeeper.nodes.get(path)
        if node is None or node.version or decode_state(path, node.data, 0).isr != each:
            return False
    return True


def _create_again(cluster: Cluster, topic: str, *replicas: str) -> None:
    """Create the topic again once the controller has removed it and sees all brokers."""
    cluster.scheduler.call_later(SETTLED, partial(_make_again, cluster, topic, *replicas))


def _make_again(cluster: Cluster, topic: str, *replicas: str) -> None:
    contexts = cluster.controllers().values()
    brokers = len(cluster.machines)
    if cluster.exists(paths.topic(topic)) or not cluster.exists(paths.topic_config(topic)):
        return
    if contexts and all(topic not in each.topics and len(each.online_brokers) == brokers for each in contexts):
        again = TopicAssignment(topic, numbered(read(replicas)))
        cluster.write(WriteOp(CREATE, paths.topic(topic), encode_topic(again)))
    else:
        _create_again(cluster, topic, *replicas)


def _choose_stranding(chance: random.Random, known: PlannedTopics) -> Chosen:
    """Choose a partition for `_strand`.

    The topic's name is not used again, because the topic's deletion never ends. It waits for a broker that does not
    exist.
    """
    topic = known.topic(chance)
    if topic is None:
        return None
    known.away[topic] = known.topics.pop(topic)
    return topic, str(chance.randrange(len(known.away[topic])))


def _strand(cluster: Cluster, topic: str, number: str) -> None:
    """Reassign a partition to a broker that does not exist. `_delete_stranded` deletes the topic later."""
    _reassign(cluster, topic, number, str(len(cluster.machines)))


def _delete_stranded(cluster: Cluster, topic: str, number: str) -> None:
    """Delete the topic as soon as ZooKeeper is up."""
    if cluster.zookeeper.up:
        _delete(cluster, topic)
    else:
        cluster.scheduler.call_later(1.0, partial(_delete_stranded, cluster, topic, number))


def _choose_config(chance: random.Random, known: PlannedTopics) -> Chosen:
    topic = known.topic(chance)
    return None if topic is None else (topic, draw_config(chance))


def _configure(cluster: Cluster, topic: str, entry: str) -> None:
    """Set a topic config by writing its znodes, as `kafka-configs --zookeeper` does."""
    name, _, value = entry.partition("=")
    if cluster.zookeeper.up and cluster.exists(paths.topic(topic)) and not cluster.exists(paths.delete_topic(topic)):
        cluster.try_ask(SetTopicConfig(topic, (ConfigEntry(name, value),)))


def _choose_move(chance: random.Random, known: PlannedTopics) -> Chosen:
    topic = known.topic(chance)
    if topic is None:
        return None
    number = chance.randrange(len(known.topics[topic]))
    replicas = known.topics[topic][number] = known.replicas(chance)
    return topic, str(number), *written((replicas,))


def _reassign(cluster: Cluster, topic: str, number: str, replicas: str) -> None:
    """Reassign a partition by writing /admin/reassign_partitions."""
    wanted = {"topic": topic, "partition": int(number), "replicas": list(read((replicas,))[0])}
    if _has(cluster, topic, number):
        data = json.dumps({"version": 1, "partitions": [wanted]}).encode()
        cluster.write(WriteOp(CREATE, paths.REASSIGNMENTS, data))


def _ask_reassign(cluster: Cluster, topic: str, number: str, replicas: str) -> None:
    """Reassign a partition by an AlterPartitionReassignments request to the controller."""
    part = ReassignablePartition(int(number), read((replicas,))[0])
    cluster.ask_controller(AlterPartitionReassignmentsRequest(0, 15_000, (ReassignableTopic(topic, (part,)),)))


def _has(cluster: Cluster, topic: str, number: str) -> bool:
    data = cluster.zookeeper.read(paths.topic(topic)).data
    there = () if data is None else decode_topic("", data).partitions
    return cluster.zookeeper.up and any(each.partition == int(number) for each in there)


def _choose_election(chance: random.Random, known: PlannedTopics) -> Chosen:
    topic = known.topic(chance)
    return None if topic is None else (topic, str(chance.randrange(len(known.topics[topic]))))


def _elect(cluster: Cluster, topic: str, number: str) -> None:
    """Elect the preferred leader by writing /admin/preferred_replica_election."""
    if _has(cluster, topic, number):
        data = json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": int(number)}]}).encode()
        cluster.write(WriteOp(CREATE, paths.PREFERRED_ELECTION, data))


def _ask_elect(cluster: Cluster, topic: str, number: str) -> None:
    """Elect the preferred leader by an ElectLeaders request to the controller."""
    cluster.ask_controller(ElectLeadersRequest(1, (ElectableTopic(topic, (int(number),)),), 15_000))


def _choose_moves(chance: random.Random, known: PlannedTopics) -> Chosen:
    topic = known.topic(chance)
    if topic is None:
        return None
    number = chance.randrange(len(known.topics[topic]))
    moves = [known.replicas(chance) for _ in range(3)]
    known.topics[topic][number] = moves[-1]
    return topic, str(number), *written(tuple(moves))


def _reassign_again(cluster: Cluster, topic: str, number: str, *replicas: str) -> None:
    """Reassign a partition in ZooKeeper, and again by requests to the controller during the first reassignment."""
    _reassign(cluster, topic, number, replicas[0])
    for place, each in enumerate(replicas[1:], 1):
        cluster.scheduler.call_later(place * 0.01, partial(_ask_reassign, cluster, topic, number, each))


def _ask_grow(cluster: Cluster, topic: str, *replicas: str) -> None:
    """Add partitions by a CreatePartitions request to the controller."""
    data = cluster.zookeeper.read(paths.topic(topic)).data
    there = () if data is None else decode_topic("", data).partitions
    wanted = tuple(WantedReplicas(each) for each in read(replicas))
    growing = GrowingTopic(topic, len(there) + len(wanted), wanted)
    cluster.ask_controller(CreatePartitionsRequest(1, (growing,), 15_000))


def _alter(cluster: Cluster, resource: int, name: str, entry: str) -> None:
    key, _, value = entry.partition("=")
    changed = ChangedResource(resource, name, (ConfigChange(key, value),))
    cluster.ask_controller(IncrementalAlterConfigsRequest(0, (changed,)))


def _ask_configure(cluster: Cluster, topic: str, entry: str) -> None:
    """Set one topic config by an IncrementalAlterConfigs request to the controller."""
    _alter(cluster, TOPIC, topic, entry)


UNCLEAN_ELECTION = "unclean.leader.election.enable"
UNCLEAN_SHARE = 0.2
"""The share of broker configs that set `unclean.leader.election.enable`."""


def _choose_broker_config(chance: random.Random, known: PlannedTopics) -> Chosen:
    if chance.random() < UNCLEAN_SHARE:
        return (f"{UNCLEAN_ELECTION}={chance.choice(('true', 'false'))}",)
    return (f"num.replica.fetchers={chance.randint(1, 2)}",)


def _configure_brokers(cluster: Cluster, entry: str) -> None:
    """Set a config of all brokers by an IncrementalAlterConfigs request to the controller."""
    if entry == f"{UNCLEAN_ELECTION}=true":
        cluster.elects_uncleanly = True
    _alter(cluster, BROKER, "", entry)


MEMBERS_GROUPS = ("g0", "g1")
"""The groups that members join."""

GROUPS_OF_PARTITIONS = ("g0", "g1", "g2", "g3")
"""A group for each partition of __consumer_offsets; members join two of them."""


def _choose_member(chance: random.Random, known: PlannedTopics) -> Chosen:
    return chance.choice(MEMBERS_GROUPS), str(chance.randrange(4))


def _join(cluster: Cluster, group: str, number: str) -> None:
    """Add a member to a consumer group; it sends heartbeats and commits offsets."""
    cluster.members.join(group, number)


def _leave_group(cluster: Cluster, group: str, number: str) -> None:
    """Remove a member from its group by a LeaveGroup request."""
    cluster.members.leave(group, number)


def _fall_silent(cluster: Cluster, group: str, number: str) -> None:
    """Stop a member without sending a LeaveGroup request; the member's session expires."""
    cluster.members.leave(group, number, silently=True)


TRANSACTIONAL_IDS = ("id0", "id1")
WORKER = "worker"
"""The transactional id of the worker, which copies partition 0 of TRANSACTION_TOPIC."""

TRANSACTION_TOPIC = "x"
TRANSACTION_PARTITIONS = 4


MOST_REQUESTS = 10
"""Number of request kinds that one action sends."""


def _choose_request(requests: Collection[str]) -> Choose:
    """Return a function that chooses some of the requests, and one topic, partition and group for all of them."""
    names = tuple(requests)

    def choose(chance: random.Random, known: PlannedTopics) -> Chosen:
        topic = known.topic(chance) or ABSENT_TOPIC
        number = chance.randrange(len(known.topics.get(topic, ())) or 1)
        return ",".join(chance.sample(names, MOST_REQUESTS)), topic, str(number), chance.choice(MEMBERS_GROUPS)

    return choose


def _send(cluster: Cluster, requests: str, topic: str, number: str, group: str) -> None:
    """Send requests to every node; each node answers or refuses them."""
    for name in requests.split(","):
        client_requests.send(cluster, name, topic, int(number), group)


OVERRIDES = {
    "max.message.bytes=60": "Produce",
    "segment.bytes=60": "Produce",
    "cleanup.policy=compact": "DeleteRecords",
    "compression.type=zstd": "Fetch:version=9",
    "message.timestamp.difference.max.ms=60000": "Produce:first_timestamp=0;max_timestamp=0",
    "min.insync.replicas=3": "Produce,Produce:acks=1,ListOffsets,ListOffsets:version=2",
}
"""Overrides that make a leader refuse requests -> those requests."""

REFUSED_FOR = 4
"""Number of seconds for which the requests of an override are sent, once a second."""


def _choose_override(chance: random.Random, known: PlannedTopics) -> Chosen:
    topic = known.topic(chance)
    return None if topic is None else (topic, chance.choice(tuple(OVERRIDES)))


TURNS = 1.5
"""Seconds after which an override that stops the high watermark is followed by a new leader."""


def _turn(cluster: Cluster, topic: str) -> None:
    """Reassign partition 0 so that another replica is the preferred leader, and elect that replica."""
    data = cluster.zookeeper.read(paths.topic(topic)).data
    first = (
        None
        if data is None
        else next((each for each in decode_topic("", data).partitions if each.partition == 0), None)
    )
    if first is not None:
        _ask_reassign(cluster, topic, "0", *written((first.assignment.replicas[::-1],)))
        cluster.scheduler.call_later(0.5, partial(_ask_elect, cluster, topic, "0"))


def _override(cluster: Cluster, topic: str, entry: str) -> None:
    """Set a topic config that makes the topic's leaders refuse requests, and send them such requests."""
    _configure(cluster, topic, entry)
    if entry.startswith("min.insync"):
        cluster.scheduler.call_later(TURNS, partial(_turn, cluster, topic))
    for second in range(1, REFUSED_FOR + 1):
        send = partial(_send, cluster, OVERRIDES.get(entry, "Produce"), topic, "0", MEMBERS_GROUPS[0])
        cluster.scheduler.call_later(second, send)


def _end_override(cluster: Cluster, topic: str, entry: str) -> None:
    """Delete all overrides of the topic, not only `entry`."""
    if cluster.zookeeper.up and cluster.exists(paths.topic(topic)) and not cluster.exists(paths.delete_topic(topic)):
        cluster.try_ask(SetTopicConfig(topic, ()))
    elif not cluster.zookeeper.up:
        cluster.scheduler.call_later(1.0, partial(_end_override, cluster, topic, entry))


OFTEN = 0.5
"""Seconds between two groups of requests that `swamp` sends."""

SWAMP_PACE = 0.003
"""Seconds that each message of a swamped node takes."""

AT_ONCE = 0.05
"""Seconds after an election within which a node stops."""

COMMITS, COMMITS_EVERY = 10, 0.1
"""Number of commits after the beginning of a load, and the seconds between two of them."""

SOON = 0.01
"""Seconds between two checks whether a swamped node loads a partition of its coordinators."""

QUICK = 0.02
"""Seconds between two requests that `swamp-group` sends."""

SWAMPED = 5.0
"""Seconds for which it sends them."""


STOPPED = 2.0
"""Seconds for which `swamp` leaves a node stopped."""

LED_AGAIN = 3.0
"""Seconds between two elections of the preferred leaders while a node is swamped."""


def _swamp(cluster: Cluster, node: str) -> None:
    """Make a node slow, restart it, let it lead its partitions again, and send requests to its coordinators."""
    machine = cluster.machines[int(node)]
    for name in machine.disks.names:
        machine.disks.read_delays[name] = 0.05
    cluster.starve(int(node), SWAMP_PACE)
    _stop_for_a_while(cluster, int(node))
    cluster.scheduler.call_later(STOPPED + LED_AGAIN, partial(_lead_again, cluster, node))
    _swamp_more(cluster, node)
    _watch_loads(cluster, node)


def _stop_for_a_while(cluster: Cluster, node: int) -> None:
    if cluster.machines[node].state == UP:
        cluster.leave(node)
        cluster.scheduler.call_later(STOPPED, partial(cluster.start, node))


def _is_swamped(cluster: Cluster, node: str) -> bool:
    return bool(cluster.machines[int(node)].disks.read_delays)


def _lead_again(cluster: Cluster, node: str) -> None:
    """Elect the preferred leaders, and usually stop a node other than `node` within AT_ONCE seconds.

    The stopped node then leaves the ISR of partitions that are being loaded.
    """
    if _is_swamped(cluster, node):
        cluster.ask_controller(ElectLeadersRequest(1, None, 15_000))
        others = [other for other in cluster.machines if other != int(node)]
        if others and cluster.chance.random() < 0.7:
            stops = partial(_stop_for_a_while, cluster, cluster.chance.choice(others))
            cluster.scheduler.call_later(cluster.chance.uniform(0.0, AT_ONCE), stops)
        cluster.scheduler.call_later(LED_AGAIN, partial(_lead_again, cluster, node))


def _swamp_more(cluster: Cluster, node: str) -> None:
    if _is_swamped(cluster, node):
        _ask_coordinators(cluster, node, cluster.chance.sample(client_requests.OF_COORDINATORS, 4))
        cluster.scheduler.call_later(OFTEN, partial(_swamp_more, cluster, node))


def _ask_coordinators(cluster: Cluster, node: str, requests: Iterable[str]) -> None:
    for request in requests:
        group = cluster.chance.choice(GROUPS_OF_PARTITIONS)
        client_requests.send(cluster, request, ABSENT_TOPIC, 0, group, (int(node),))


def _watch_loads(cluster: Cluster, node: str) -> None:
    """Sometimes send the node requests and commits, or stop the node, while its coordinators load partitions."""
    if not _is_swamped(cluster, node):
        return
    after = SOON
    if cluster.is_loading(int(node)):
        after = LED_AGAIN / 2
        if cluster.chance.random() < 0.5:
            _ask_coordinators(cluster, node, client_requests.OF_COORDINATORS)
            for number in range(COMMITS):
                commit = partial(_ask_coordinators, cluster, node, ("OffsetCommit", "InitProducerId"))
                cluster.scheduler.call_later(number * COMMITS_EVERY, commit)
            if cluster.chance.random() < 0.5:
                _stop_for_a_while(cluster, int(node))
    cluster.scheduler.call_later(after, partial(_watch_loads, cluster, node))


def _end_swamp(cluster: Cluster, node: str) -> None:
    """Restore the node's speed, and start it."""
    cluster.machines[int(node)].disks.read_delays.clear()
    cluster.starve(int(node), -SWAMP_PACE)
    cluster.start(int(node))


def _choose_group(chance: random.Random, known: PlannedTopics) -> Chosen:
    return chance.choice(MEMBERS_GROUPS), known.topic(chance) or ABSENT_TOPIC


def _swamp_group(cluster: Cluster, group: str, topic: str) -> None:
    """Send many requests about a group in a few seconds, some of them in the names of the group's members."""
    requests = client_requests.OF_GROUPS
    for number in range(round(SWAMPED / QUICK)):
        name = requests[cluster.chance.randrange(len(requests))]
        send = partial(client_requests.send, cluster, name, topic, 0, group)
        cluster.scheduler.call_later(number * QUICK, send)


def _touch(cluster: Cluster, node: str) -> None:
    """Write the registration of a broker again, unchanged."""
    path = f"/brokers/ids/{node}"
    data = cluster.zookeeper.read(path).data
    if cluster.zookeeper.up and data is not None:
        cluster.write(WriteOp(SET, path, data))


def _nothing(chance: random.Random, known: PlannedTopics) -> Chosen:
    return ()


def _move_controller(cluster: Cluster) -> None:
    """Delete /controller, so that a new controller is elected."""
    if cluster.zookeeper.up:
        cluster.write(WriteOp(DELETE, paths.CONTROLLER))


def _never(chance: random.Random, known: PlannedTopics) -> Chosen:
    return None


def _put(cluster: Cluster, path: str, *data: str) -> None:
    """Create or overwrite a znode. This action is only used in schedules written by hand."""
    text = " ".join(data).encode()
    cluster.write(WriteOp(SET if cluster.exists(path) else CREATE, path, text))


def _remove(cluster: Cluster, path: str) -> None:
    """Remove a znode and all znodes below it. This action is only used in schedules written by hand."""
    for each in sorted((each for each, _ in cluster.zookeeper.walk(path)), reverse=True):
        cluster.write(WriteOp(DELETE, each))


def _one(chance: random.Random, known: PlannedTopics) -> Chosen:
    return (str(chance.randrange(known.brokers)),)


def _leave(cluster: Cluster, node: str) -> None:
    """Stop a node with a controlled shutdown; `_start` starts it again."""
    cluster.leave(int(node))


def _start(cluster: Cluster, node: str) -> None:
    """Start a node that is not running."""
    cluster.start(int(node))


# ---------------------------------------------------------------------------------------------------- faults


def _kill(cluster: Cluster, node: str) -> None:
    """Kill a node's process; `_start` starts it again."""
    cluster.kill(int(node))


def _crash(cluster: Cluster, node: str) -> None:
    """Cut the power of a node's machine: unflushed data is lost. `_start` starts the node again."""
    cluster.kill(int(node), power=True)


def _flip(cluster: Cluster, node: str) -> None:
    """Kill a node, and flip a bit of a committed record on its disks. `_start` starts the node again."""
    cluster.kill(int(node))
    cluster.flip(int(node))


def _flip_after_stop(cluster: Cluster, node: str) -> None:
    """Stop a node with a controlled shutdown. `_flip_and_start` flips a bit, and starts the node again."""
    cluster.leave(int(node))


def _flip_and_start(cluster: Cluster, node: str) -> None:
    """Flip a bit of a committed record on the disks of a node that has stopped, and start the node."""
    cluster.flip(int(node))
    cluster.start(int(node))


def _lose(cluster: Cluster, node: str) -> None:
    """Keep a node stopped or suspended for the rest of the run."""
    cluster.machines[int(node)].is_lost = True


def _pause(cluster: Cluster, node: str) -> None:
    """Suspend a node's process (SIGSTOP); `_resume` resumes it."""
    cluster.pause(int(node))


def _resume(cluster: Cluster, node: str) -> None:
    """Resume a process."""
    cluster.resume(int(node))


def _host(name: str) -> str:
    return ZOOKEEPER if name == "zk" else host_of(int(name))


def _pair(chance: random.Random, known: PlannedTopics) -> Chosen:
    one, other = known.pair(chance)
    return (one, other) if chance.random() < 0.5 else (other, one)


def _do_nothing(cluster: Cluster, *args: str) -> None:
    """Do nothing: the fault lasts to the end of the run."""


def _mute(cluster: Cluster, one: str, other: str) -> None:
    """Block traffic from one host to another, in this direction only."""
    cluster.cut(_host(one), _host(other))


def _unmute(cluster: Cluster, one: str, other: str) -> None:
    """Allow traffic from one host to another."""
    cluster.mend(_host(one), _host(other))


def _cut(cluster: Cluster, one: str, other: str) -> None:
    """Block traffic between two hosts."""
    _mute(cluster, one, other)
    _mute(cluster, other, one)


def _mend(cluster: Cluster, one: str, other: str) -> None:
    """Allow traffic between two hosts."""
    _unmute(cluster, one, other)
    _unmute(cluster, other, one)


def _split(chance: random.Random, known: PlannedTopics) -> Chosen:
    """Choose the hosts on both sides of a network partition; ZooKeeper is on one side."""
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
    """Block traffic between two sides of the cluster; ZooKeeper is on one of them."""
    _across((one, other), _cut, cluster)


def _unite(cluster: Cluster, one: str, other: str) -> None:
    """Allow traffic between the two sides."""
    _across((one, other), _mend, cluster)


def _reset(cluster: Cluster, one: str, other: str) -> None:
    """Break all connections between two hosts; data in transit is lost."""
    cluster.reset(_host(one), _host(other))


def _expire(cluster: Cluster, node: str) -> None:
    """Expire a node's ZooKeeper session."""
    cluster.expire(int(node))


def _choose_delay(chance: random.Random, known: PlannedTopics) -> Chosen:
    one, other = known.pair(chance)
    return one, other, f"{chance.choice((0.05, 0.5, 2.0)):g}"


def _delay(cluster: Cluster, one: str, other: str, seconds: str) -> None:
    """Delay all traffic between two hosts."""
    cluster.wires.delay(_host(one), _host(other), float(seconds))


def _hurry(cluster: Cluster, one: str, other: str, seconds: str) -> None:
    """Remove a delay of `seconds` between two hosts."""
    _delay(cluster, one, other, f"-{seconds}")


def _choose_lag(chance: random.Random, known: PlannedTopics) -> Chosen:
    return str(chance.randrange(known.brokers)), f"{chance.choice((0.2, 1.0, 3.0)):g}"


def _lag(cluster: Cluster, node: str, seconds: str) -> None:
    """Delay all messages between a node and the other nodes; its replicas lag behind."""
    for other in cluster.machines:
        if other != int(node):
            _delay(cluster, node, str(other), seconds)


def _catch_up(cluster: Cluster, node: str, seconds: str) -> None:
    """Remove the delay between a node and the other nodes."""
    _lag(cluster, node, f"-{seconds}")


def _choose_pace(chance: random.Random, known: PlannedTopics) -> Chosen:
    return str(chance.randrange(known.brokers)), f"{chance.choice((0.001, 0.003, 0.01)):g}"


def _starve(cluster: Cluster, node: str, seconds: str) -> None:
    """Slow a process down: each message between its actors takes time."""
    cluster.starve(int(node), float(seconds))


def _feed(cluster: Cluster, node: str, seconds: str) -> None:
    """Undo `_starve` for the same node and the same seconds."""
    cluster.starve(int(node), -float(seconds))


def _zookeeper_down(cluster: Cluster) -> None:
    """Stop ZooKeeper; `_zookeeper_up` starts it again with its data."""
    cluster.set_zookeeper(False)


def _zookeeper_up(cluster: Cluster) -> None:
    """Start ZooKeeper."""
    cluster.set_zookeeper(True)


LOST_SHARE = 0.4
"""The share of writes whose responses are lost."""


def _lose_responses(cluster: Cluster, node: str) -> None:
    """Break a node's connection to ZooKeeper after some of its writes, before their responses arrive."""
    cluster.machines[int(node)].loses = LOST_SHARE


def _deliver_responses(cluster: Cluster, node: str) -> None:
    """Let all responses of ZooKeeper reach the node again."""
    cluster.machines[int(node)].loses = 0.0


def _fence(cluster: Cluster) -> None:
    """Raise /controller_epoch, as if by a client that does not take part in the election.

    The controller's next write is refused.
    """
    data = cluster.zookeeper.read(paths.CONTROLLER_EPOCH).data
    if cluster.zookeeper.up and data is not None:
        epoch = decode_controller_epoch(paths.CONTROLLER_EPOCH, data)
        cluster.write(WriteOp(SET, paths.CONTROLLER_EPOCH, encode_controller_epoch(epoch + 1)))


def _zookeeper_slow(cluster: Cluster) -> None:
    """Delay all traffic between ZooKeeper and its clients."""
    for node in cluster.machines:
        _delay(cluster, str(node), "zk", "0.4")


def _zookeeper_fast(cluster: Cluster) -> None:
    """Remove the delay between ZooKeeper and its clients."""
    for node in cluster.machines:
        _delay(cluster, str(node), "zk", "-0.4")


def _choose_disk(chance: random.Random, known: PlannedTopics) -> Chosen:
    return str(chance.randrange(known.brokers)), str(chance.randrange(2))


def _disk(cluster: Cluster, node: str, disk: str, fault: str) -> None:
    disks = cluster.machines[int(node)].disks
    disks.faults[disks.names[int(disk)]] = fault


OF_A_DISK = (
    *("DescribeLogDirs", "DescribeProducers", "Fetch", "ListOffsets", "OffsetForLeaderEpoch"),
    *("Produce:acks=1", "DeleteRecords"),
)
"""Requests whose responses depend on the disk of a replica."""

NOTICED = 3.0
"""Seconds after which a node and the controller have noticed a broken disk."""

MOST_LOGS = 4
"""Number of logs on a broken disk that requests are sent about."""


def _ask_about_disk(cluster: Cluster, node: str, disk: str) -> None:
    """Send requests to a node about the logs on one of the node's disks."""
    logs = cluster.machines[int(node)].disks.logs_on(int(disk))
    for log in cluster.chance.sample(logs, min(MOST_LOGS, len(logs))):
        partition = partition_named(log)
        if partition is not None:
            for request in OF_A_DISK:
                client_requests.send(cluster, request, *partition, MEMBERS_GROUPS[0], (int(node),))


def _fill(cluster: Cluster, node: str, disk: str) -> None:
    """Make a disk full. The next "rest" action restarts the node if an operation has failed."""
    _disk(cluster, node, disk, FULL)


def _break(cluster: Cluster, node: str, disk: str) -> None:
    """Make all operations of a disk fail. The next "rest" action restarts the node if an operation has failed."""
    _disk(cluster, node, disk, FAILING)
    cluster.scheduler.call_later(NOTICED, partial(_ask_about_disk, cluster, node, disk))


def _repair(cluster: Cluster, node: str, disk: str) -> None:
    """Repair a disk; the node uses it again after a restart."""
    disks = cluster.machines[int(node)].disks
    if disks.names[int(disk)] not in disks.lasting:
        disks.faults.pop(disks.names[int(disk)], None)


def _never_repair(cluster: Cluster, node: str, disk: str) -> None:
    """Keep the disk's fault to the end of the run."""
    disks = cluster.machines[int(node)].disks
    disks.lasting[disks.names[int(disk)]] = None


def _clog(cluster: Cluster, node: str, disk: str) -> None:
    """Make a disk slow: the node waits for each write."""
    disks = cluster.machines[int(node)].disks
    disks.delays[disks.names[int(disk)]] = 0.2


def _clear(cluster: Cluster, node: str, disk: str) -> None:
    """Remove the delay of a disk."""
    disks = cluster.machines[int(node)].disks
    disks.delays.pop(disks.names[int(disk)], None)


# ---------------------------------------------------------------------------------------------------- the table

SHORT = (0.5, 20.0)

ROUND = 60.0
"""Seconds between two rests."""

SETTLED = 10.0
"""Seconds after which all sessions that a fault ended have expired."""

GONE = 30.0
"""Seconds to wait for a deletion."""

KINDS: tuple[ActionKind, ...] = (
    ActionKind("create", WORK, 6, _choose_new, _create),
    ActionKind("ask-create", WORK, 2, _choose_new, _ask_create),
    ActionKind("grow", WORK, 3, _choose_growth, _grow),
    ActionKind("delete", WORK, 4, _choose_deletion, _delete),
    ActionKind("ask-delete", WORK, 1, _choose_deletion, _ask_delete),
    ActionKind("configure", WORK, 1, _choose_config, _configure),
    ActionKind("reassign", WORK, 3, _choose_move, _reassign),
    ActionKind("ask-reassign", WORK, 2, _choose_move, _ask_reassign),
    ActionKind("elect", WORK, 2, _choose_election, _elect),
    ActionKind("remake", WORK, 1, _choose_removal, _remove_znodes, _create_again, (ROUND, ROUND), needs_all=True),
    ActionKind("move-controller", WORK, 2, _nothing, _move_controller),
    ActionKind("ask-grow", ADMIN, 2, _choose_growth, _ask_grow),
    ActionKind("ask-elect", ADMIN, 2, _choose_election, _ask_elect),
    ActionKind("ask-configure", ADMIN, 2, _choose_config, _ask_configure),
    ActionKind("configure-brokers", ADMIN, 2, _choose_broker_config, _configure_brokers),
    ActionKind("send-admin", ADMIN, 8, _choose_request(client_requests.ADMIN), _send),
    ActionKind("reassign-again", ADMIN, 3, _choose_moves, _reassign_again),
    ActionKind("touch", ADMIN, 1, _one, _touch),
    ActionKind("send-group", GROUPS, 6, _choose_request(client_requests.GROUPS), _send),
    ActionKind("swamp-group", GROUPS, 3, _choose_group, _swamp_group),
    ActionKind("swamp", GROUPS, 4, _one, _swamp, _end_swamp, (20.0, 30.0)),
    ActionKind("send-stale", STALE, 4, _choose_request(client_requests.STALE), _send),
    ActionKind("send-data", RECORDS, 8, _choose_request(client_requests.DATA), _send),
    ActionKind("override", RECORDS, 3, _choose_override, _override, _end_override, SHORT),
    ActionKind("join", GROUPS, 6, _choose_member, _join),
    ActionKind("leave", GROUPS, 2, _choose_member, _leave_group),
    ActionKind("fall-silent", GROUPS, 2, _choose_member, _fall_silent),
    ActionKind("burst", RECORDS, 8, _choose_burst, _burst),
    ActionKind("delete-records", RECORDS, 5, _choose_election, _delete_records),
    ActionKind("recreate", RECORDS, 5, _choose_again, _recreate),
    ActionKind("produce", PRODUCERS, 10, _choose_election, _produce, _end_stream, (5.0, 40.0)),
    ActionKind(
        "transact", TRANSACTIONS, 10, _choose_transactional_id, _transact, _end_transactions, seconds=(10.0, 40.0)
    ),
    ActionKind("send-transactions", TRANSACTIONS, 6, _choose_request(client_requests.TRANSACTIONS), _send),
    ActionKind("strand", ABSENT, 3, _choose_stranding, _strand, _delete_stranded, (0.5, 10.0)),
    ActionKind("put", WORK, 0, _never, _put),
    ActionKind("remove", WORK, 0, _never, _remove),
    ActionKind("roll", WORK, 2, _one, _leave, _start, (1.0, 10.0)),
    ActionKind("kill", "kill", 8, _one, _kill, _start, SHORT, _lose),
    ActionKind("pause", "pause", 6, _one, _pause, _resume, SHORT, _lose),
    ActionKind("cut", "partition", 3, _pair, _cut, _mend, SHORT, _do_nothing),
    ActionKind("mute", "partition", 3, _pair, _mute, _unmute, SHORT, _do_nothing),
    ActionKind("partition", "partition", 2, _split, _partition, _unite, SHORT),
    ActionKind("reset", "partition", 2, _pair, _reset),
    ActionKind("expire", "expire", 4, _one, _expire),
    ActionKind("fill", "disk", 2, _choose_disk, _fill, _repair, SHORT, _never_repair),
    ActionKind("break", "disk", 2, _choose_disk, _break, _repair, SHORT, _never_repair),
    ActionKind("clog", "disk", 2, _choose_disk, _clog, _clear, SHORT),
    ActionKind("crash", "disk", 2, _one, _crash, _start, SHORT),
    ActionKind("flip", FLIPS, 4, _one, _flip, _start, SHORT),
    ActionKind("flip-after-stop", FLIPS, 4, _one, _flip_after_stop, _flip_and_start, (5.0, 20.0)),
    ActionKind("slow", "slow", 6, _choose_delay, _delay, _hurry, SHORT),
    ActionKind("lag", "slow", 4, _choose_lag, _lag, _catch_up, SHORT),
    ActionKind("starve", "slow", 3, _choose_pace, _starve, _feed, SHORT),
    ActionKind("zookeeper-down", "zookeeper", 2, _nothing, _zookeeper_down, _zookeeper_up, (0.5, 8.0)),
    ActionKind("lose-responses", "zookeeper", 4, _one, _lose_responses, _deliver_responses, SHORT),
    ActionKind("fence", "zookeeper", 2, _nothing, _fence),
    ActionKind("zookeeper-slow", "zookeeper", 2, _nothing, _zookeeper_slow, _zookeeper_fast, SHORT),
)

ACTIONS: dict[str, ActionKind] = {kind.name: kind for kind in KINDS}
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
    "batches": (_is_number, "a number"),
    "size": (_is_number, "a number"),
    "disk": (lambda word, brokers: word in ("0", "1"), "a disk, 0 or 1"),
    "seconds": (_is_seconds, "a number of seconds"),
    "requests": (lambda word, brokers: client_requests.is_request(word), "a request"),
}
"""The valid words of an argument, by its name in the action's function; commas separate words."""


def unfit(action: Action, brokers: int) -> str | None:
    """Return why this action is invalid on a cluster of `brokers` brokers; None if it is valid."""
    kind = ACTIONS.get(action.name)
    if action.name == REST:
        return None
    if kind is None:
        return f"unknown action {action.name!r}; use one of: {', '.join((REST, *ACTIONS))}"
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
"""The groups of faults, by the names that `--faults` takes."""

EVERY = 2.5
"""Average seconds between two actions."""


SESSION_MS = 6_000
"""The ZooKeeper session timeout of a simulated node in ms, unless a seed draws another one."""

LASTING = 0.3
"""The share of drawn clusters in which one fault lasts to the end."""

SPARE = 3
"""The number of brokers from which on one of them may fail for good."""


def invent(
    seed: int,
    brokers: int | None = None,
    topics: int = 8,
    partitions: int = 4,
    replication: int = 3,
    duration: float = 120.0,
    faults: tuple[str, ...] = FAULTS,
    records: bool = False,
    validated: bool = True,
    every: float = EVERY,
    rests: float = ROUND,
    swarm: bool = True,
) -> Schedule:
    """Generate the schedule of a seed.

    Args:
        brokers: Number of brokers; None: a random number, or 3 without `swarm`.
        partitions: Maximum number of partitions of a new topic.
        every: Average seconds between two actions.
        rests: Seconds between two "rest" actions. A "rest" action ends all faults and checks the idle cluster.
        swarm: Draw settings, clocks, the network and weights of actions (`actors.simulation.swarm`), and sometimes a
            fault that lasts to the end. Otherwise everything has its default.
    """
    chance = random.Random(seed)
    parts = (WORK, *faults, *((RECORDS,) if records else ()))
    kinds = [kind for kind in KINDS if kind.part in parts]
    weights = [kind.weight for kind in kinds]
    drawn = draw_surroundings(chance, brokers) if swarm else ClusterParameters(brokers or 3)
    if swarm:
        weights = draw_weights(chance, weights)
        every *= chance.choice((0.5, 1.0, 2.0))
    known = PlannedTopics(drawn.brokers, partitions, replication, topics)
    actions: list[Action] = []
    at, rests_at = 5.0, rests
    for _ in range(topics // 2):
        chosen = _choose_new(chance, known)
        if chosen is not None:
            actions.append(Action(round(chance.uniform(4.0, 5.0), 3), "create", chosen))
            if swarm and chance.random() < 0.5:
                actions.append(Action(actions[-1].at, "configure", (chosen[0], draw_config(chance))))
    if swarm and drawn.brokers >= SPARE and chance.random() < LASTING:
        actions += _lasting(chance, known, kinds, duration)
        weights = [weight * (not kind.needs_all) for kind, weight in zip(kinds, weights, strict=True)]
        weights[0] = max(weights[0], 1)
    if TRANSACTIONS in faults:
        replicas = written(tuple(known.replicas(chance) for _ in range(TRANSACTION_PARTITIONS)))
        actions += [
            Action(4.0, "create", (TRANSACTION_TOPIC, *replicas)),
            Action(5.0, "produce", (TRANSACTION_TOPIC, "0"), duration),
            *(Action(5.0, "transact", (id,), duration) for id in (*TRANSACTIONAL_IDS, WORKER)),
        ]
    for group in MEMBERS_GROUPS if GROUPS in faults else ():
        actions += [Action(5.0, "join", (group, str(number))) for number in sorted(chance.sample(range(4), 3))]
    while (at := round(at + chance.expovariate(1 / every), 3)) < duration:
        if at >= rests_at:
            actions.append(Action(rests_at, REST))
            rests_at += rests
        (kind,) = chance.choices(kinds, weights)
        args = kind.choose(chance, known)
        if args is not None:
            lasts = None if kind.undo is None else round(chance.uniform(*kind.seconds), 3)
            actions.append(Action(at, kind.name, args, lasts))
    if swarm:
        timeout_ms = dict(drawn.settings).get("zookeeper_session_timeout_ms", SESSION_MS)
        existing, new_topic = tuple(sorted(known.topics)), _choose_new(chance, known)
        occasion = Occasion(chance, drawn.brokers, existing, new_topic, int(timeout_ms) / 1000, duration)
        actions += draw_coincidence(occasion, {kind.name for kind in kinds})
    actions.sort(key=lambda action: action.at)
    return Schedule(
        drawn.brokers,
        seed,
        duration,
        records,
        validated,
        racks=drawn.racks,
        latency=drawn.latency,
        settings=drawn.settings,
        clocks=drawn.clocks,
        distances=drawn.distances,
        actions=tuple(actions),
    )


def _lasting(
    chance: random.Random, known: PlannedTopics, kinds: Sequence[ActionKind], duration: float
) -> Iterator[Action]:
    """Yield a fault that lasts to the end of the run; nothing if none of these kinds can last so long."""
    staying = [kind for kind in kinds if kind.stay is not None]
    if staying:
        kind = chance.choice(staying)
        args = kind.choose(chance, known)
        assert args is not None
        yield Action(round(chance.uniform(5.0, max(duration * 0.7, 5.0)), 3), kind.name, args, math.inf)
