"""SASL without sockets: what a connection may send in each state, the mechanisms, and JAAS texts."""

from __future__ import annotations

from typing import Any

import pytest

from actors.core.security.jaas import parse_jaas
from actors.core.security.sasl_exchange import AuthenticationFailed, SaslIdentity, plain
from actors.core.security.sasl_server import SaslAnswer, SaslMechanism, SaslServer, SaslState
from messages.apis.api_versions import ApiVersionsRequest
from messages.apis.find_coordinator import FindCoordinatorRequest
from messages.apis.sasl_authenticate import SaslAuthenticateRequest
from messages.apis.sasl_handshake import SaslHandshakeRequest
from messages.security import Secret
from messages.trace.codec import decode, encode

USERS = {"alice": Secret(b"alice-pw"), "bob": Secret(b"bob-pw")}
HANDSHAKE, OLD, OTHER = (
    SaslHandshakeRequest(1, "PLAIN"),
    SaslHandshakeRequest(0, "PLAIN"),
    SaslHandshakeRequest(1, "OTHER"),
)
VERSIONS, UNKNOWN_VERSION = ApiVersionsRequest(0), ApiVersionsRequest(99)
FIND = FindCoordinatorRequest(2, "g", 0)


def login(text: str) -> SaslAuthenticateRequest:
    return SaslAuthenticateRequest(1, Secret(text.replace("|", "\0").encode()))


GOOD, BOB, WRONG = login("|alice|alice-pw"), login("|bob|bob-pw"), login("|alice|wrong")


def server(max_reauth_ms: int = 0) -> SaslServer:
    of_other = SaslMechanism(lambda: plain(USERS), max_reauth_ms)
    return SaslServer({"PLAIN": SaslMechanism(lambda: plain(USERS), max_reauth_ms), "OTHER": of_other})


def outcome(answer: SaslAnswer | None) -> str:
    """Return what happens, in one word each: the code, and whether the connection is closed, and when."""
    if answer is None:
        return "passes"
    code = "" if answer.response is None else str(answer.response.error_code)  # type: ignore[union-attr]
    return f"{code} {'later' if answer.fails else 'closed' if answer.closes else ''}".strip()


@pytest.mark.parametrize(
    ("sent", "happens"),
    [
        ([VERSIONS, HANDSHAKE, GOOD, FIND], ["0", "0", "0", "passes"]),
        ([VERSIONS, VERSIONS], ["0", "closed"]),
        ([UNKNOWN_VERSION, VERSIONS, HANDSHAKE], ["35", "0", "0"]),
        ([SaslHandshakeRequest(1, "plain")], ["33 later"]),
        ([SaslHandshakeRequest(0, "GSSAPI")], ["33 later"]),
        ([HANDSHAKE, WRONG], ["0", "58 later"]),
        ([HANDSHAKE, FIND], ["0", "34 later"]),
        ([HANDSHAKE, HANDSHAKE], ["0", "34 later"]),
        ([HANDSHAKE, GOOD, HANDSHAKE, GOOD], ["0", "0", "passes", "passes"]),
    ],
)
def test_each_request_has_the_outcome_of_kafka(sent: list[Any], happens: list[str]) -> None:
    sasl = server()
    assert [outcome(sasl.request(each, 0.0)) for each in sent] == happens


