"""Credentials on their way from and to ZooKeeper: the actors see seals, ZooKeeper gets the texts back."""

from __future__ import annotations

import json
from typing import Any

from thespian.actors import ActorAddress

from actors.core.security.scram import credential_of, format_credential, salted
from actors.gateway.store import StoreGateway
from actors.gateway.vault import Vault
from messages.node import OpenStore
from messages.security import Secret
from messages.store import NO_NODE, SET, StoreRead, StoreReply, StoreWrite, WriteOp, Znode

MECHANISM = "SCRAM-SHA-256"
CREDENTIAL = credential_of(MECHANISM, salted(MECHANISM, Secret(b"pw"), b"salt", 4096), b"salt", 4096)
TEXT = format_credential(CREDENTIAL)
OTHER = TEXT.replace("4096", "8192")


class FakeStore:
    """A ZooKeeper client that keeps its requests."""

    waits = False

    def start(self, news: Any) -> None:
        self.news = news

    def submit(self, request: Any) -> None:
        self.request = request


class Border:
    """A gateway between a fake client and this object, which is the bridge and the actor system."""

    def __init__(self) -> None:
        self.store, self.vault, self.bridge = FakeStore(), Vault(), ActorAddress("bridge")
        self.seen: list[Any] = []
        base: Any = self
        store: Any = self.store
        self.gateway = StoreGateway(base, store, self.bridge, self.vault)
        self.gateway.receive(OpenStore(self.bridge), self.bridge)

    def external_endpoint(self, name: str, receive: Any) -> ActorAddress:
        return ActorAddress(name)

    def inject(self, to: ActorAddress, message: Any, sender: ActorAddress) -> None:
        self.seen.append(message)

    def read(self, **data: bytes | None) -> list[dict[str, Any] | bytes | None]:
        """Return what the bridge sees of these users' znodes."""
        paths = tuple(f"/config/users/{name.replace('__', '%20')}" for name in data)
        self.gateway.receive(StoreRead(1, paths), self.bridge)
        nodes = (Znode(NO_NODE) if each is None else Znode(0, each) for each in data.values())
        self.store.news(StoreReply(1, nodes=tuple(nodes)))
        found = []
        for node in self.seen.pop().nodes:
            try:
                found.append(json.loads(node.data))
            except (TypeError, ValueError):
                found.append(node.data)
        return found


def config(**entries: str) -> bytes:
    return json.dumps(
        {"version": 1, "config": {key.replace("_", "-"): value for key, value in entries.items()}}
    ).encode()


def test_a_credential_is_sealed_for_the_actors_and_opened_for_zookeeper() -> None:
    border = Border()
    alice, bob, carol = border.read(
        alice=config(SCRAM_SHA_256=TEXT, quota="1"),
        bob=config(SCRAM_SHA_256=TEXT),
        carol__x=config(SCRAM_SHA_256=OTHER),
    )
    assert alice["config"]["quota"] == "1"  # type: ignore[index,call-overload]
    seals = [each["config"][MECHANISM] for each in (alice, bob, carol)]  # type: ignore[index,call-overload]
    assert seals[0] == seals[1] != seals[2]
    assert seals[0].endswith("iterations=4096") and "stored_key" not in repr(seals)
    assert set(border.vault.credentials[MECHANISM]) == {"alice", "bob", "carol x"}
    assert border.vault.credentials[MECHANISM]["alice"] == CREDENTIAL
    op = WriteOp(SET, "/config/users/alice", json.dumps(alice).encode())
    border.gateway.receive(StoreWrite(2, (op, WriteOp(SET, "/config/topics/t", op.data))), border.bridge)
    written, elsewhere = border.store.request.ops
    assert json.loads(written.data)["config"] == {"quota": "1", MECHANISM: TEXT}
    assert elsewhere.data == op.data, "only a znode of a user holds credentials"


def test_the_last_read_counts_and_a_torn_credential_leaves_the_one_before() -> None:
    border = Border()
    border.read(alice=config(SCRAM_SHA_256=TEXT), bob=config(SCRAM_SHA_256=TEXT), carol=config(SCRAM_SHA_256=TEXT))
    assert border.read(bob=b"SCRAM-SHA-256: stored_key=x") == [b"***"]
    border.read(alice=config(SCRAM_SHA_256="salt=x"), carol=None)
    assert border.vault.credentials[MECHANISM] == {"alice": CREDENTIAL, "bob": CREDENTIAL}
    border.read(alice=config(quota="1"))
    assert set(border.vault.credentials[MECHANISM]) == {"bob"}
