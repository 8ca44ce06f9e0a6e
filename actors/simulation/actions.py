"""The actions of a simulated run: the usual operations of a cluster's administrator, and faults.

Rule 1: an action is a function with `@action`: its group, its weight, how its arguments are drawn from the seed and the
        actions planned so far, and its duration. A function with a duration is a generator: it begins the action, and
        ends it after its `yield`. The words of a schedule are read by the types of the function's parameters.
Rule 2: arguments are chosen without a running cluster: a schedule is complete before the run starts.
Rule 3: an action checks the cluster when it runs, and does nothing if it is impossible then (`schedule`, rule 2).
Rule 4: administrators write to ZooKeeper, as Kafka's tools up to 2.x do, or send requests to the controller, as newer
        tools do.
"""

from __future__ import annotations

import inspect
import itertools
import json
import math
import random
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cached_property, partial
from typing import Annotated, Any, NamedTuple, get_type_hints

import attrs

from actors.core.security.scram import MIN_ITERATIONS, ScramCredential, format_credential
from actors.core.topic.topic_admin import number_partitions
from actors.gateway.memory_network import MECHANISM
from actors.node.cluster_security import acl_of
from actors.simulation import client_requests
from actors.simulation.client_requests import ABSENT_TOPIC
from actors.simulation.coincidences import Occasion, draw_coincidence
from actors.simulation.members import Script
from actors.simulation.schedule import REST, Action, Schedule
from actors.simulation.simulated_cluster import CLIENT, UP, Cluster, host_of
from actors.simulation.swarm import (
    CLEANED_CONFIGS,
    LOG_SETTINGS,
    RETENTION_CONFIGS,
    Choices,
    draw_config,
    draw_entries,
    draw_settings,
    draw_surroundings,
    draw_weights,
)
from actors.simulation.zookeeper_link import ZOOKEEPER
from actors.storage.log_directories import FAILING, FULL
from messages import zookeeper
from messages.apis import API_BY_REQUEST
from messages.apis.alter_client_quotas import AlterClientQuotasRequest, QuotaAlteration, QuotaChange
from messages.apis.alter_configs import ChangedResource, ConfigChange
from messages.apis.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from messages.apis.alter_replica_log_dirs import AlterReplicaLogDirsRequest, ReplicaLogDir
from messages.apis.create_partitions import CreatePartitionsRequest, GrowingTopic, WantedReplicas
from messages.apis.create_topics import CreatableAssignment, CreatableTopic, CreateTopicsRequest
from messages.apis.declaration import Target
from messages.apis.delete_records import DeleteRecordsRequest
from messages.apis.delete_topics import DeleteTopicsRequest
from messages.apis.describe_client_quotas import CLIENT_ID, USER, QuotaName
from messages.apis.describe_configs import BROKER, TOPIC
from messages.apis.elect_leaders import ElectableTopic, ElectLeadersRequest
from messages.apis.fetch import FetchRequest
from messages.apis.incremental_alter_configs import IncrementalAlterConfigsRequest
from messages.apis.list_offsets import ListOffsetsRequest
from messages.apis.metadata import MetadataRequest
from messages.apis.update_metadata import UpdateMetadataRequest
from messages.client_quotas import FETCH, PRODUCE, QuotaEntity
from messages.cluster import ConfigEntry, PartitionAssignment, TopicPartition, partition_named
from messages.store import CREATE, DELETE, SET, WriteOp
from messages.vocabulary import evolve
from zk_bridge import paths
from zk_bridge.controller import decode_controller_epoch, encode_controller_epoch
from zk_bridge.partition_states import decode_state
from zk_bridge.topics import decode_topic, encode_topic

WORK = "work"
"""The group of actions that every run contains."""
RECORDS = "records"
"""Actions on records and on topics with records; included in runs with producers."""
RIGHTS = "rights"
"""Changes of ACLs, and requests of users without other rights; included only if requested by name, because all nodes of
the run have an authorizer."""

NAMED = ADMIN, GROUPS, ABSENT, STALE, PRODUCERS, TRANSACTIONS, FLIPS, LOGS, VERSIONS, QUOTAS = (
    "admin",  # requests of newer admin tools to the controller
    "groups",  # members of consumer groups
    "absent",  # reassignments to a broker that never exists, and deletions of their topics
    "stale",  # requests with old epochs, and requests of controllers for partitions that do not exist
    "producers",  # idempotent producers, in runs with records
    "transactions",  # transactional producers and a worker, in runs with records
    "flips",  # bits that flip on a disk while its node is down
    "logs",  # cleaning, retention, and moves between log directories
    "versions",  # restarts with another inter-broker protocol version
    "quotas",  # quotas of users, and users that would use more, in runs with records
)
"""The groups of actions beside the faults; included if requested by name or with `all`."""


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


def _is_node(word: str, brokers: int) -> bool:
    return word.isdecimal() and int(word) < brokers


def _is_host(word: str, brokers: int) -> bool:
    return word == "zk" or _is_node(word, brokers)


def _host(name: str) -> str:
    return ZOOKEEPER if name == "zk" else host_of(int(name))


def _is_number(word: str, brokers: int) -> bool:
    return word.isdecimal()


class Word(NamedTuple):
    """What a word of a schedule is, whether it is valid with this number of brokers, and its value."""

    what: str
    fits: Callable[[str, int], bool]
    value: Callable[[str], Any]


def _several(value: Callable[[str], Any]) -> Callable[[str], tuple[Any, ...]]:
    return lambda text: tuple(map(value, text.split(",")))


NODE = Word("a node", _is_node, int)
Node = Annotated[int, NODE]
Replicas = Annotated[tuple[int, ...], Word("a node", _is_node, _several(int))]
"""The replicas of a partition."""
Host = Annotated[str, Word("a node or zk", _is_host, _host)]
Hosts = Annotated[tuple[str, ...], Word("a node or zk", _is_host, _several(_host))]
Number = Annotated[int, Word("a number", _is_number, int)]
Member = Annotated[str, Word("a number", _is_number, str)]
Disk = Annotated[int, Word("a disk, 0 or 1", lambda word, brokers: word in ("0", "1"), int)]
Seconds = Annotated[
    float, Word("a number of seconds", lambda word, brokers: word.replace(".", "", 1).isdecimal(), float)
]
Requests = Annotated[
    tuple[str, ...], Word("a request", lambda word, brokers: client_requests.is_request(word), _several(str))
]

SHORT = (0.5, 20.0)
"""The shortest and the longest duration of most faults, in seconds."""


