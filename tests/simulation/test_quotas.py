"""Users use more than their quotas: the unchanged code throttles them, and bugs of the throttling are found."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from actors.core.client_quotas import ClientQuotas
from actors.gateway.memory_network import MemoryListener
from actors.simulation.actions import QUOTAS, invent
from actors.simulation.run import run
from actors.simulation.schedule import parse

SCHEDULE = """brokers 2
duration 40
records yes
clock 0 0.99
2 create t 0,1
4 limit spender0 user producer_byte_rate 1000
4 limit spender0 user consumer_byte_rate 500
4 limit spender1 user producer_byte_rate 500
12 spend t 0 spender0 for 26
12 spend t 0 spender1 for 26
20 limit spender1 user producer_byte_rate none
"""
MORE, LONGER, MUTED = (
    "a user gets no more than its quota",
    "a user is throttled for no longer than it must",
    "a throttled user is muted",
)


def throttle_by(factor: float) -> Callable[[pytest.MonkeyPatch], None]:
    charge = ClientQuotas.charge

    def charge_wrongly(self: ClientQuotas, *arguments: object) -> int:
        return round(charge(self, *arguments) * factor)  # type: ignore[arg-type]

    return lambda patch: patch.setattr(ClientQuotas, "charge", charge_wrongly)


def keep_removed_quotas(patch: pytest.MonkeyPatch) -> None:
    configure = ClientQuotas.configure
    patch.setattr(ClientQuotas, "configure", lambda self, quotas: configure(self, [q for q in quotas if q.entries]))


def mute_no_user(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MemoryListener, "_muted_for", lambda self, exchange: 0.0)


@pytest.mark.parametrize(
    ("change", "violated"),
    [
        (lambda patch: None, ""),
        (throttle_by(0.0), MORE),
        (throttle_by(100.0), LONGER),
        (keep_removed_quotas, LONGER),
        (mute_no_user, MUTED),
    ],
    ids=["the unchanged code", "no throttle time", "too much of it", "removed quotas stay", "no mute"],
)
def test_a_schedule_tells_bugs_from_the_code(
    change: Callable[[pytest.MonkeyPatch], None], violated: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    change(monkeypatch)
    violation = run(parse(SCHEDULE)).violation
    assert ("" if violation is None else violation.invariant) == violated


@pytest.mark.soak
@pytest.mark.long
def test_a_seed_with_quotas_has_throttled_users(monkeypatch: pytest.MonkeyPatch) -> None:
    throttle_by(0.0)(monkeypatch)
    assert any(run(invent(seed, faults=(QUOTAS,), records=True, duration=40.0)).violation for seed in range(5))
