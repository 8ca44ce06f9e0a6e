"""Credentials on their way from and to ZooKeeper: the actors see seals, ZooKeeper gets the texts back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from thespian.actors import ActorAddress

from actors.core.security.scram import credential_of, format_credential, salt_password
from actors.gateway.store import StoreGateway
from actors.gateway.vault import Vault
from messages.apis.alter_configs import AlterConfigsRequest, ChangedResource, ConfigChange
from messages.apis.incremental_alter_configs import IncrementalAlterConfigsRequest
from messages.node import OpenStore
from messages.security import Secret
from messages.store import NO_NODE, SET, StoreRead, StoreReply, StoreWrite, WriteOp, Znode

MECHANISM = "SCRAM-SHA-256"
CREDENTIAL = credential_of(MECHANISM, salt_password(MECHANISM, Secret(b"pw"), b"salt", 4096), b"salt", 4096)
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

    def __init__(self, vault: Vault | None = None) -> None:
        self.store, self.vault, self.bridge = FakeStore(), vault or Vault(), ActorAddress("bridge")
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


class Reversed:
    """In place of an encryption."""

    def encode(self, password: str) -> str:
        return f"encoded:{password[::-1]}"

    def decode(self, text: str) -> tuple[str, bool]:
        kind, colon, password = text.partition(":")
        if not colon:
            raise ValueError("it is not encoded")
        return password[::-1], kind == "encoded"


PASSWORD_CONFIG = "listener.name.x.ssl.key.password"


def changes(kind: Any, **configs: str | None) -> Any:
    entries = tuple(ConfigChange(name.replace("__", "."), value) for name, value in configs.items())
    return kind(1, (ChangedResource(4, "0", entries),))


@pytest.mark.parametrize("kind", [AlterConfigsRequest, IncrementalAlterConfigsRequest])
def test_a_password_is_sealed_in_the_request_encrypted_in_zookeeper_and_sealed_when_it_is_read(kind: Any) -> None:
    border = Border(Vault(encoder=Reversed()))
    request = changes(kind, **{PASSWORD_CONFIG: "sword"}, ssl__key__password=None, retention__ms="5")
    assert request.resources[0].configs[0].value == "sword"
    sealed, none, plain = border.vault.conceal(request, "User:a").resources[0].configs
    assert sealed.value.startswith("sealed=") and (none.value, plain.value) == (None, "5")
    data = json.dumps({"version": 1, "config": {PASSWORD_CONFIG: sealed.value, "retention.ms": "5"}}).encode()
    path = "/config/brokers/0"
    border.gateway.receive(StoreWrite(2, (WriteOp(SET, path, data),)), border.bridge)
    (written,) = border.store.request.ops
    assert json.loads(written.data)["config"] == {PASSWORD_CONFIG: "encoded:drows", "retention.ms": "5"}
    border.gateway.receive(StoreRead(3, (path,)), border.bridge)
    border.store.news(StoreReply(3, nodes=(Znode(0, written.data),)))
    assert border.seen.pop().nodes[0].data == data.replace(b": ", b":").replace(b", ", b",")
    assert border.vault.text_of(sealed.value) == "sword"


def test_what_the_old_secret_encrypts_is_written_with_the_new_one() -> None:
    vault, path = Vault(encoder=Reversed()), "/config/brokers/0"
    for kind in ("old", "encoded"):
        stored = json.dumps({"config": {PASSWORD_CONFIG: f"{kind}:drows"}}).encode()
        written = vault.unseal_znode(path, vault.seal_znode(path, stored))
        assert written is not None
        assert json.loads(written) == {"config": {PASSWORD_CONFIG: "encoded:drows"}}


def test_a_password_that_cannot_be_decrypted_is_kept_and_not_shown(caplog: pytest.LogCaptureFixture) -> None:
    border, path = Border(Vault(encoder=Reversed())), "/config/brokers/0"
    torn = json.dumps({"version": 1, "config": {PASSWORD_CONFIG: "swordfish"}}, separators=(",", ":")).encode()
    seen = border.vault.seal_znode(path, torn)
    assert seen is not None and b"swordfish" not in seen and "swordfish" not in caplog.text
    assert border.vault.unseal_znode(path, seen) == torn