@attrs.frozen(slots=False)
class ActionKind:
    """A kind of action in a schedule, such as creating a topic or killing a broker.

    Attributes:
        part: The value of `--faults` that includes this kind of action.
        weight: Its relative frequency.
        choose: Returns the arguments, or None if the action is impossible at this point of the schedule.
        do: Runs the action; takes the cluster and the arguments. A generator ends the action after its `yield`.
        seconds: The shortest and the longest duration in seconds.
        needs_all: Whether the end of the action waits until all brokers are online. If so, a schedule with a fault that
            lasts to the end of the run has no such action.
        may_last: Whether it may last to the end of the run. Its nodes are then outside the core (`Cluster.outside`).
    """

    name: str
    part: str
    weight: int
    choose: Choose
    do: Callable[..., Iterator[None] | None]
    seconds: tuple[float, float] = (0.0, 0.0)
    may_last: bool = False
    needs_all: bool = False

    @property
    def lasts(self) -> bool:
        """Whether the action has a duration."""
        return self.seconds != (0.0, 0.0)

    @cached_property
    def _words(self) -> dict[str, Word | None]:
        hints = get_type_hints(self.do, include_extras=True)
        known = [
            (name, getattr(hints[name], "__metadata__", (None,))[0]) for name in inspect.signature(self.do).parameters
        ]
        return dict(known[1:])

    def arguments(self, args: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
        """Return the arguments of a schedule by the names of the parameters. Raises TypeError if they do not fit."""
        bound = inspect.signature(self.do).bind(None, *args).arguments
        return {name: (value,) if isinstance(value, str) else value for name, value in [*bound.items()][1:]}

    def words(self, args: tuple[str, ...]) -> list[tuple[str, Word | None]]:
        """Return the arguments of a schedule, each with what it must be. Raises TypeError if they do not fit."""
        return [(each, self._words[name]) for name, values in self.arguments(args).items() for each in values]

    def begin(self, cluster: Cluster, args: tuple[str, ...], lasting: bool = False) -> Callable[[], None] | None:
        """Run the action with the arguments of a schedule.

        Returns:
            What ends the action; None if it has no duration, or if it is `lasting` and can last to the end of the run.
        """
        words = self.words(args)
        values = [text if word is None else word.value(text) for text, word in words]
        running = self.do(cluster, *values)
        if running is None:
            return None
        next(running)
        if lasting and self.may_last:
            cluster.outside.update(int(text) for text, word in words if word is NODE)
            return None
        return partial(next, running, None)


ACTIONS: dict[str, ActionKind] = {}
"""All kinds of actions, by name."""


def action(
    part: str,
    weight: int,
    choose: Choose,
    seconds: tuple[float, float] = (0.0, 0.0),
    may_last: bool = False,
    needs_all: bool = False,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare an action. Its name is that of the function, its description the function's docstring."""

    def declare(do: Callable[..., Any]) -> Callable[..., Any]:
        name = do.__name__.rstrip("_").replace("_", "-")
        ACTIONS[name] = ActionKind(name, part, weight, choose, do, seconds, may_last, needs_all)
        return do

    return declare


# ---------------------------------------------------------------------------------------------------- operators

ROUND = 60.0
"""Seconds between two rests."""

SETTLED = 10.0
"""Seconds after which all sessions that a fault ended have expired."""

GONE = 30.0
"""Seconds to wait for a deletion."""


def written(replicas: Iterable[tuple[int, ...]]) -> tuple[str, ...]:
    """Return replicas as arguments of an action: one text such as "0,1,2" for each partition."""
    return tuple(",".join(map(str, each)) for each in replicas)


def _never(chance: random.Random, known: PlannedTopics) -> Chosen:
    return None


def _with_topic(choose: Callable[[random.Random, PlannedTopics, str], tuple[str, ...]]) -> Choose:
    """Return a function that chooses arguments for a topic that it chooses first."""

    def chosen(chance: random.Random, known: PlannedTopics) -> Chosen:
        topic = known.topic(chance)
        return None if topic is None else (topic, *choose(chance, known, topic))

    return chosen


Draw = Callable[[random.Random, PlannedTopics, str], str]
"""Draws one argument of an action; the text is the topic that the action is about, "" without one."""


def _draws(*draws: Draw) -> Choose:
    """Return a function that draws these arguments, one after the other."""
    return lambda chance, known: tuple(draw(chance, known, "") for draw in draws)


def _topic_and(*draws: Draw) -> Choose:
    """Return a function that draws a topic, and then these arguments."""
    return _with_topic(lambda chance, known, topic: tuple(draw(chance, known, topic) for draw in draws))


def _one_of(*values: str) -> Draw:
    return lambda chance, known, topic: chance.choice(values)


def _node(chance: random.Random, known: PlannedTopics, topic: str) -> str:
    return str(chance.randrange(known.brokers))


def _partition(chance: random.Random, known: PlannedTopics, topic: str) -> str:
    return str(chance.randrange(len(known.topics[topic])))


def _config(chance: random.Random, known: PlannedTopics, topic: str) -> str:
    return draw_config(chance)


def _entries(choices: Choices) -> Draw:
    return lambda chance, known, topic: draw_entries(chance, choices)


_disk = _one_of("0", "1")


def _choose_new(chance: random.Random, known: PlannedTopics) -> Chosen:
    taken = known.topics.keys() | known.away.keys()
    free = [name for number in range(known.most_topics) if (name := f"t{number}") not in taken]
    if not free:
        return None
    topic = chance.choice(free)
    partitions = [known.replicas(chance) for _ in range(chance.randint(1, known.partitions))]
    known.topics[topic] = partitions
    return (topic, *written(partitions))


@_with_topic
def _choose_growth(chance: random.Random, known: PlannedTopics, topic: str) -> tuple[str, ...]:
    added = [known.replicas(chance) for _ in range(chance.randint(1, 2))]
    known.topics[topic] += added
    return written(added)


@_with_topic
def _choose_deletion(chance: random.Random, known: PlannedTopics, topic: str) -> tuple[str, ...]:
    del known.topics[topic]
    return ()


@_with_topic
def _choose_again(chance: random.Random, known: PlannedTopics, topic: str) -> tuple[str, ...]:
    replicas = known.topics[topic] = [known.replicas(chance) for _ in range(chance.randint(1, known.partitions))]
    return written(replicas)


@_with_topic
def _choose_burst(chance: random.Random, known: PlannedTopics, topic: str) -> tuple[str, ...]:
    batches, size = chance.choice(((10, 2_000), (40, 1_000), (100, 300)))
    return str(chance.randrange(len(known.topics[topic]))), str(batches), str(size)


@_with_topic
def _choose_removal(chance: random.Random, known: PlannedTopics, topic: str) -> tuple[str, ...]:
    known.away[topic] = known.topics.pop(topic)
    return written(known.away[topic])


@_with_topic
def _choose_stranding(chance: random.Random, known: PlannedTopics, topic: str) -> tuple[str, ...]:
    """Choose a partition for `strand`.

    The topic's name is not used again, because the topic's deletion never ends. It waits for a broker that does not
    exist.
    """
    known.away[topic] = known.topics.pop(topic)
    return (str(chance.randrange(len(known.away[topic]))),)


def _moves(chance: random.Random, known: PlannedTopics, topic: str, count: int = 1) -> tuple[str, ...]:
    """Choose a partition and `count` lists of replicas, to which it is reassigned one after the other."""
    number = chance.randrange(len(known.topics[topic]))
    moves = [known.replicas(chance) for _ in range(count)]
    known.topics[topic][number] = moves[-1]
    return str(number), *written(moves)


_choose_move = _with_topic(_moves)


def _partitions(cluster: Cluster, topic: str) -> tuple[PartitionAssignment, ...]:
    """Return the partitions in a topic's znode."""
    data = cluster.zookeeper.read(paths.topic(topic)).data
    return () if data is None else decode_topic(paths.topic(topic), data).partitions


def _has(cluster: Cluster, topic: str, number: int) -> bool:
    return cluster.zookeeper.up and any(each.partition == number for each in _partitions(cluster, topic))


def _stays(cluster: Cluster, topic: str) -> bool:
    """Return whether ZooKeeper is up and has the topic, and the topic is not queued for deletion."""
    there = cluster.exists(paths.topic(topic)) and not cluster.exists(paths.delete_topic(topic))
    return cluster.zookeeper.up and there


@action(WORK, 6, _choose_new)
def create(cluster: Cluster, topic: str, *replicas: Replicas) -> None:
    """Create a topic by writing its znodes, as `kafka-topics --zookeeper` does."""
    if cluster.zookeeper.up and not cluster.exists(paths.delete_topic(topic)) and _is_new(cluster, topic):
        cluster.try_ask(zookeeper.CreateTopic(zookeeper.TopicAssignment(topic, number_partitions(replicas))))


def _is_new(cluster: Cluster, topic: str) -> bool:
    """Return False if a broker still has logs of an earlier, deleted topic of that name.

    A controller that resigns may forget to stop a replica that a reassignment has removed. Without topic ids (KIP-516),
    a broker with such a replica refuses the new topic's leader epochs, which begin at 0 again.
    """
    return cluster.exists(paths.topic(topic)) or not cluster.has_log_of(topic)


@action(WORK, 2, _choose_new)
def ask_create(cluster: Cluster, topic: str, *replicas: Replicas) -> None:
    """Create a topic by a CreateTopics request to the controller."""
    assignments = tuple(CreatableAssignment(number, each) for number, each in enumerate(replicas))
    if _is_new(cluster, topic):
        cluster.ask_controller(CreateTopicsRequest(5, (CreatableTopic(topic, -1, -1, assignments),), 15_000))


@action(WORK, 3, _choose_growth)
def grow(cluster: Cluster, topic: str, *replicas: Replicas) -> None:
    """Add partitions in a topic's znode, as `kafka-topics --zookeeper` does; a topic deletion does not prevent this."""
    data = cluster.zookeeper.read(paths.topic(topic)).data
    if data is None or not cluster.zookeeper.up:
        return
    there = decode_topic(paths.topic(topic), data)
    whole = there.partitions + number_partitions(replicas, first=len(there.partitions))
    cluster.write(WriteOp(SET, paths.topic(topic), encode_topic(there._replace(partitions=whole))))


@action(WORK, 4, _choose_deletion)
def delete(cluster: Cluster, topic: str) -> None:
    """Delete a topic by writing its znode below /admin/delete_topics."""
    if cluster.zookeeper.up and cluster.exists(paths.topic(topic)):
        cluster.try_ask(zookeeper.RequestTopicDeletion(topic))


@action(WORK, 1, _choose_deletion)
def ask_delete(cluster: Cluster, topic: str) -> None:
    """Delete a topic by a DeleteTopics request to the controller."""
    cluster.ask_controller(DeleteTopicsRequest(4, (topic,), 15_000))


@action(WORK, 1, _topic_and(_config))
def configure(cluster: Cluster, topic: str, entry: str) -> None:
    """Set a topic config by writing its znodes, as `kafka-configs --zookeeper` does."""
    name, _, value = entry.partition("=")
    if _stays(cluster, topic):
        cluster.try_ask(zookeeper.SetTopicConfig(topic, (ConfigEntry(name, value),)))


@action(WORK, 3, _choose_move)
def reassign(cluster: Cluster, topic: str, number: Number, replicas: Replicas) -> None:
    """Reassign a partition by writing /admin/reassign_partitions."""
    wanted = {"topic": topic, "partition": number, "replicas": list(replicas)}
    if _has(cluster, topic, number):
        data = json.dumps({"version": 1, "partitions": [wanted]}).encode()
        cluster.write(WriteOp(CREATE, paths.REASSIGNMENTS, data))


@action(WORK, 2, _choose_move)
def ask_reassign(cluster: Cluster, topic: str, number: Number, replicas: Replicas) -> None:
    """Reassign a partition by an AlterPartitionReassignments request to the controller."""
    part = ReassignablePartition(number, replicas)
    cluster.ask_controller(AlterPartitionReassignmentsRequest(0, 15_000, (ReassignableTopic(topic, (part,)),)))


@action(WORK, 2, _topic_and(_partition))
def elect(cluster: Cluster, topic: str, number: Number) -> None:
    """Elect the preferred leader by writing /admin/preferred_replica_election."""
    if _has(cluster, topic, number):
        data = json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": number}]}).encode()
        cluster.write(WriteOp(CREATE, paths.PREFERRED_ELECTION, data))


@action(WORK, 1, _choose_removal, (ROUND, ROUND), needs_all=True)
def remake(cluster: Cluster, topic: str, *replicas: Replicas) -> Iterator[None]:
    """Remove the znodes of a topic in use; create it again when the controller has removed it and sees all brokers."""
    below = [path for path, _ in cluster.zookeeper.walk(paths.topic(topic))]
    if cluster.zookeeper.up and not cluster.exists(paths.delete_topic(topic)) and _is_fresh(cluster, topic, replicas):
        cluster.write(*(WriteOp(DELETE, path) for path in sorted(below, reverse=True)))
    yield
    cluster.run_script(_create_again(cluster, topic, replicas))


def _is_fresh(cluster: Cluster, topic: str, replicas: Sequence[tuple[int, ...]]) -> bool:
    """Return whether the topic has these partitions, each in its first state with all replicas in the ISR."""
    if not cluster.exists(paths.topic(topic)) or _partitions(cluster, topic) != number_partitions(replicas):
        return False
    for number, each in enumerate(replicas):
        path = paths.partition_state(TopicPartition(topic, number))
        node = cluster.zookeeper.nodes.get(path)
        if node is None or node.version or decode_state(path, node.data, 0).isr != each:
            return False
    return True


def _create_again(cluster: Cluster, topic: str, replicas: Sequence[tuple[int, ...]]) -> Script:
    while True:
        yield SETTLED
        contexts, brokers = cluster.controllers().values(), len(cluster.machines)
        if cluster.exists(paths.topic(topic)) or not cluster.exists(paths.topic_config(topic)):
            return
        if contexts and all(topic not in each.topics and len(each.online_brokers) == brokers for each in contexts):
            again = zookeeper.TopicAssignment(topic, number_partitions(replicas))
            cluster.write(WriteOp(CREATE, paths.topic(topic), encode_topic(again)))
            return


@action(WORK, 2, _draws())
def move_controller(cluster: Cluster) -> None:
    """Delete /controller, so that a new controller is elected."""
    if cluster.zookeeper.up:
        cluster.write(WriteOp(DELETE, paths.CONTROLLER))


# ---------------------------------------------------------------------------------------------------- newer tools


@action(ADMIN, 2, _choose_growth)
def ask_grow(cluster: Cluster, topic: str, *replicas: Replicas) -> None:
    """Add partitions by a CreatePartitions request to the controller."""
    wanted = tuple(WantedReplicas(each) for each in replicas)
    growing = GrowingTopic(topic, len(_partitions(cluster, topic)) + len(wanted), wanted)
    cluster.ask_controller(CreatePartitionsRequest(1, (growing,), 15_000))


@action(ADMIN, 2, _topic_and(_partition))
def ask_elect(cluster: Cluster, topic: str, number: Number) -> None:
    """Elect the preferred leader by an ElectLeaders request to the controller."""
    cluster.ask_controller(ElectLeadersRequest(1, (ElectableTopic(topic, (number,)),), 15_000))


def _alter(cluster: Cluster, resource: int, name: str, entries: str) -> None:
    changes = (ConfigChange(key, value) for key, _, value in (entry.partition("=") for entry in entries.split(";")))
    resource_change = ChangedResource(resource, name, tuple(changes))
    cluster.ask_controller(IncrementalAlterConfigsRequest(0, (resource_change,)))


@action(ADMIN, 2, _topic_and(_config))
def ask_configure(cluster: Cluster, topic: str, entry: str) -> None:
    """Set one topic config by an IncrementalAlterConfigs request to the controller."""
    _alter(cluster, TOPIC, topic, entry)


UNCLEAN_ELECTION = "unclean.leader.election.enable"
UNCLEAN_SHARE = 0.2
"""The share of broker configs that set `unclean.leader.election.enable`."""


def _choose_broker_config(chance: random.Random, known: PlannedTopics) -> Chosen:
    if chance.random() < UNCLEAN_SHARE:
        return (f"{UNCLEAN_ELECTION}={chance.choice(('true', 'false'))}",)
    return (f"num.replica.fetchers={chance.randint(1, 2)}",)


@action(ADMIN, 2, _choose_broker_config)
def configure_brokers(cluster: Cluster, entry: str) -> None:
    """Set a config of all brokers by an IncrementalAlterConfigs request to the controller."""
    if entry == f"{UNCLEAN_ELECTION}=true":
        cluster.elects_uncleanly = True
    _alter(cluster, BROKER, "", entry)


MEMBERS_GROUPS = ("g0", "g1")
"""The groups that members join."""

GROUPS_OF_PARTITIONS = ("g0", "g1", "g2", "g3")
"""A group for each partition of __consumer_offsets; members join two of them."""

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


def _send(cluster: Cluster, requests: Requests, topic: str, number: Number, group: str) -> None:
    """Send requests to every node; each node answers or refuses them."""
    for name in requests:
        client_requests.send(cluster, name, topic, number, group)


def _declare_send(name: str, part: str, weight: int, requests: Collection[str]) -> None:
    ACTIONS[name] = ActionKind(name, part, weight, _choose_request(requests), _send)


_declare_send("send-admin", ADMIN, 8, client_requests.ADMIN)


@action(ADMIN, 3, _with_topic(partial(_moves, count=3)))
def reassign_again(cluster: Cluster, topic: str, number: Number, *replicas: Replicas) -> None:
    """Reassign a partition in ZooKeeper, and again by requests to the controller during the first reassignment."""
    reassign(cluster, topic, number, replicas[0])
    for place, each in enumerate(replicas[1:], 1):
        cluster.scheduler.call_later(place * 0.01, partial(ask_reassign, cluster, topic, number, each))


@action(ADMIN, 1, _draws(_node))
def touch(cluster: Cluster, node: Node) -> None:
    """Write the registration of a broker again, unchanged."""
    path = f"/brokers/ids/{node}"
    data = cluster.zookeeper.read(path).data
    if cluster.zookeeper.up and data is not None:
        cluster.write(WriteOp(SET, path, data))


# ---------------------------------------------------------------------------------------------------- groups

_declare_send("send-group", GROUPS, 6, client_requests.GROUPS)

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


def _choose_group(chance: random.Random, known: PlannedTopics) -> Chosen:
    return chance.choice(MEMBERS_GROUPS), known.topic(chance) or ABSENT_TOPIC


@action(GROUPS, 3, _choose_group)
def swamp_group(cluster: Cluster, group: str, topic: str) -> None:
    """Send many requests about a group in a few seconds, some of them in the names of the group's members."""
    requests = client_requests.OF_GROUPS
    for number in range(round(SWAMPED / QUICK)):
        name = requests[cluster.chance.randrange(len(requests))]
        send = partial(client_requests.send, cluster, name, topic, 0, group)
        cluster.scheduler.call_later(number * QUICK, send)


@action(GROUPS, 4, _draws(_node), (20.0, 30.0))
def swamp(cluster: Cluster, node: Node) -> Iterator[None]:
    """Make a node slow, restart it, let it lead its partitions again, and send requests to its coordinators."""
    disks = cluster.machines[node].disks
    for name in disks.names:
        disks.read_delays[name] = 0.05
    cluster.starve(node, SWAMP_PACE)
    _stop_for_a_while(cluster, node)
    for script in (_lead_again, _swamp_more, _watch_loads):
        cluster.run_script(script(cluster, node))
    yield
    disks.read_delays.clear()
    cluster.starve(node, -SWAMP_PACE)
    cluster.start(node)


def _stop_for_a_while(cluster: Cluster, node: int) -> None:
    if cluster.machines[node].state == UP:
        cluster.leave(node)
        cluster.scheduler.call_later(STOPPED, partial(cluster.start, node))


def _is_swamped(cluster: Cluster, node: int) -> bool:
    return bool(cluster.machines[node].disks.read_delays)


def _lead_again(cluster: Cluster, node: int) -> Script:
    """Elect the preferred leaders, and usually stop a node other than `node` within AT_ONCE seconds.

    The stopped node then leaves the ISR of partitions that are being loaded.
    """
    yield STOPPED + LED_AGAIN
    while _is_swamped(cluster, node):
        cluster.ask_controller(ElectLeadersRequest(1, None, 15_000))
        others = [other for other in cluster.machines if other != node]
        if others and cluster.chance.random() < 0.7:
            stops = partial(_stop_for_a_while, cluster, cluster.chance.choice(others))
            cluster.scheduler.call_later(cluster.chance.uniform(0.0, AT_ONCE), stops)
        yield LED_AGAIN


def _swamp_more(cluster: Cluster, node: int) -> Script:
    while _is_swamped(cluster, node):
        _ask_coordinators(cluster, node, cluster.chance.sample(client_requests.OF_COORDINATORS, 4))
        yield OFTEN


def _ask_coordinators(cluster: Cluster, node: int, requests: Iterable[str]) -> None:
    for request in requests:
        group = cluster.chance.choice(GROUPS_OF_PARTITIONS)
        client_requests.send(cluster, request, ABSENT_TOPIC, 0, group, (node,))


def _watch_loads(cluster: Cluster, node: int) -> Script:
    """Sometimes send the node requests and commits, or stop the node, while its coordinators load partitions."""
    while _is_swamped(cluster, node):
        is_loading = cluster.is_loading(node)
        if is_loading and cluster.chance.random() < 0.5:
            _ask_coordinators(cluster, node, client_requests.OF_COORDINATORS)
            for number in range(COMMITS):
                commit = partial(_ask_coordinators, cluster, node, ("OffsetCommit", "InitProducerId"))
                cluster.scheduler.call_later(number * COMMITS_EVERY, commit)
            if cluster.chance.random() < 0.5:
                _stop_for_a_while(cluster, node)
        yield LED_AGAIN / 2 if is_loading else SOON


_declare_send("send-stale", STALE, 4, client_requests.STALE)
_declare_send("send-data", RECORDS, 8, client_requests.DATA)

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

TURNS = 1.5
"""Seconds after which an override that stops the high watermark is followed by a new leader."""


@action(RECORDS, 3, _topic_and(_one_of(*OVERRIDES)), SHORT)
def override(cluster: Cluster, topic: str, entry: str) -> Iterator[None]:
    """Set a topic config that makes the topic's leaders refuse requests, and send them such requests."""
    configure(cluster, topic, entry)
    if entry.startswith("min.insync"):
        cluster.scheduler.call_later(TURNS, partial(_turn, cluster, topic))
    requests = tuple(OVERRIDES.get(entry, "Produce").split(","))
    for second in range(1, REFUSED_FOR + 1):
        cluster.scheduler.call_later(second, partial(_send, cluster, requests, topic, 0, MEMBERS_GROUPS[0]))
    yield
    cluster.run_script(_end_overrides(cluster, topic))


def _turn(cluster: Cluster, topic: str) -> None:
    """Reassign partition 0 so that another replica is the preferred leader, and elect that replica."""
    first = next((each for each in _partitions(cluster, topic) if each.partition == 0), None)
    if first is not None:
        ask_reassign(cluster, topic, 0, first.assignment.replicas[::-1])
        cluster.scheduler.call_later(0.5, partial(ask_elect, cluster, topic, 0))


def _end_overrides(cluster: Cluster, topic: str) -> Script:
    """Delete all overrides of the topic as soon as ZooKeeper is up."""
    while not cluster.zookeeper.up:
        yield 1.0
    if _stays(cluster, topic):
        cluster.try_ask(zookeeper.SetTopicConfig(topic, ()))


_MEMBER = _draws(_one_of(*MEMBERS_GROUPS), _one_of(*"0123"))


@action(GROUPS, 6, _MEMBER)
def join(cluster: Cluster, group: str, number: Member) -> None:
    """Add a member to a consumer group; it sends heartbeats and commits offsets."""
    cluster.members.join(group, number)


@action(GROUPS, 2, _MEMBER)
def leave(cluster: Cluster, group: str, number: Member) -> None:
    """Remove a member from its group by a LeaveGroup request."""
    cluster.members.leave(group, number)


@action(GROUPS, 2, _MEMBER)
def fall_silent(cluster: Cluster, group: str, number: Member) -> None:
    """Stop a member without sending a LeaveGroup request; the member's session expires."""
    cluster.members.leave(group, number, silently=True)


# ---------------------------------------------------------------------------------------------------- records


@action(RECORDS, 8, _choose_burst)
def burst(cluster: Cluster, topic: str, number: Number, batches: Number, size: Number) -> None:
    """Produce many batches to a partition at once, each with one record of `size` bytes."""
    cluster.burst(TopicPartition(topic, number), batches, size)


@action(RECORDS, 5, _topic_and(_partition))
def delete_records(cluster: Cluster, topic: str, number: Number) -> None:
    """Delete the first records of a partition by a DeleteRecords request to its leader."""
    cluster.delete_records(TopicPartition(topic, number))


@action(RECORDS, 5, _choose_again)
def recreate(cluster: Cluster, topic: str, *replicas: Replicas) -> None:
    """Delete a topic, and create it again as soon as it is gone."""
    delete(cluster, topic)
    cluster.run_script(_create_when_gone(cluster, cluster.now + GONE, topic, *replicas))


def _create_when_gone(cluster: Cluster, until: float, topic: str, *replicas: tuple[int, ...]) -> Script:
    while cluster.exists(paths.topic(topic)) or cluster.exists(paths.delete_topic(topic)):
        if cluster.now >= until:
            return
        yield 0.1
    create(cluster, topic, *replicas)


@action(PRODUCERS, 10, _topic_and(_partition), (5.0, 40.0))
def produce(cluster: Cluster, topic: str, number: Number) -> Iterator[None]:
    """Start an idempotent producer that writes to a partition."""
    cluster.start_stream(TopicPartition(topic, number))
    yield
    cluster.end_stream(TopicPartition(topic, number))


# ---------------------------------------------------------------------------------------------------- quotas

SPENDERS = ("spender0", "spender1")
"""The users with quotas."""


def _choose_limit(chance: random.Random, known: PlannedTopics) -> Chosen:
    rate = chance.choice(("500", "1000", "2000", "none"))
    whose = chance.choice(("user", "user", "client"))
    return chance.choice(SPENDERS), whose, chance.choice((PRODUCE, FETCH)), rate


@action(QUOTAS, 10, _choose_limit)
def limit(cluster: Cluster, user: str, whose: str, quota: str, rate: str) -> None:
    """Set a quota of a user, or of a user's client id, by an AlterClientQuotas request to the controller."""
    entity = (QuotaName(USER, user), *((QuotaName(CLIENT_ID, CLIENT),) if whose == "client" else ()))
    change = QuotaChange(quota, 0.0, True) if rate == "none" else QuotaChange(quota, float(rate))
    cluster.ask_controller(AlterClientQuotasRequest(0, (QuotaAlteration(entity, (change,)),)))


@action(QUOTAS, 20, _topic_and(_partition, _one_of(*SPENDERS)), (5.0, 20.0))
def spend(cluster: Cluster, topic: str, number: Number, user: str) -> Iterator[None]:
    """Let a user produce to a partition and fetch from it as fast as its quotas permit."""
    cluster.start_spending(user, TopicPartition(topic, number))
    yield
    cluster.end_spending(user)


# ---------------------------------------------------------------------------------------------------- logs


@action(LOGS, 8, _topic_and(_entries(CLEANED_CONFIGS)))
def compact(cluster: Cluster, topic: str, entries: str) -> None:
    """Let a topic be cleaned, by an IncrementalAlterConfigs request to the controller."""
    _alter(cluster, TOPIC, topic, entries)


@action(LOGS, 4, _topic_and(_entries(RETENTION_CONFIGS)))
def retain(cluster: Cluster, topic: str, entries: str) -> None:
    """Shorten the retention of a topic by an IncrementalAlterConfigs request to the controller."""
    _alter(cluster, TOPIC, topic, entries)


@action(LOGS, 8, _topic_and(_partition))
def bury(cluster: Cluster, topic: str, number: Number) -> None:
    """Produce a tombstone to a partition."""
    cluster.bury(TopicPartition(topic, number))


@_with_topic
def _choose_log_move(chance: random.Random, known: PlannedTopics, topic: str) -> tuple[str, ...]:
    number = chance.randrange(len(known.topics[topic]))
    return str(number), str(chance.choice(known.topics[topic][number])), str(chance.randrange(2))


@action(LOGS, 12, _choose_log_move)
def move_log(cluster: Cluster, topic: str, number: Number, node: Node, disk: Disk) -> None:
    """Move a replica to a disk by an AlterReplicaLogDirs request to its node."""
    moved = ReplicaLogDir(cluster.machines[node].disks.names[disk], (TopicPartition(topic, number),))
    cluster.ask(node, AlterReplicaLogDirsRequest(1, (moved,)), lambda response: None)


@action(LOGS, 2, _draws(_one_of("100", "1000", "1000000")))
def throttle_moves(cluster: Cluster, rate: str) -> None:
    """Limit the bytes per second that each broker copies, by an IncrementalAlterConfigs request to the controller."""
    _alter(cluster, BROKER, "", f"replica.alter.log.dirs.io.max.bytes.per.second={rate}")


@action(LOGS, 2, _topic_and(_one_of("10000", "100000")))
def throttle(cluster: Cluster, topic: str, rate: str) -> None:
    """Limit the bytes per second of a topic's replicas that are not in sync, by requests to the controller."""
    sides = "leader", "follower"
    _alter(cluster, BROKER, "", ";".join(f"{side}.replication.throttled.rate={rate}" for side in sides))
    _alter(cluster, TOPIC, topic, ";".join(f"{side}.replication.throttled.replicas=*" for side in sides))


TRANSACTIONAL_IDS = ("id0", "id1")
WORKER = "worker"
"""The transactional id of the worker, which copies partition 0 of TRANSACTION_TOPIC."""

TRANSACTION_TOPIC = "x"
TRANSACTION_PARTITIONS = 4


@action(TRANSACTIONS, 10, _draws(_one_of(*TRANSACTIONAL_IDS, WORKER)), (10.0, 40.0))
def transact(cluster: Cluster, id: str) -> Iterator[None]:
    """Start a transactional producer, which stops at the end of a transaction.

    A running producer with the same transactional id becomes a zombie.
    """
    cluster.start_transactions(id)
    yield
    cluster.end_transactions(id)


_declare_send("send-transactions", TRANSACTIONS, 6, client_requests.TRANSACTIONS)


@action(ABSENT, 3, _choose_stranding, (0.5, 10.0))
def strand(cluster: Cluster, topic: str, number: Number) -> Iterator[None]:
    """Reassign a partition to a broker that does not exist, and delete the topic later."""
    reassign(cluster, topic, number, (len(cluster.machines),))
    yield
    cluster.run_script(_delete_stranded(cluster, topic))


def _delete_stranded(cluster: Cluster, topic: str) -> Script:
    while not cluster.zookeeper.up:
        yield 1.0
    delete(cluster, topic)


@action(WORK, 0, _never)
def put(cluster: Cluster, path: str, *data: str) -> None:
    """Create or overwrite a znode. This action is only used in schedules written by hand."""
    text = " ".join(data).encode()
    cluster.write(WriteOp(SET if cluster.exists(path) else CREATE, path, text))


@action(WORK, 0, _never)
def remove(cluster: Cluster, path: str) -> None:
    """Remove a znode and all znodes below it. This action is only used in schedules written by hand."""
    for each in sorted((each for each, _ in cluster.zookeeper.walk(path)), reverse=True):
        cluster.write(WriteOp(DELETE, each))


@action(WORK, 2, _draws(_node), (1.0, 10.0))
def roll(cluster: Cluster, node: Node) -> Iterator[None]:
    """Stop a node with a controlled shutdown, and start it again."""
    cluster.leave(node)
    yield
    cluster.start(node)


@action(VERSIONS, 8, _draws(_node, _one_of("2.6", "2.7", "2.8")), (1.0, 10.0))
def upgrade(cluster: Cluster, node: Node, protocol: str) -> Iterator[None]:
    """Roll a node, and start it with another inter.broker.protocol.version."""
    cluster.leave(node)
    yield
    machine = cluster.machines[node]
    machine.settings = evolve(machine.settings, inter_broker_protocol_version=protocol)
    cluster.start(node)


# ---------------------------------------------------------------------------------------------------- faults


@action("kill", 8, _draws(_node), SHORT, may_last=True)
def kill(cluster: Cluster, node: Node) -> Iterator[None]:
    """Kill a node's process, and start it again."""
    cluster.kill(node)
    yield
    cluster.start(node)


@action("pause", 6, _draws(_node), SHORT, may_last=True)
def pause(cluster: Cluster, node: Node) -> Iterator[None]:
    """Suspend a node's process (SIGSTOP), and resume it."""
    cluster.pause(node)
    yield
    cluster.resume(node)


def _pair(chance: random.Random, known: PlannedTopics) -> Chosen:
    one, other = known.pair(chance)
    return (one, other) if chance.random() < 0.5 else (other, one)


@action("partition", 3, _pair, SHORT, may_last=True)
def cut(cluster: Cluster, one: Host, other: Host) -> Iterator[None]:
    """Block traffic between two hosts."""
    return _cut_across(cluster, (one,), (other,))


def _cut_across(cluster: Cluster, one: Hosts, other: Hosts) -> Iterator[None]:
    ways = [way for here in one for there in other if here != there for way in ((here, there), (there, here))]
    for way in ways:
        cluster.cut(*way)
    yield
    for way in ways:
        cluster.mend(*way)


@action("partition", 3, _pair, SHORT, may_last=True)
def mute(cluster: Cluster, one: Host, other: Host) -> Iterator[None]:
    """Block traffic from one host to another, in this direction only."""
    cluster.cut(one, other)
    yield
    cluster.mend(one, other)


def _split(chance: random.Random, known: PlannedTopics) -> Chosen:
    """Choose the hosts on both sides of a network partition; ZooKeeper is on one side."""
    nodes = chance.sample(range(known.brokers), chance.randint(1, max(1, known.brokers - 1)))
    one = [str(node) for node in sorted(nodes)]
    other = [str(node) for node in range(known.brokers) if node not in nodes]
    (one if chance.random() < 0.3 else other).append("zk")
    return ",".join(one), ",".join(other) or "zk"


@action("partition", 2, _split, SHORT)
def partition(cluster: Cluster, one: Hosts, other: Hosts) -> Iterator[None]:
    """Block traffic between two sides of the cluster; ZooKeeper is on one of them."""
    return _cut_across(cluster, one, other)


@action("partition", 2, _pair)
def reset(cluster: Cluster, one: Host, other: Host) -> None:
    """Break all connections between two hosts; data in transit is lost."""
    cluster.reset(one, other)


@action("expire", 4, _draws(_node))
def expire(cluster: Cluster, node: Node) -> None:
    """Expire a node's ZooKeeper session."""
    cluster.expire(node)


OF_A_DISK = (
    *("DescribeLogDirs", "DescribeProducers", "Fetch", "ListOffsets", "OffsetForLeaderEpoch"),
    *("Produce:acks=1", "DeleteRecords"),
)
"""Requests whose responses depend on the disk of a replica."""

NOTICED = 3.0
"""Seconds after which a node and the controller have noticed a broken disk."""

MOST_LOGS = 4
"""Number of logs on a broken disk that requests are sent about."""


@action("disk", 2, _draws(_node, _disk), SHORT, may_last=True)
def fill(cluster: Cluster, node: Node, disk: Disk) -> Iterator[None]:
    """Make a disk full. The next "rest" action restarts the node if an operation has failed."""
    return _fail(cluster, node, disk, FULL)


def _fail(cluster: Cluster, node: int, disk: int, fault: str) -> Iterator[None]:
    """Make a disk fail, and repair it; the node uses it again after a restart."""
    disks = cluster.machines[node].disks
    disks.faults[disks.names[disk]] = fault
    yield
    if node not in cluster.outside:
        disks.faults.pop(disks.names[disk], None)


@action("disk", 2, _draws(_node, _disk), SHORT, may_last=True)
def break_(cluster: Cluster, node: Node, disk: Disk) -> Iterator[None]:
    """Make all operations of a disk fail. The next "rest" action restarts the node if an operation has failed."""
    cluster.scheduler.call_later(NOTICED, partial(_ask_about_disk, cluster, node, disk))
    return _fail(cluster, node, disk, FAILING)


def _ask_about_disk(cluster: Cluster, node: int, disk: int) -> None:
    """Send requests to a node about the logs on one of the node's disks."""
    logs = cluster.machines[node].disks.logs_on(disk)
    for log in cluster.chance.sample(logs, min(MOST_LOGS, len(logs))):
        of_log = partition_named(log)
        if of_log is not None:
            for request in OF_A_DISK:
                client_requests.send(cluster, request, *of_log, MEMBERS_GROUPS[0], (node,))


@action("disk", 2, _draws(_node, _disk), SHORT)
def clog(cluster: Cluster, node: Node, disk: Disk) -> Iterator[None]:
    """Make a disk slow: the node waits for each write."""
    disks = cluster.machines[node].disks
    disks.delays[disks.names[disk]] = 0.2
    yield
    disks.delays.pop(disks.names[disk], None)


@action("disk", 2, _draws(_node), SHORT)
def crash(cluster: Cluster, node: Node) -> Iterator[None]:
    """Cut the power of a node's machine: unflushed data is lost. The node is started again."""
    cluster.kill(node, power=True)
    yield
    cluster.start(node)


@action(FLIPS, 4, _draws(_node), SHORT)
def flip(cluster: Cluster, node: Node) -> Iterator[None]:
    """Kill a node, flip a bit of a committed record on its disks, and start the node again."""
    cluster.kill(node)
    cluster.flip(node)
    yield
    cluster.start(node)


@action(FLIPS, 4, _draws(_node), (5.0, 20.0))
def flip_after_stop(cluster: Cluster, node: Node) -> Iterator[None]:
    """Stop a node with a controlled shutdown, flip a bit of a committed record on its disks, and start it again."""
    cluster.leave(node)
    yield
    cluster.flip(node)
    cluster.start(node)


def _choose_delay(chance: random.Random, known: PlannedTopics) -> Chosen:
    one, other = known.pair(chance)
    return one, other, f"{chance.choice((0.05, 0.5, 2.0)):g}"


def _delay_wires(cluster: Cluster, pairs: Iterable[tuple[str, str]], seconds: float) -> Iterator[None]:
    pairs = tuple(pairs)
    for one, other in pairs:
        cluster.wires.delay(one, other, seconds)
    yield
    for one, other in pairs:
        cluster.wires.delay(one, other, -seconds)


@action("slow", 6, _choose_delay, SHORT)
def slow(cluster: Cluster, one: Host, other: Host, seconds: Seconds) -> Iterator[None]:
    """Delay all traffic between two hosts."""
    return _delay_wires(cluster, ((one, other),), seconds)


@action("slow", 4, _draws(_node, _one_of("0.2", "1", "3")), SHORT)
def lag(cluster: Cluster, node: Node, seconds: Seconds) -> Iterator[None]:
    """Delay all messages between a node and the other nodes; its replicas lag behind."""
    others = [other for other in cluster.machines if other != node]
    return _delay_wires(cluster, ((host_of(node), host_of(other)) for other in others), seconds)


@action("slow", 3, _draws(_node, _one_of("0.001", "0.003", "0.01")), SHORT)
def starve(cluster: Cluster, node: Node, seconds: Seconds) -> Iterator[None]:
    """Slow a process down: each message between its actors takes time."""
    cluster.starve(node, seconds)
    yield
    cluster.starve(node, -seconds)


@action("zookeeper", 2, _draws(), (0.5, 8.0))
def zookeeper_down(cluster: Cluster) -> Iterator[None]:
    """Stop ZooKeeper, and start it again with its data."""
    cluster.set_zookeeper(False)
    yield
    cluster.set_zookeeper(True)


LOST_SHARE = 0.4
"""The share of writes whose responses are lost."""


@action("zookeeper", 4, _draws(_node), SHORT)
def lose_responses(cluster: Cluster, node: Node) -> Iterator[None]:
    """Break a node's connection to ZooKeeper after some of its writes, before their responses arrive."""
    cluster.machines[node].loses = LOST_SHARE
    yield
    cluster.machines[node].loses = 0.0


@action("zookeeper", 2, _draws())
def fence(cluster: Cluster) -> None:
    """Raise /controller_epoch, as if by a client that does not take part in the election.

    The controller's next write is refused.
    """
    data = cluster.zookeeper.read(paths.CONTROLLER_EPOCH).data
    if cluster.zookeeper.up and data is not None:
        epoch = decode_controller_epoch(paths.CONTROLLER_EPOCH, data)
        cluster.write(WriteOp(SET, paths.CONTROLLER_EPOCH, encode_controller_epoch(epoch + 1)))


@action("zookeeper", 2, _draws(), SHORT)
def zookeeper_slow(cluster: Cluster) -> Iterator[None]:
    """Delay all traffic between ZooKeeper and its clients."""
    return _delay_wires(cluster, ((host_of(node), ZOOKEEPER) for node in cluster.machines), 0.4)


# ---------------------------------------------------------------------------------------------------- rights

USERS = ("alice", "bob")
LONGER = "-longer"
"""The end of the names of topics that users ask for, and that do not exist."""
TOPIC_RIGHTS = ("Read", "Write", "Describe", "Delete", "All")


def _choose_right(chance: random.Random, known: PlannedTopics) -> Chosen:
    user, verb = chance.choice((*USERS, "*")), chance.choice(("allow", "allow", "deny"))
    if chance.random() < 0.2:
        return user, verb, "ClusterAction", "cluster"
    topic = known.topic(chance)
    kind = chance.choice(("topic", "topic", "prefix"))
    return None if topic is None else (user, verb, chance.choice(TOPIC_RIGHTS), kind, topic)


def _choose_asking(chance: random.Random, known: PlannedTopics) -> Chosen:
    topic = known.topic(chance)
    return None if topic is None else (chance.choice(USERS), topic, str(chance.randrange(known.brokers)))


@action(RIGHTS, 20, _choose_right)
def right(cluster: Cluster, user: str, verb: str, operation: str, kind: str, name: str = "") -> None:
    """Adds an ACL about a topic, the topics with a prefix, or the cluster; removes it if it exists."""
    what = {"cluster": True} if kind == "cluster" else {"topic": name, "prefixed": kind == "prefix"}
    resource, acl = acl_of({verb: user, "operation": operation, **what})
    ((_, acls),) = cluster.admin.ask(zookeeper.GetAcls((resource,))).resources
    exists = acls is not None and acl in acls
    cluster.admin.ask(
        zookeeper.ChangeAcls(resource, remove=(acl,)) if exists else zookeeper.ChangeAcls(resource, (acl,))
    )


@action(RIGHTS, 10, _draws(_one_of(*USERS)))
def user(cluster: Cluster, name: str) -> None:
    """Removes the SCRAM credential of a user, or adds one; from then on the user needs it."""
    cluster.network.users.add(name)
    path = f"{paths.USER_CONFIGS}/{name}"
    has_one = MECHANISM.encode() in (cluster.zookeeper.nodes[path].data or b"") if cluster.exists(path) else False
    credential = None if has_one else format_credential(ScramCredential(b"salt", b"stored", b"server", MIN_ITERATIONS))
    cluster.try_ask(zookeeper.SetClientQuotas(QuotaEntity(name), (zookeeper.QuotaSetting(MECHANISM, credential),)))


@action(RIGHTS, 40, _choose_asking)
def ask_as(cluster: Cluster, user: str, topic: str, node: Node) -> None:
    """A user asks for a topic, reads and writes it, names longer topics, and sends an order of a controller."""
    cluster.ask(node, MetadataRequest(8, (topic + LONGER,)), lambda response: None, 10.0, user)
    for name in (topic, topic + LONGER):
        target = Target(TopicPartition(name, 0), node=node, controller_epoch=0)
        for request in RIGHTS_REQUESTS:
            cluster.ask(node, API_BY_REQUEST[request].sample(target), lambda response: None, 10.0, user)


RIGHTS_REQUESTS = (MetadataRequest, FetchRequest, ListOffsetsRequest, DeleteRecordsRequest, UpdateMetadataRequest)

# ---------------------------------------------------------------------------------------------------- schedules


def unfit(action: Action, brokers: int) -> str | None:
    """Return why this action is invalid on a cluster of `brokers` brokers; None if it is valid."""
    kind = ACTIONS.get(action.name)
    if action.name == REST:
        return None
    if kind is None:
        return f"unknown action {action.name!r}; use one of: {', '.join((REST, *ACTIONS))}"
    try:
        words = kind.words(action.args)
    except TypeError as error:
        return f"{action}: {error}"
    for text, word in words:
        for each in text.split(","):
            if word is not None and not word.fits(each, brokers):
                return f"{action}: {each!r} is not {word.what}; the nodes are 0 to {brokers - 1}"
    return None


FAULTS: tuple[str, ...] = tuple(
    dict.fromkeys(kind.part for kind in ACTIONS.values() if kind.part not in (WORK, RECORDS, RIGHTS, *NAMED))
)
"""The groups of faults, by the names that `--faults` takes."""

EVERY = 2.5
"""Average seconds between two actions."""


SESSION_MS = 6_000
"""The ZooKeeper session timeout of a simulated node in ms, unless a seed draws another one."""

CLEANED_SHARE = 0.6
"""The share of the topics that are cleaned from the beginning, in runs where logs are cleaned."""

LIMITED_SHARE = 0.7
"""The share of the quotas of each user that are set from the beginning, in runs with quotas."""

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
    kinds = [kind for kind in ACTIONS.values() if kind.part in parts and kind.part not in (LOGS, QUOTAS)]
    weights = [kind.weight for kind in kinds]
    drawn = draw_surroundings(chance, brokers) if swarm else Schedule(brokers or 3)
    if swarm:
        weights = draw_weights(chance, weights)
        every *= chance.choice((0.5, 1.0, 2.0))
    known = PlannedTopics(drawn.brokers, partitions, replication, topics)
    actions: list[Action] = []
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
        replicas = written([known.replicas(chance) for _ in range(TRANSACTION_PARTITIONS)])
        actions += [
            Action(4.0, "create", (TRANSACTION_TOPIC, *replicas)),
            Action(5.0, "produce", (TRANSACTION_TOPIC, "0"), duration),
            *(Action(5.0, "transact", (id,), duration) for id in (*TRANSACTIONAL_IDS, WORKER)),
        ]
    for group in MEMBERS_GROUPS if GROUPS in faults else ():
        actions += [Action(5.0, "join", (group, str(number))) for number in sorted(chance.sample(range(4), 3))]
    actions += _draw_actions(kinds, weights, chance, known, duration, every, rests)
    if swarm:
        timeout_ms = dict(drawn.settings).get("zookeeper_session_timeout_ms", SESSION_MS)
        existing, new_topic = tuple(sorted(known.topics)), _choose_new(chance, known)
        occasion = Occasion(chance, drawn.brokers, existing, new_topic, int(timeout_ms) / 1000, duration)
        actions += draw_coincidence(occasion, {kind.name for kind in kinds})
    settings = drawn.settings
    if LOGS in faults:  # from a generator of its own: the other actions of the seed stay as they are
        chance = random.Random(f"logs {seed}")
        settings += draw_settings(chance, LOG_SETTINGS)
        for topic in sorted(known.topics):
            if chance.random() < CLEANED_SHARE:
                actions.append(Action(5.0, "compact", (topic, draw_entries(chance, CLEANED_CONFIGS))))
        actions += _draw_group(LOGS, chance, known, duration, every)
    if QUOTAS in faults and records:
        chance = random.Random(f"quotas {seed}")
        for user, quota in itertools.product(SPENDERS, (PRODUCE, FETCH)):
            if chance.random() < LIMITED_SHARE:
                actions.append(Action(5.0, "limit", (user, "user", quota, chance.choice(("500", "1000")))))
        actions += _draw_group(QUOTAS, chance, known, duration, every)
    actions.sort(key=lambda action: action.at)
    return attrs.evolve(
        drawn,
        seed=seed,
        duration=duration,
        records=records,
        validated=validated,
        settings=settings,
        actions=tuple(actions),
    )


def _draw_group(
    group: str, chance: random.Random, known: PlannedTopics, duration: float, every: float
) -> Iterator[Action]:
    """Return the actions of a group that has a generator of its own."""
    kinds = [kind for kind in ACTIONS.values() if kind.part == group]
    weights = draw_weights(chance, [kind.weight for kind in kinds])
    return _draw_actions(kinds, weights, chance, known, duration, every)


def _draw_actions(
    kinds: Sequence[ActionKind],
    weights: Sequence[int],
    chance: random.Random,
    known: PlannedTopics,
    duration: float,
    every: float,
    rests: float = math.inf,
) -> Iterator[Action]:
    """Yield actions of these kinds at random times, and "rest" actions."""
    at, rests_at = 5.0, rests
    while (at := round(at + chance.expovariate(1 / every), 3)) < duration:
        if at >= rests_at:
            yield Action(rests_at, REST)
            rests_at += rests
        (kind,) = chance.choices(kinds, weights)
        args = kind.choose(chance, known)
        if args is not None:
            yield Action(at, kind.name, args, round(chance.uniform(*kind.seconds), 3) if kind.lasts else None)


def _lasting(
    chance: random.Random, known: PlannedTopics, kinds: Sequence[ActionKind], duration: float
) -> Iterator[Action]:
    """Yield a fault that lasts to the end of the run; nothing if none of these kinds can last so long."""
    staying = [kind for kind in kinds if kind.may_last]
    if staying:
        kind = chance.choice(staying)
        args = kind.choose(chance, known)
        assert args is not None
        yield Action(round(chance.uniform(5.0, max(duration * 0.7, 5.0)), 3), kind.name, args, math.inf)
