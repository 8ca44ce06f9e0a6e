"""ZooKeeper operations on the registrations of brokers, and their data (controller.md 2.3)."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from typing import Any

from messages import store, zookeeper
from messages.ask import BadZnode, Done
from messages.cluster import Broker, Endpoint
from messages.protocol_version import at_least
from zk_bridge import conversations, paths, znodes

logger = logging.getLogger(__name__)


_ENDPOINT = re.compile(r"([^:/\s]+)://(\[[^\[\]\s]*\]|[^:\[\]/\s]*):(-?[0-9]{1,10})")
REGISTRATION_VERSIONS = (("2.7-IV0", 5), ("0.10.0-IV1", 4))
"""Minimum inter.broker.protocol.version and its version of a registration. Below the last it is 2."""


def registration_version(ibp: str) -> int:
    """Return the version of /brokers/ids/N for an inter.broker.protocol.version."""
    return next((version for since, version in REGISTRATION_VERSIONS if at_least(ibp, since)), 2)


def encode_broker(broker: Broker, timestamp_ms: int, ibp: str) -> bytes:
    """Encode /brokers/ids/N (controller.md 2.3).

    host and port are those of the first PLAINTEXT endpoint. Without such an endpoint, host is null and port is -1.
    """
    version = registration_version(ibp)
    plain = next((end for end in broker.endpoints if end.security_protocol == "PLAINTEXT"), None)
    members: dict[str, Any] = {
        "version": version,
        "host": plain.host if plain else None,
        "port": plain.port if plain else -1,
        "endpoints": [
            f"{end.listener}://{f'[{end.host}]' if ':' in end.host else end.host}:{end.port}"
            for end in broker.endpoints
        ],
        "jmx_port": broker.jmx_port,
        "timestamp": str(timestamp_ms),
    }
    if version >= 3 and broker.rack is not None:
        members["rack"] = broker.rack
    if version >= 4:
        members["listener_security_protocol_map"] = {end.listener: end.security_protocol for end in broker.endpoints}
    if version >= 5:
        members["features"] = {}
    return znodes.encode(members)


def decode_broker(path: str, data: bytes | None, epoch: int) -> Broker:
    """Decode a registration of any version (1 to 5 are known; newer ones are read like 5).

    Args:
        path: The znode's path; its last part is the broker's id.
        data: The znode's data.
        epoch: The znode's czxid, which is the broker epoch.

    Raises:
        BadZnode: The data or the id is invalid.
    """

    def read(data: bytes | None) -> Broker:
        members = znodes.parse(data)
        broker_id = znodes.number(znodes.decimal(path.rpartition("/")[2]), "the broker's id", least=0)
        version = znodes.number_member(members, "version")
        if version < 1:
            raise znodes.InvalidValue(f"version {version} is not supported, only 1 and above")
        if version == 1:
            host, port = (
                znodes.valid_text(znodes.member(members, "host", str), "host"),
                znodes.number_member(members, "port"),
            )
            endpoints: tuple[Endpoint, ...] = (Endpoint("PLAINTEXT", host, port),)
        else:
            endpoints = _endpoints(members)
        rack = znodes.member(members, "rack", str, None)
        return Broker(
            id=broker_id,
            endpoints=endpoints,
            epoch=epoch,
            rack=None if rack is None else znodes.valid_text(rack, "rack"),
            jmx_port=znodes.number_member(members, "jmx_port"),
        )

    broker: Broker = znodes.naming(path, data, read)
    return broker


def is_broker_id(name: str) -> bool:
    """Return whether this is the name of a registration. Kafka writes ids as plain decimals."""
    return re.fullmatch(r"0|[1-9][0-9]{0,9}", name, re.ASCII) is not None and int(name) <= znodes.INT32


def _endpoints(members: dict[str, Any]) -> tuple[Endpoint, ...]:
    given = znodes.member(members, "listener_security_protocol_map", dict, None)
    protocols = (
        {} if given is None else {znodes.valid_text(key, "a listener").upper(): value for key, value in given.items()}
    )
    endpoints = []
    for each in znodes.member(members, "endpoints", list):
        match = _ENDPOINT.fullmatch(znodes.valid_text(each, "endpoints"))
        if match is None:
            raise znodes.InvalidValue(f"{znodes.shortened_repr(each)} is no endpoint, expected LISTENER://host:port")
        listener, host = match[1].upper(), match[2].strip("[]")
        if given is not None and listener not in protocols:
            raise znodes.InvalidValue(f"listener {listener} is not in listener_security_protocol_map")
        protocol = znodes.valid_text(protocols.get(listener, listener), f"the protocol of {listener}")
        endpoints.append(Endpoint(listener, host, znodes.number(int(match[3]), "a port", -1, 65535), protocol))
    if len({end.listener for end in endpoints}) < len(endpoints):
        raise znodes.InvalidValue(f"a listener is named twice: {', '.join(end.listener for end in endpoints)}")
    return tuple(endpoints)


def register_broker(question: zookeeper.RegisterBroker) -> conversations.Conversation:
    """Create the registration and set its data in one transaction.

    The stat that the set operation returns contains the czxid, which is the broker epoch. If the znode exists, its
    owner decides:

    - This session: the broker is registered.
    - An earlier session of this bridge: the znode is deleted and created again.
    - Another session: the registration is refused. The znode may be left over from a killed process with the same
      broker id. As in Kafka, it is not taken over; it disappears when that session expires.

    Returns:
        BrokerRegistered with the broker epoch, or RegistrationRefused with the owner's session id.
    """
    path = paths.broker(question.broker.id)
    create = (
        store.WriteOp(store.CREATE_EPHEMERAL, path),
        store.WriteOp(store.SET, path, encode_broker(question.broker, question.timestamp_ms, question.ibp), 0),
    )
    ops: tuple[store.WriteOp, ...] = create
    while True:
        reply = yield from conversations.transact(ops, store.CONNECTION_LOSS, store.NODE_EXISTS, store.NO_NODE)
        if reply.code == store.OK:
            return zookeeper.BrokerRegistered(reply.results[-1].czxid)
        session = yield conversations.GetSessionIds()
        (node,) = yield from conversations.data_of((path,))
        ops = create
        if node.code == store.OK:
            if node.owner == session.current:
                return zookeeper.BrokerRegistered(node.czxid)
            if node.owner not in session.earlier:
                return zookeeper.RegistrationRefused(node.owner)
            ops = (store.WriteOp(store.DELETE, path), *create)


def update_broker(question: zookeeper.UpdateBroker) -> conversations.Conversation:
    """Set the registration's data. The znode is not created again, so the broker epoch stays the same."""
    path = paths.broker(question.broker.id)
    data = encode_broker(question.broker, question.timestamp_ms, question.ibp)
    while True:
        session = yield conversations.GetSessionIds()
        (node,) = yield from conversations.data_of((path,))
        if node.code != store.OK or node.owner != session.current:
            return Done()
        reply = yield from conversations.transact(
            (store.WriteOp(store.SET, path, data, node.version),), store.BAD_VERSION, store.NO_NODE
        )
        if reply.code == store.OK:
            return Done()


