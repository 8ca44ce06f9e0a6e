"""Client quotas at fixed times: which applies, how long it throttles, and the two APIs (`client_quotas`)."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.core.client_quotas import ClientQuotas, alteration, describe_quotas, precedence
from actors.core.refusal import Refused
from messages.apis.alter_client_quotas import QuotaAlteration, QuotaChange
from messages.apis.describe_client_quotas import ANY, CLIENT_ID, EXACT, NO_NAME, USER, QuotaFilter, QuotaName
from messages.client_quotas import (
    DEFAULT,
    FETCH,
    PRODUCE,
    REQUEST,
    ClientQuota,
    QuotaEntity,
    desanitize,
    entity_at,
    sanitize,
)
from messages.cluster import ConfigEntry
from messages.errors import INVALID_REQUEST, UNSUPPORTED_VERSION


def quotas(*of: tuple[str, str, float]) -> ClientQuotas:
    """Return the quotas of these (path, quota, value), with Kafka's windows."""
    made = ClientQuotas(11, 1)
    made.configure(quota(*each) for each in of)
    return made


def quota(path: str, name: str, value: float | None) -> ClientQuota:
    entity = entity_at(path)
    assert entity is not None and str(entity) == path
    return ClientQuota(entity, () if value is None else (ConfigEntry(name, str(value)),))


PATHS = (
    *("users/u/clients/c", "users/u/clients/<default>", "users/u", "users/<default>/clients/c"),
    *("users/<default>/clients/<default>", "users/<default>", "clients/c", "clients/<default>"),
)
"""The entities of client c of user u, in the order of Kafka's documentation."""


def test_the_first_configured_quota_applies() -> None:
    assert [str(entity) for entity, _ in precedence("u", "c")] == list(PATHS)
    for count in range(len(PATHS) + 1):
        for configured in combinations(PATHS, count):
            made = quotas(*((path, FETCH, 10 * (PATHS.index(path) + 1)) for path in configured))
            bound = made.most_fetched("u", "c")
            assert bound == (100 * (PATHS.index(configured[0]) + 1) if configured else None)
    for path in PATHS:
        assert (quotas((path, FETCH, 1)).most_fetched("u", "") is None) == ("clients" in path)
    made = quotas(*((path, FETCH, 1) for path in PATHS))
    for path in PATHS:
        made.configure([quota(path, FETCH, None)])
    assert not made.limits(FETCH) and made.most_fetched("u", "c") is None


@pytest.mark.parametrize(
    ("path", "shared"),
    [(path, {("u", "c"), ("u", "d")}) for path in ("users/u", "users/<default>")]
    + [(path, {("u", "c"), ("v", "c")}) for path in ("clients/c", "clients/<default>")]
    + [(path, {("u", "c")}) for path in PATHS if path.startswith("users") and "clients" in path],
)
def test_who_shares_a_quota(path: str, shared: set[tuple[str, str]]) -> None:
    made = quotas((path, PRODUCE, 10))
    assert made.charge(PRODUCE, "u", "c", 1000, 0.0) > 0
    clients = [(user, client) for user in "uv" for client in "cd"]
    assert {each for each in clients if made.charge(PRODUCE, *each, 0, 0.1) > 0} == shared


@pytest.mark.parametrize(
    ("bound", "used", "delays"),
    [
        # as measured on Apache 3.9.1
        (1000, ((0.0, 5100), (0.01, 5000), (0.12, 5000)), (0, 90, 4980)),
        (1000, ((0.0, 10000), (5.0, 0), (9.5, 5000)), (0, 0, 4500)),
        (2000, ((0.0, 20077), (0.039, 0)), (38, 0)),
        (10, ((0.0, 1000), (99.0, 0)), (90_000, 0)),
        (0, ((0.0, 1),), (2**31 - 1,)),
    ],
)
def test_the_throttle_time_brings_the_rate_down_to_the_quota(
    bound: float, used: tuple[tuple[float, float], ...], delays: tuple[int, ...]
) -> None:
    made = quotas(("clients/c", PRODUCE, bound))
    found = [made.charge(PRODUCE, "u", "c", amount, now) for now, amount in used]
    assert found == pytest.approx(delays, abs=1)


@pytest.mark.parametrize("size", [10, 300, 1000, 4000])
def test_a_client_that_waits_the_throttle_time_keeps_its_quota(size: int) -> None:
    made, now, sent = quotas(("clients/<default>", PRODUCE, 1000)), 0.0, 0
    while now < 300:
        sent += size if now >= 100 else 0
        now += 0.001 + made.charge(PRODUCE, "u", "c", size, now) / 1000
    assert sent / 200 == pytest.approx(1000, rel=0.1)


def test_request_time_throttles_for_one_sample_at_most() -> None:
    made = quotas(("users/u", REQUEST, 1))
    assert made.charge(REQUEST, "u", "c", 100 * 0.01, 0.0) == 0, "10 ms are 0.1 % of the window"
    assert made.charge(REQUEST, "u", "c", 100 * 60.0, 0.0) == 1000


def test_what_was_not_sent_is_taken_back() -> None:
    made = quotas(("clients/c", FETCH, 100))
    assert made.charge(FETCH, "u", "c", 2000, 0.0) == 10_000
    made.take_back(FETCH, "u", "c", 2000, 0.0)
    assert made.charge(FETCH, "u", "c", 1000, 0.1) == 0
    assert made.charge(PRODUCE, "u", "c", 10**9, 0.1) == 0, "each quota has its own clients"