@pytest.mark.parametrize(
    ("at", "sent", "happens"),
    [
        (1.0, [HANDSHAKE, GOOD, FIND], ["0", "0", "passes"]),
        (1.0, [HANDSHAKE, BOB], ["0", "58 later"]),
        (1.0, [HANDSHAKE, WRONG], ["0", "58 later"]),
        (1.0, [OTHER, GOOD], ["0", "closed"]),
        (1.0, [HANDSHAKE, FIND], ["0", "34 later"]),
        (1.0, [HANDSHAKE, GOOD, HANDSHAKE], ["0", "0", "passes"]),  # at most one in a second
        (3.0, [FIND], ["closed"]),
        (3.0, [GOOD], ["closed"]),
        (3.0, [HANDSHAKE, GOOD, FIND], ["0", "0", "passes"]),
    ],
)
def test_a_session_ends_unless_its_client_authenticates_again(at: float, sent: list[Any], happens: list[str]) -> None:
    sasl = server(max_reauth_ms=3000)
    assert [outcome(sasl.request(each, 0.0)) for each in (HANDSHAKE, GOOD)] == ["0", "0"]
    assert [outcome(sasl.request(each, at)) for each in sent] == happens
    if happens[-1] == "passes":
        assert sasl.request(FIND, at + 2.9) is None and sasl.request(FIND, at + 3.0) is not None


def test_after_a_handshake_of_version_0_messages_are_bare() -> None:
    sasl = server()
    assert sasl.admits(17) and sasl.admits(18) and not sasl.admits(3)
    sasl.request(OLD, 0.0)
    assert sasl.state is SaslState.TOKENS
    assert server_token(b"\0alice\0alice-pw") == (b"", False)
    assert server_token(b"\0alice\0wrong") == (None, True)


def server_token(token: bytes) -> tuple[Any, bool]:
    sasl = server()
    sasl.request(OLD, 0.0)
    answer = sasl.token(token, 0.0)
    return answer.response, answer.fails


@pytest.mark.parametrize(
    ("token", "text"),
    [
        ("alice|alice-pw", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
        ("|alice|alice-pw|", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        ("", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        ("||alice-pw", "Authentication failed: username not specified"),
        ("|alice|", "Authentication failed: password not specified"),
        ("|alice|wrong", "Authentication failed: Invalid username or password"),
        ("|stranger|alice-pw", "Authentication failed: Invalid username or password"),
        (
            "bob|alice|alice-pw",
            "Authentication failed: Client requested an authorization id that is different from username",
        ),
    ],
)
def test_plain_refuses_with_kafkas_texts(token: str, text: str) -> None:
    with pytest.raises(AuthenticationFailed) as caught:
        plain(USERS)(token.replace("|", "\0").encode())
    assert str(caught.value) == text
    assert plain(USERS)(b"alice\0alice\0alice-pw") == (b"", SaslIdentity("alice"))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a.B required;", {}),
        ('a.B REQUIRED x="1" y=b-2.c /* c="d" */ // e=f\n "u@h"=\'z\' x="2";', {"x": "2", "y": "b-2.c", "u@h": "z"}),
        (r'a.B optional x="\"\\\n\q\101";', {"x": '"\\\nqA'}),
        ("", "Login module not specified in JAAS config"),
        ("a.B", "Login module control flag not specified in JAAS config"),
        ("a.B bogus;", "Invalid login module control flag 'bogus' in JAAS config"),
        ("a.B required x=y", "JAAS config entry not terminated by semi-colon"),
        ("a.B required user_alice=12345;", "Value not specified for key 'user_alice' in JAAS config"),
        ("a.B required password=sword fish=;", "Value not specified for a key in JAAS config"),
        ("a.B required; c.D required;", "JAAS config property contains 2 login modules, should be 1 module"),
    ],
)
def test_jaas_texts_are_parsed_as_java_parses_them(text: str, found: dict[str, str] | str) -> None:
    if isinstance(found, str):
        with pytest.raises(ValueError) as caught:
            parse_jaas(text)
        assert str(caught.value) == found
    else:
        entry = parse_jaas(text)
        assert (entry.module, {name: entry.option(name) for name in entry.options}) == ("a.B", found)


def test_no_text_and_no_trace_shows_a_secret() -> None:
    entry = parse_jaas('a.B required password="swordfish";')
    request = SaslAuthenticateRequest(2, Secret(b"swordfish"))
    assert "swordfish" not in f"{entry} {request!r} {USERS} {encode(request)}"
    assert decode(*encode(request)).version == 2