def get_brokers(question: zookeeper.GetBrokers) -> conversations.Conversation:
    """Return all live brokers, sorted by id."""
    (names,) = yield from conversations.children_of((paths.BROKER_IDS,), question.watch)
    ids = _ids(names or ())
    return _read(ids, (yield from conversations.data_of(tuple(paths.broker(broker_id) for broker_id in ids))))


def watch_brokers(question: zookeeper.WatchBrokers) -> conversations.Conversation:
    """Set a watch on each broker's registration, even if it is absent, as in Kafka. No registration is read."""
    if question.broker_ids:
        watches = store.Watches(exists=tuple(paths.broker(broker_id) for broker_id in question.broker_ids))
        yield conversations.Read(watches=watches)
    return Done()


def get_broker(question: zookeeper.GetBroker) -> conversations.Conversation:
    """Return one broker, or an empty result if it is not registered."""
    path = (paths.broker(question.broker_id),)
    nodes = yield from conversations.data_of(path, watches=store.Watches(exists=path))
    return _read((question.broker_id,), nodes)


def _ids(names: Iterable[str]) -> tuple[int, ...]:
    """Return the broker ids among the children of /brokers/ids, sorted. Other children are logged and ignored."""
    foreign = [name for name in names if not is_broker_id(name)]
    if foreign:
        logger.warning("Ignoring children of %s that are not broker ids: %s", paths.BROKER_IDS, ", ".join(foreign))
    return tuple(sorted(int(name) for name in names if name not in foreign))


def _read(ids: tuple[int, ...], nodes: tuple[store.Znode, ...]) -> zookeeper.Brokers:
    """Decode the registrations. An unreadable registration is logged, and its id is in `unreadable`."""
    found: list[Broker] = []
    unreadable: list[int] = []
    for broker_id, node in zip(ids, nodes, strict=True):
        if node.code == store.NO_NODE:
            continue
        try:
            found.append(decode_broker(paths.broker(broker_id), node.data, node.czxid))
        except BadZnode as error:
            logger.error("Ignoring broker %d until its registration in /brokers/ids can be read: %s", broker_id, error)
            unreadable.append(broker_id)
    return zookeeper.Brokers(tuple(found), tuple(unreadable))


ANSWERS: dict[type, conversations.Starter] = {
    zookeeper.RegisterBroker: register_broker,
    zookeeper.UpdateBroker: update_broker,
    zookeeper.GetBrokers: get_brokers,
    zookeeper.WatchBrokers: watch_brokers,
    zookeeper.GetBroker: get_broker,
}
