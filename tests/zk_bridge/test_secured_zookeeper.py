"""Sessions with a real ZooKeeper by SASL DIGEST-MD5 and by TLS with a client certificate, and the ACLs of znodes."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from actors.cli.app import run
from actors.node.settings import settings_of
from messages.store import CREATE, CREATE_EPHEMERAL, CREATE_SEQUENTIAL, NO_AUTH, OK, StoreFailed, WriteOp
from tests.gateway.test_tls import made
from tests.zk_bridge.listener import Listener
from zk_bridge import paths
from zk_bridge.embedded import EmbeddedZooKeeper, _free_port
from zk_bridge.kazoo_store import KazooStore
from zk_bridge.store import StoreSecurity, ZooKeeperUnavailable

pytestmark = [pytest.mark.java, pytest.mark.soak, pytest.mark.long]
PASSWORD = "zk-password"
SUPER_USER = "super:pw"


class SecuredZooKeeper(EmbeddedZooKeeper):
    """A server that knows the SASL user kafka, and has a port with TLS for clients with a certificate."""

    tls_port: int
    certificate: str

    def _configure(self, port: int, log4j2: str) -> None:
        super()._configure(port, log4j2)
        with (self.data_dir / "zoo.cfg").open("a") as file:
            file.write(
                "authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider\n"
                "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory\n"
                "ssl.enabledProtocols=TLSv1.2,TLSv1.3\n"
                f"secureClientPort={self.tls_port}\nsecureClientPortAddress=127.0.0.1\n"
                f"ssl.keyStore.location={self.certificate}\nssl.trustStore.location={self.certificate}\n"
            )


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredZooKeeper]:
    folder = tmp_path_factory.mktemp("secured")
    login = folder / "jaas.conf"
    login.write_text(
        f'Server {{ org.apache.zookeeper.server.auth.DigestLoginModule required user_kafka="{PASSWORD}"; }};'
    )
    server = SecuredZooKeeper(folder / "zookeeper", force_sync=False)
    server.tls_port, server.certificate = _free_port(), str(made(folder, "node"))
    with pytest.MonkeyPatch.context() as patch:
        digest = base64.b64encode(hashlib.sha1(SUPER_USER.encode()).digest()).decode()
        provider = "-Dzookeeper.DigestAuthenticationProvider.superDigest=super:"
        patch.setenv("JAVA_TOOL_OPTIONS", f"-Djava.security.auth.login.config={login} {provider}{digest}")
        with server:
            yield server


def security(**words: str) -> StoreSecurity:
    named = {f"zookeeper.{name.replace('__', '.')}": value for name, value in words.items()}
    return settings_of({"broker.id": "0", "zookeeper.connect": "h:1", "log.dirs": "/nowhere", **named}).zookeeper


def by_sasl(password: str = PASSWORD) -> StoreSecurity:
    return security(set__acl="true", sasl__username="kafka", sasl__password=password)


def by_tls(server: SecuredZooKeeper, folder: Path | None = None) -> StoreSecurity:
    trusted = server.certificate if folder is None else str(made(folder, "stranger"))
    stores = {"ssl__keystore__location": server.certificate, "ssl__truststore__location": trusted}
    return security(set__acl="true", ssl__client__enable="true", **stores)


def identities(server: SecuredZooKeeper, path: str) -> set[tuple[str, int]]:
    client = KazooClient(server.connect_string, auth_data=[("digest", SUPER_USER)])
    client.start()
    try:
        if client.exists(path) is None:
            return set()
        return {(f"{acl.id.scheme}:{acl.id.id}", acl.perms) for acl in client.get_acls(path)[0]}
    finally:
        client.stop()
        client.close()


@pytest.mark.parametrize(
    ("chroot", "identity"), [("/by-sasl", "sasl:kafka"), ("/by-tls", "x509:CN=node,O=Test")], ids=["SASL", "TLS"]
)
def test_new_znodes_have_kafkas_acls(server: SecuredZooKeeper, chroot: str, identity: str) -> None:
    if chroot == "/by-sasl":
        store = KazooStore(server.connect_string + chroot, 10, 20, create_chroot=True, security=by_sasl())
    else:
        store = KazooStore(f"127.0.0.1:{server.tls_port}{chroot}", 10, 20, create_chroot=True, security=by_tls(server))
    listener = Listener(store)
    every = dict.fromkeys(
        [*(each for path in paths.PERSISTENT for each in (*paths.ancestors(path), path)), "/delegation_token"]
    )
    listener.write(*(WriteOp(CREATE, path) for path in (*every, "/delegation_token/tokens")))
    listener.write(
        WriteOp(CREATE_EPHEMERAL, "/controller"),
        WriteOp(CREATE, "/config/users/alice", b"secret"),
        WriteOp(CREATE, "/config/brokers/0", b"secret"),
        WriteOp(CREATE, "/brokers/topics/t", b"x" * 40_000),
        WriteOp(CREATE, "/delegation_token/tokens/x"),
        WriteOp(CREATE_SEQUENTIAL, paths.CONFIG_CHANGE_PREFIX),
    )
    creator = (identity, 31)
    readable, private, anyone = {creator, ("world:anyone", 1)}, {creator}, {("world:anyone", 31)}
    for path in (*every, "/controller", "/brokers/topics/t", "/config/changes/config_change_0000000000"):
        is_private = path.startswith(("/config/users", "/config/brokers"))
        expected = private if is_private else anyone if path == "/consumers" else readable
        assert identities(server, chroot + path) == expected, path
    for path in ("/config/users/alice", "/config/brokers/0", "/delegation_token/tokens", "/delegation_token/tokens/x"):
        assert identities(server, chroot + path) == private, path
    assert identities(server, chroot) == readable
    large = listener.read(*["/brokers/topics/t"] * 30)  # TLS records with several responses, and responses of several
    assert {(node.code, len(node.data or b"")) for node in large.nodes} == {(OK, 40_000)}
    stranger = Listener(KazooStore(server.connect_string + chroot, 10, 20))
    read = stranger.read("/config/users/alice", "/brokers/topics/t")
    assert [node.code for node in read.nodes] == [NO_AUTH, OK]
    assert stranger.write(WriteOp(CREATE, "/brokers/topics/mine")).code == NO_AUTH
    for each in (stranger, listener):
        each.store.stop()


def test_a_wrong_password_ends_the_session_with_the_reason(server: SecuredZooKeeper) -> None:
    store = KazooStore(server.connect_string, 10, 20, security=by_sasl("wrong"))
    listener = Listener(store)
    failed = listener.until(lambda news: [each for each in news if isinstance(each, StoreFailed)])
    assert "ZooKeeper refuses the credentials in zookeeper.sasl.username" in failed[0].reason
    store.stop()


def test_a_command_reads_zookeeper_with_the_settings_of_a_file(
    server: SecuredZooKeeper, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    address = f"127.0.0.1:{server.tls_port}"
    file = tmp_path / "zookeeper.properties"
    file.write_text(
        f"zookeeper.ssl.client.enable=true\nzookeeper.ssl.truststore.location={server.certificate}\n"
        f"zookeeper.ssl.keystore.location={server.certificate}\n"
    )
    assert run(["status", "--zookeeper", address, "--zk-tls-config-file", str(file)]) == 1
    assert "there is no cluster in ZooKeeper" in capsys.readouterr().err
    assert run(["status", "--zookeeper", address, "--zk-tls-config-file", str(tmp_path / "missing")]) == 1
    assert "No such file" in capsys.readouterr().err


def test_a_server_with_another_certificate_gets_no_byte(server: SecuredZooKeeper, tmp_path: Path) -> None:
    store = KazooStore(f"127.0.0.1:{server.tls_port}", 5, 2, security=by_tls(server, tmp_path))
    with pytest.raises(ZooKeeperUnavailable):
        store.start(print)
