"""LE1-LE13 of controller.md 9.8: the leader that each strategy elects."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.core.controller import elections
from actors.core.controller.elections import Candidates, Choice, Strategy


def elect(
    strategy: Strategy,
    assigned: Sequence[int],
    isr: Sequence[int],
    live: Sequence[int],
    down: Sequence[int] = (),
    unclean: bool = False,
) -> Choice | None:
    online = frozenset(b for b in live if b not in down)
    return strategy(Candidates(assigned, isr, online, frozenset(live), down, assigned, unclean))


@pytest.mark.parametrize(
    ("strategy", "assigned", "isr", "live", "down", "unclean", "leader"),
    [
        pytest.param(elections.offline, [2, 4], [2, 4], [4], [], False, 4, id="LE1"),
        pytest.param(elections.offline, [2, 4], [2], [4], [], False, None, id="LE2"),
        pytest.param(elections.offline, [2, 4], [2], [4], [], True, 4, id="LE3"),
        pytest.param(elections.reassign, [2, 4], [2, 4], [4], [], False, 4, id="LE4"),
        pytest.param(elections.reassign, [2, 4], [2], [], [], False, None, id="LE5"),
        pytest.param(elections.reassign, [2, 4], [], [2], [], False, None, id="LE6"),
        pytest.param(elections.elect_preferred, [2, 4], [2, 4], [2, 4], [], False, 2, id="LE7"),
        pytest.param(elections.elect_preferred, [2, 4], [2], [], [], False, None, id="LE8"),
        pytest.param(elections.elect_preferred, [2, 4], [4], [2, 4], [], False, None, id="LE9"),
        pytest.param(elections.elect_preferred, [2, 4], [], [], [], False, None, id="LE10"),
        pytest.param(elections.controlled_shutdown, [2, 4], [2, 4], [2, 4], [2], False, 4, id="LE11"),
        pytest.param(elections.controlled_shutdown, [2, 4], [2], [2, 4], [2], False, None, id="LE12"),
        pytest.param(elections.controlled_shutdown, [2, 4], [2, 4], [2, 4], [2, 4], False, None, id="LE13"),
    ],
)
def test_the_leader_is_the_one_that_kafka_elects(
    strategy: Strategy,
    assigned: list[int],
    isr: list[int],
    live: list[int],
    down: list[int],
    unclean: bool,
    leader: int | None,
) -> None:
    choice = elect(strategy, assigned, isr, live, down, unclean)
    assert (choice and choice.leader) == leader
    assert choice is None or choice.unclean is unclean


def test_the_new_isr_and_its_receivers() -> None:
    assert elect(elections.offline, [1, 2, 3], [3, 2, 1], [2, 3]) == Choice(2, (3, 2), (2, 3))
    assert elect(elections.offline, [1, 2, 3], [1], [2, 3], unclean=True) == Choice(2, (2,), (2, 3), unclean=True)
    assert elect(elections.elect_preferred, [1, 2, 3], [3, 1], [1, 3]) == Choice(1, (3, 1), (1, 2, 3))
    assert elect(elections.controlled_shutdown, [1, 2, 3], [1, 2], [1, 2], down=[1]) == Choice(2, (2,), (1, 2))


BROKERS = st.lists(st.integers(1, 5), unique=True, max_size=5)


MAY_LEAD: dict[Strategy, Callable[[Candidates, int], bool]] = {
    elections.offline: lambda c, broker: broker in c.online,
    elections.reassign: lambda c, broker: broker in c.online,
    elections.elect_preferred: lambda c, broker: broker in c.online and broker == c.replicas[0],
    elections.controlled_shutdown: lambda c, broker: broker in c.reachable and broker not in c.shutting_down,
}
"""Whether an assigned broker in the ISR may lead, by strategy (controller.md 3.2)."""


@given(strategy=st.sampled_from(list(MAY_LEAD)), assigned=BROKERS, unclean=st.booleans(), data=st.data())
def test_the_first_that_may_lead_does(
    strategy: Strategy, assigned: list[int], unclean: bool, data: st.DataObject
) -> None:
    """The first assigned broker in the ISR that may lead is elected.

    A broker outside the ISR is elected only in an unclean election, and only if none in the ISR may lead.
    """
    isr = data.draw(st.permutations(assigned).flatmap(lambda some: st.sampled_from([some, some[:1], []])))
    live, down = data.draw(BROKERS), data.draw(BROKERS)
    online = frozenset(live) - frozenset(down)
    candidates = Candidates(assigned, isr, online, frozenset(live), down, assigned, unclean)
    clean = [broker for broker in assigned if broker in isr and MAY_LEAD[strategy](candidates, broker)]
    anybody = [broker for broker in assigned if unclean and strategy is elections.offline and broker in online]
    choice = strategy(candidates)
    assert (choice and choice.leader) == next(iter(clean or anybody), None)
    if choice is not None:
        assert choice.leader in choice.isr and choice.leader in choice.recipients
        assert choice.unclean is not bool(clean)
        assert set(choice.isr) <= set(isr) if clean else choice.isr == (choice.leader,)
