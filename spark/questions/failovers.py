"""Sections of a summary about failovers: failed nodes, leaders, elections, ISRs, and the time without a leader.

They are computed from the facts of all nodes (`messages.facts.histories`), as the answers of `why` are, so both agree
to the delivery.

Rule 1: a broker is gone from the event by which a controller noticed it. It died with its process, or else then.
Rule 2: a leader changes when ZooKeeper stores the state; a new epoch alone is no change. A topic that is created again
        has new partitions.
Rule 3: an election is clean if the new leader was in the ISR of the replaced state. An unclean election leaves only the
        leader in the ISR.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import groupby, pairwise
from typing import NamedTuple

from messages.cluster import NO_LEADER, TopicPartition
from messages.facts import histories
from messages.facts.declarations import BrokerGone, Outage, ReplicasAssigned, StateWrite, TracePosition
from messages.facts.trace_facts import TraceFacts, cache_with_facts, group_by
from spark.questions import INTERNAL
from spark.results import QueryResult, table

BEING_DELETED = -2
"""The leader of a partition whose topic is being deleted."""
EXAMPLES = 5
"""Maximum number of partitions named in a group."""


class LostLeader(NamedTuple):
    """An outage, and the absence of the broker that caused it; None if no broker failed."""

    outage: Outage
    gone: BrokerGone | None

    @property
    def over_at(self) -> float | None:
        """When the partition had a leader again or was being deleted; None if neither."""
        return None if self.outage.until == math.inf else self.outage.until

    @property
    def seconds(self) -> float:
        """The length of the outage; 0 if it is not over."""
        return 0.0 if self.over_at is None else self.over_at - self.outage.since


@cache_with_facts
def deaths(facts: TraceFacts) -> list[BrokerGone]:
    """Return the absences of all brokers, in the order in which controllers noticed them."""
    found = [gone for broker in facts.absences for gone in histories.absences(facts, broker)]
    return sorted(found, key=lambda gone: (gone.noticed.at, gone.broker))


@cache_with_facts
def lost_leaders(facts: TraceFacts) -> list[LostLeader]:
    """Return the outages of all partitions, in order of time."""
    outages = (each for history in _histories(facts) for each in histories.outages_in(facts, history))
    return [LostLeader(each, _death(facts, each)) for each in sorted(outages, key=lambda each: each.since)]


def _histories(facts: TraceFacts) -> Iterator[list[StateWrite]]:
    """Yield the states of each partition, those before and after a deletion of its topic apart."""
    for partition in sorted(facts.states):
        yield from histories.incarnations(facts, partition)


def _death(facts: TraceFacts, outage: Outage) -> BrokerGone | None:
    for gone in histories.absences(facts, outage.led.leader):
        is_same = gone.event is not None and gone.event == outage.first.event
        if gone.since <= outage.since and (is_same or gone.back is None or outage.first.place < gone.back):
            return gone
    return None


def elections(facts: TraceFacts) -> QueryResult:
    """List the elections that controllers won, in order of time: at, node, epoch."""
    return table("at node epoch", ((term.place.at, term.place.node, term.epoch) for term in facts.terms))


def episodes(facts: TraceFacts) -> QueryResult:
    """Summarise the time in which a broker was gone, in order of time.

    Returns:
        broker, died_at, ending (of the broker's last run; null: the run is not in these traces, or continues), seen_s
        (from the death until a controller noticed it), seen_by (that controller), `after` (the class of the event by
        which the controller noticed it; Elected for its election), was_controller, partitions (number that the broker
        led), led_again_s (from the death until the last of these partitions had a leader again), still_leaderless
        (number of these partitions without a leader at the end of the traces), p50_s and p99_s (time without a leader),
        partition_seconds (total time without a leader), back_at (when a controller first saw the broker again; null:
        never), topics (number of the partitions' topics).
    """
    columns = (
        "broker died_at ending seen_s seen_by after was_controller partitions led_again_s still_leaderless p50_s p99_s"
        " partition_seconds back_at topics"
    )
    by_death = group_by(lost_leaders(facts), lambda lost: lost.gone)
    return table(columns, (_episode(facts, gone, by_death.get(gone, [])) for gone in deaths(facts)))


def _episode(facts: TraceFacts, gone: BrokerGone, mine: list[LostLeader]) -> tuple[object, ...]:
    node_run = histories.ended_run(facts, gone.broker, gone.noticed)
    reigned = [term.broker for term in facts.terms if term.place.at <= gone.since]
    is_change = gone.event is not None and gone.event.kind == "BrokerChange"
    times = sorted(each.seconds for each in mine if each.over_at is not None)
    led = [each.outage.until for each in mine if each.outage.after is not None]
    return (
        *(gone.broker, gone.since, None if node_run is None else node_run.ending, gone.noticed.at - gone.since),
        *(gone.by, "BrokerChange" if is_change else "Elected", reigned[-1:] == [gone.broker], len(mine)),
        *(max(led) - gone.since if led else None, sum(each.over_at is None for each in mine)),
        *(_percentile(times, 0.5), _percentile(times, 0.99), sum(times) if times else None),
        *(None if gone.back is None else gone.back.at, len({each.outage.partition.topic for each in mine})),
    )


def _percentile(times: list[float], share: float) -> float | None:
    """Return the percentile of sorted times, interpolated as Spark's `percentile` does."""
    if not times:
        return None
    place = (len(times) - 1) * share
    low, high = times[math.floor(place)], times[math.ceil(place)]
    return low + (high - low) * (place - math.floor(place))


def leadership(facts: TraceFacts) -> QueryResult:
    """List the changes of leadership in order of time.

    Returns:
        at, topic, partition, before (null if unknown), leader (-1: none, -2: being deleted), leader_epoch, node (of the
        controller), controller_epoch (null if its election is not recorded).
    """
    rows = []
    for history in _histories(facts):
        deleted = histories.being_deleted(facts, history)
        found = [(state.taken, state.place, state.leader, state.epoch) for state in history]
        if deleted is not None:
            found = [each for each in found if each[1] < deleted.place]
            found.append((deleted.place.at, deleted.place, BEING_DELETED, found[-1][-1]))
        before: int | None = None
        for at, place, leader, epoch in found:
            if leader != before:
                of_state = history[0].partition, before, leader, epoch
                rows.append((at, *of_state, place.node, _controller_epoch(facts, place)))
            before = leader
    rows.sort(key=lambda row: (row[0], row[1], row[4]))
    columns = "at topic partition before leader leader_epoch node controller_epoch"
    return table(columns, ((at, *partition, *rest) for at, partition, *rest in rows))


def _controller_epoch(facts: TraceFacts, place: TracePosition) -> int | None:
    terms = (term for term in reversed(facts.terms) if term.place.run == place.run and term.place <= place)
    return next((term.epoch for term in terms), None)


def leaderless(facts: TraceFacts) -> QueryResult:
    """Group the intervals without a leader by failed broker, start and end, in order of time.

    The intervals of a group start in the same tenth of a second, and end in the same tenth of a second.

    Returns:
        broker (the failed leader; null: no broker failed), lost_at (the earliest start in the group), over_at (the
        latest end in the group; null: not over), partitions (their number), topics (their number), examples (names of
        partitions).
    """
    rows = (
        ((None if gone is None else gone.broker,), outage.since, outage.until, outage.partition)
        for outage, gone in lost_leaders(facts)
    )
    return table(
        "broker lost_at over_at partitions topics examples",
        (
            (broker, begin, end, len(of), len({each.topic for each in of}), examples(of))
            for (broker,), begin, end, of in _group_intervals(rows)
        ),
    )


def out_of_isr(facts: TraceFacts) -> QueryResult:
    """List the intervals in which replicas were out of the ISR, in order of time.

    Each row groups replicas of one broker with the same `by`. Their intervals begin in the same tenth of a second, and
    end in the same tenth of a second. A replica that is not in the first ISR is out from then on. Replicas that a
    reassignment removed are not listed.

    Returns:
        broker (of the replicas), left_at, back_at (when the last of the replicas was back, or when the topic was being
        deleted; null: not back), by (the writer of the ISR: controller or leader), partitions (their number), examples
        (names of partitions).
    """
    rows = []
    for history in _histories(facts):
        partition, deleted = history[0].partition, histories.being_deleted(facts, history)
        assigned = facts.select(ReplicasAssigned, partition=partition)
        removed = {broker for each in assigned for broker in each.removing}
        before_it = [each for each in histories.deletions_of(facts, partition.topic) if each < history[0].place]
        first = next((each for each in assigned if each.place > max(before_it, default=histories.NO_POSITION)), None)
        wanted = set() if first is None else set(first.replicas) - set(first.adding) - removed
        left = dict.fromkeys(wanted - set(history[0].isr), history[0])
        for before, after in pairwise(history):
            if deleted is not None and after.place > deleted.place:
                break
            for broker in set(before.isr) - set(after.isr) - removed:
                left[broker] = after
            for broker in left.keys() & set(after.isr):
                rows.append(((broker, _writer(left[broker])), left.pop(broker).taken, after.taken, partition))
        over = math.inf if deleted is None else deleted.place.at
        rows += [((broker, _writer(after)), after.taken, over, partition) for broker, after in left.items()]
    return table(
        "broker left_at back_at by partitions examples",
        ((broker, begin, end, by, len(of), examples(of)) for (broker, by), begin, end, of in _group_intervals(rows)),
    )


def _writer(state: StateWrite) -> str:
    return "controller" if state.by.startswith("controller") and not state.read else "leader"


_Interval = tuple[tuple[object, ...], float, float, TopicPartition]
"""A key, the begin and the end in seconds since 1970 (infinity: not over), and the partition."""


def _group_intervals(
    rows: Iterable[_Interval],
) -> Iterator[tuple[tuple[object, ...], float, float | None, list[TopicPartition]]]:
    """Yield groups of intervals with the same key that begin, and end, in the same tenth of a second."""

    def together(row: _Interval) -> tuple[object, ...]:
        key, begin, end, _ = row
        return begin * 10 // 1, end if end == math.inf else end * 10 // 1, str(key)

    for _, group in groupby(sorted(rows, key=together), together):
        keys, begins, ends, partitions = zip(*group, strict=True)
        yield keys[0], min(begins), None if math.inf in ends else max(ends), [*partitions]


def examples(partitions: Iterable[TopicPartition]) -> str:
    """Return the names of a group's first EXAMPLES partitions; internal topics are last."""
    named = sorted({(each.topic.startswith(INTERNAL), str(each)) for each in partitions})
    return ", ".join(name for _, name in named[:EXAMPLES])


def unavailable(facts: TraceFacts) -> QueryResult:
    """List the partitions that had no leader at some time.

    Internal topics come last. Of the others, partitions that still have no leader come first. Within each group, the
    order is `seconds`, descending.

    Returns:
        topic, partition, windows (number of periods without a leader), seconds (total length of the ended periods),
        longest_s (length of the longest ended period), still_leaderless (at the end of the traces), since_at (when the
        partition lost its leader; null: it has a leader).
    """
    by_partition = group_by(lost_leaders(facts), lambda lost: lost.outage.partition)
    rows = []
    for partition, lost in by_partition.items():
        seconds = [each.seconds for each in lost]
        since = min((each.outage.since for each in lost if each.over_at is None), default=None)
        rows.append((*partition, len(lost), sum(seconds), max(seconds), since is not None, since))
    rows.sort(key=lambda row: (row[0].startswith(INTERNAL), not row[5], -row[3], *row[:2]))
    return table("topic partition windows seconds longest_s still_leaderless since_at", rows)


def leader_elections(facts: TraceFacts) -> QueryResult:
    """Count elected leaders by the event that elected them; a partition's first leader is not counted.

    Returns:
        event (null if unknown), node, count, clean (the leader was in the replaced ISR), unclean.
    """
    counts: dict[tuple[str | None, int], list[int]] = {}
    for before, after in (pair for history in _histories(facts) for pair in pairwise(history)):
        if _writer(after) == "controller" and after.leader not in (NO_LEADER, before.leader):
            key = None if after.event is None else after.event.kind, after.place.node
            is_clean = after.leader in before.isr or len(after.isr) > 1
            counts.setdefault(key, [0, 0])[is_clean] += 1
    ordered = sorted(counts.items(), key=lambda item: (-sum(item[1]), item[0][0] or "", item[0][1]))
    rows = ((*key, clean + unclean, clean, unclean) for key, (unclean, clean) in ordered)
    return table("event node count clean unclean", rows)


def isr_churn(facts: TraceFacts) -> QueryResult:
    """Count changes of ISRs by partition.

    Returns:
        topic, partition, shrunk, grown, shrunk_by_controller (because a broker died or left, or a reassignment removed
        a replica), first_at, last_at; internal topics last, most changes first.
    """
    rows: dict[TopicPartition, list[float]] = {}
    for before, after in (pair for history in _histories(facts) for pair in pairwise(history)):
        shrunk, grown = not set(before.isr) <= set(after.isr), not set(after.isr) <= set(before.isr)
        if shrunk or grown:
            row = rows.setdefault(after.partition, [0, 0, 0, after.taken, 0.0])
            by_controller = shrunk and _writer(after) == "controller"
            row[:] = row[0] + shrunk, row[1] + grown, row[2] + by_controller, row[3], after.taken
    ordered = sorted(
        rows.items(), key=lambda item: (item[0].topic.startswith(INTERNAL), -item[1][0], -item[1][1], item)
    )
    columns = "topic partition shrunk grown shrunk_by_controller first_at last_at"
    return table(columns, ((*partition, *row) for partition, row in ordered))
