"""Brokers' registrations: /brokers/ids/N."""

from __future__ import annotations

from messages.cluster import Broker
from messages.conversation import Done
from messages.vocabulary import message
from messages.zookeeper.question import BridgeQuestion


@message
class RegisterBroker(BridgeQuestion["BrokerRegistered | RegistrationRefused"]):
    """Create ephemeral /brokers/ids/N (create + set in one transaction). -> BrokerRegistered | RegistrationRefused

    A node left by this process's own earlier session is deleted and made anew; another owner's refuses.
    """

    broker: Broker
    timestamp_ms: int
    ibp: str


@message
class BrokerRegistered:
    """The registration's czxid, which is the broker epoch."""

    epoch: int


@message
class RegistrationRefused:
    """Another live session owns /brokers/ids/N."""

    owner: int


@message
class UpdateBroker(BridgeQuestion[Done]):
    """Write /brokers/ids/N anew, if it belongs to this session; otherwise the next registration has the change. ->
    Done"""

    broker: Broker
    timestamp_ms: int
    ibp: str


@message
class GetBrokers(BridgeQuestion["Brokers"]):
    """Read all of /brokers/ids/*; arms BrokerChange if `watch`. -> Brokers. Children that name no id are ignored."""

    watch: bool = True


@message
class Brokers:
    """Live brokers by id, each with its epoch; `unreadable` are ids with a torn registration (logged by the bridge)."""

    brokers: tuple[Broker, ...]
    unreadable: tuple[int, ...] = ()


@message
class WatchBrokers(BridgeQuestion[Done]):
    """Arm BrokerModifications for each id (no read: the caller has just read them). -> Done"""

    broker_ids: tuple[int, ...]


@message
class GetBroker(BridgeQuestion["Brokers"]):
    """Read /brokers/ids/N; arms BrokerModifications(N). -> Brokers (empty where absent, unreadable where torn)"""

    broker_id: int
