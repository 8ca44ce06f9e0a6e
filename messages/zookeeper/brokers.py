"""Requests to the ZooKeeper bridge about the registrations of brokers (/brokers/ids/N)."""

from __future__ import annotations

from messages.ask import Done
from messages.cluster import Broker
from messages.vocabulary import Message, message
from messages.zookeeper.question import BridgeQuestion


@message
class RegisterBroker(BridgeQuestion["BrokerRegistered | RegistrationRefused"]):
    """A request to create the ephemeral znode /brokers/ids/N; the reply is BrokerRegistered or RegistrationRefused.

    One transaction creates the znode and sets its data. A znode of an earlier session of this process is deleted and
    created again. If another session owns the znode, the registration is refused.
    """

    broker: Broker
    timestamp_ms: int
    ibp: str


@message
class BrokerRegistered(Message):
    """The reply to RegisterBroker: the czxid of the registration, which is the broker epoch."""

    epoch: int


@message
class RegistrationRefused(Message):
    """The reply to RegisterBroker if another live session owns /brokers/ids/N."""

    owner: int


@message
class UpdateBroker(BridgeQuestion[Done]):
    """A request to overwrite /brokers/ids/N if it belongs to this session; the reply is Done.

    If the znode does not belong to this session, nothing is written; the next registration contains the change.
    """

    broker: Broker
    timestamp_ms: int
    ibp: str


@message
class GetBrokers(BridgeQuestion["Brokers"]):
    """A request to read all of /brokers/ids/*, and to watch the children of /brokers/ids if `watch` is set.

    The reply is Brokers.

    The watch sends BrokerChange. Children whose name is not a number are ignored.
    """

    watch: bool = True


@message
class Brokers(Message):
    """The live brokers by id, each with its epoch; `unreadable` are the ids of invalid registrations.

    The bridge logs invalid registrations.
    """

    brokers: tuple[Broker, ...]
    unreadable: tuple[int, ...] = ()


@message
class WatchBrokers(BridgeQuestion[Done]):
    """A request to watch the registrations of these brokers for changes; the reply is Done.

    The bridge does not read them, because the sender has just read them.
    """

    broker_ids: tuple[int, ...]


@message
class GetBroker(BridgeQuestion["Brokers"]):
    """A request to read /brokers/ids/N and to watch it for changes; the reply is Brokers.

    The watch sends BrokerModifications(N). The reply is empty if the znode is absent.
    """

    broker_id: int