def test_many_names_of_clients_are_not_kept() -> None:
    made = quotas(("clients/<default>", PRODUCE, 1000))
    for number in range(10_000):
        made.charge(PRODUCE, "u", f"c{number}", 1, number / 100)
    assert len(made._used) < 3000 and len(made._applied) < 3000


@given(st.text(st.characters(exclude_categories=("Cs",))))
def test_a_sanitized_name_is_a_part_of_a_path(name: str) -> None:
    text = sanitize(name)
    assert desanitize(text) == name
    assert "/" not in text and text != DEFAULT
    assert sanitize("a b*~<é>") == "a%20b%2A%7E%3C%C3%A9%3E"


def altered(*names: tuple[str, str | None], **values: float | None) -> QuotaAlteration:
    changes = tuple(QuotaChange(key, value or 0.0, value is None) for key, value in values.items())
    return QuotaAlteration(tuple(QuotaName(*each) for each in names), changes)


def test_an_alteration_names_an_entity_and_texts() -> None:
    asked = altered((CLIENT_ID, None), (USER, "a b"), producer_byte_rate=1e3, request_percentage=50.5, nope=None)
    assert alteration(asked) == (
        QuotaEntity("a%20b", DEFAULT),
        {"producer_byte_rate": "1000", "request_percentage": "50.5", "nope": None},
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.0, "1.0"), (0.001, "0.001"), (0.00025, "2.5E-4"), (12345678.9, "1.23456789E7"), (1e22, "1.0E22")],
)
def test_a_percentage_is_written_as_by_java(value: float, text: str) -> None:
    asked = altered((CLIENT_ID, "first"), (CLIENT_ID, "last"), request_percentage=value)
    assert alteration(asked) == (QuotaEntity(None, "last"), {"request_percentage": text})


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        (altered(producer_byte_rate=1), "Invalid empty client quota entity"),
        (altered(("host", "a"), producer_byte_rate=1), "Unhandled client quota entity type: host"),
        (altered((CLIENT_ID, ""), producer_byte_rate=1), "Empty client-id not supported"),
        (altered((CLIENT_ID, "a"), nope=1), "Invalid configuration key nope"),
        (altered((CLIENT_ID, "a"), controller_mutation_rate=1), "Invalid configuration key controller_mutation_rate"),
        (
            altered((CLIENT_ID, "a"), producer_byte_rate=0.5),
            "Configuration producer_byte_rate must be a LONG value",
        ),
        (altered((USER, "a"), consumer_byte_rate=-1), "Configuration consumer_byte_rate must be a LONG value"),
        (altered((USER, "a"), consumer_byte_rate=1e20), "Configuration consumer_byte_rate must be a LONG value"),
        (
            altered((USER, "a"), request_percentage=float("nan")),
            "Configuration request_percentage must be a DOUBLE value",
        ),
    ],
)
def test_an_invalid_alteration_is_refused(asked: QuotaAlteration, text: str) -> None:
    with pytest.raises(Refused) as refused:
        alteration(asked)
    assert (refused.value.code, str(refused.value)) == (INVALID_REQUEST, text)


KNOWN = ("clients/a", "clients/<default>", "users/u", "users/u/clients/a", "users/u/clients/<default>")


@pytest.mark.parametrize(
    ("filters", "strict", "found"),
    [
        ((), False, KNOWN),
        ((), True, ()),
        ((QuotaFilter(CLIENT_ID, ANY),), False, (*KNOWN[:2], *KNOWN[3:])),
        ((QuotaFilter(CLIENT_ID, ANY),), True, KNOWN[:2]),
        ((QuotaFilter(CLIENT_ID, NO_NAME),), False, (KNOWN[1], KNOWN[4])),
        ((QuotaFilter(CLIENT_ID, EXACT, "a"),), True, (KNOWN[0],)),
        ((QuotaFilter(CLIENT_ID, EXACT, "<default>"),), False, ()),
        ((QuotaFilter(USER, EXACT, "u"), QuotaFilter(CLIENT_ID, ANY)), True, KNOWN[3:]),
    ],
)
def test_a_filter_selects_entities(filters: tuple[QuotaFilter, ...], strict: bool, found: tuple[str, ...]) -> None:
    known = (*(quota(path, PRODUCE, 5) for path in KNOWN), quota("users/none", PRODUCE, None))
    assert describe_quotas(known, filters, strict) == describe_quotas(
        [quota(path, PRODUCE, 5) for path in found], (), False
    )


@pytest.mark.parametrize(
    ("kinds", "code", "text"),
    [
        ((USER, USER), INVALID_REQUEST, "Duplicate user filter component entity type"),
        ((CLIENT_ID, CLIENT_ID), INVALID_REQUEST, "Duplicate client filter component entity type"),
        (("",), INVALID_REQUEST, "Unexpected empty filter component entity type"),
        (("ip",), UNSUPPORTED_VERSION, "Custom entity type 'ip' not supported"),
    ],
)
def test_an_invalid_filter_is_refused(kinds: tuple[str, ...], code: int, text: str) -> None:
    with pytest.raises(Refused) as refused:
        describe_quotas((), [QuotaFilter(kind, ANY) for kind in kinds], False)
    assert (refused.value.code, str(refused.value)) == (code, text)
