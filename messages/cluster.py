"""Values that describe a cluster: partitions, brokers, assignments and leaders."""

from __future__ import annotations

from typing import NamedTuple

from messages.vocabulary import Message, maker, message

MAX_LOG_NAME = 255
"""Maximum length of a log directory's name in characters, the limit of file systems."""

NO_CONTROLLER = -1
NO_LEADER = -1
LEADER_DURING_DELETE = -2
NO_EPOCH = -1
EPOCH_DURING_DELETE = -2
UNKNOWN_BROKER_EPOCH = -1
NO_ID = ""
"""The text of the zero topic id; other ids have the text of their topic znodes."""


class TopicPartition(NamedTuple):
    """A partition of a topic.

    It is a NamedTuple, because it is the key of large dicts, and the hash of a NamedTuple is computed in C.
    """

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class CurrentLeader(NamedTuple):
    """The leader of a partition and its leader epoch, as a hint for clients that asked another broker (KIP-951)."""

    leader: int
    leader_epoch: int


class TopicId(NamedTuple):
    """A topic with its id."""

    topic: str
    id: str


def partition_named(text: str) -> TopicPartition | None:
    """Return the partition with the name `text`, such as orders-0; None if `text` is not a partition's name."""
    topic, _, number = text.rpartition("-")
    return TopicPartition(topic, int(number)) if topic and number.isdecimal() else None


def partition_of_log(path: str) -> TopicPartition:
    """Return the partition of a log from the name or path of its directory, such as /data-0/orders-0.

    Raises:
        ValueError: The directory is not named after a partition.
    """
    partition = partition_named(path.rpartition("/")[2])
    if partition is None:
        raise ValueError(f"{path!r} is not named after a partition")
    return partition


class PartitionReplica(NamedTuple):
    """A replica, identified by its partition and its broker."""

    partition: TopicPartition
    broker_id: int


@message
class Endpoint(Message):
    """The address of a broker's listener."""

    listener: str
    host: str
    port: int
    security_protocol: str = "PLAINTEXT"


def in_url(host: str) -> str:
    """Return a host as an address with a port contains it: an IPv6 address is in brackets."""
    return f"[{host}]" if ":" in host else host


@message
class Broker(Message):
    """A registered broker, as /brokers/ids/N describes it (controller.md 2.3).

    `epoch` is the czxid of the registration, -1 if unknown (before the registration).
    """

    id: int
    endpoints: tuple[Endpoint, ...]
    epoch: int = UNKNOWN_BROKER_EPOCH
    rack: str | None = None
    jmx_port: int = -1


@message
class ReplicaAssignment(Message):
    """A partition's replicas (preferred first), and which of them are being added or removed (controller.md 7.7)."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()


@message
class LeaderIsrAndControllerEpoch(Message):
    """The leader, ISR and epochs of a partition, as its state znode contains them.

    `zk_version` is the znode's version, -1 if unknown. `controller_epoch` is the epoch of the controller that made the
    decision. It may be older than the current controller epoch.
    """

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    zk_version: int = -1


leader_isr_and_epoch = maker(LeaderIsrAndControllerEpoch)
"""Create a LeaderIsrAndControllerEpoch faster than the class does, for loops over partitions."""


class Leadership(NamedTuple):
    """A partition with its leader, ISR and epochs."""

    partition: TopicPartition
    state: LeaderIsrAndControllerEpoch


class PartitionAssignment(NamedTuple):
    """A partition number with the replicas of the partition."""

    partition: int
    assignment: ReplicaAssignment


class ConfigEntry(NamedTuple):
    """A config override: the name of the config and its value."""

    name: str
    value: str
