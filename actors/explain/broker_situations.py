"""Tables of verdicts (short diagnoses) about brokers, controllers and clusters, and functions to select one.

The rows are in the order of importance. `kafka-actors why` prints the first that applies.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import islice

from actors.explain import partition_situations
from actors.explain.causes import gone_at_end
from actors.explain.situation import Remedy, Seen, Situation, last_of, quiet
from messages.cluster import TopicPartition
from messages.error_names import name_of
from messages.facts import declarations
from messages.facts.declarations import NodeRun, TracePosition
from messages.facts.histories import absences, created_after, is_registered, pending_deletion, state_history
from messages.facts.trace_facts import TraceFacts

# ------------------------------------------------------------------------------------------------------------- brokers


def _broker_is_gone(facts: TraceFacts, broker: int) -> Seen | None:
    gone = gone_at_end(facts, broker)
    return None if gone is None else Seen(gone, since=gone.since)


def _id_taken(facts: TraceFacts, broker: int) -> Seen | None:
    taken = facts.select(declarations.RegistrationTaken, node=broker)
    if not taken or _registered_later(facts, taken[-1].place):
        return None
    failed = facts.select(declarations.NodeFailure, run=taken[-1].place.run)
    return Seen(failed[-1] if failed else taken[-1], since=taken[-1].place.at)


def _registered_later(facts: TraceFacts, place: TracePosition) -> bool:
    node_runs: list[NodeRun] = facts.select(declarations.NodeRun, run=place.run)
    return any(at > place.at for node_run in node_runs for _, at in node_run.registered)


def _lags(facts: TraceFacts, broker: int) -> Seen | None:
    """Find a partition whose ISR still lacks this broker after a leader reported the broker as lagging."""
    if not is_registered(facts, broker):
        return None
    lagged = dict.fromkeys(
        each.partition for each in reversed(facts.select(declarations.FollowerLagged)) if each.broker == broker
    )
    for partition in islice(lagged, partition_situations.MOST_CANDIDATES):
        seen = partition_situations.out_of_sync(facts, partition)
        if seen is not None and seen.values["broker"] == broker:
            return seen._replace(values={**seen.values, "partition": partition})
    return None


def _shutdown_refused(facts: TraceFacts, broker: int) -> Seen | None:
    refused = facts.select(declarations.RequestRefused, subject=broker, request="ControlledShutdown")
    if not refused:
        return None
    left = refused[-1].left
    what = f"{len(left)} of its partitions could not get another leader" if left else name_of(refused[-1].code)
    return Seen(refused[-1], {"what": what}, refused[-1].place.at)


def _is_needed_still(facts: TraceFacts, seen: Seen) -> bool:
    """Return whether the broker still leads one of the partitions, without another replica in the ISR."""
    broker = seen.fact.subject
    histories = [history for each in seen.fact.left if (history := state_history(facts, each))]
    return any((history[-1].leader, history[-1].isr) == (broker, (broker,)) for history in histories)


def _was_gone(facts: TraceFacts, broker: int) -> Seen | None:
    """Find the last ended interval in which the broker was not registered."""
    ended = [(each, each.back) for each in absences(facts, broker) if each.back is not None]
    return Seen(ended[-1][0], since=ended[-1][0].since, until=ended[-1][1].at) if ended else None


def _is_alive(facts: TraceFacts, broker: int) -> Seen | None:
    alive = [each for each in facts.select(declarations.BrokersRead) if broker in each.brokers]
    return Seen(None, since=alive[0].place.at) if alive else None


# ---------------------------------------------------------------------------------------------------------- controller


def _no_controller(facts: TraceFacts, _: object) -> Seen | None:
    """Find the end of the last term. The end of a killed process counts only if another node noticed it."""
    end = facts.terms[-1].ended if facts.terms else None
    if end is not None and "killed" in end.why:
        noticed = [each for each in facts.select(declarations.ControllerZnodeDeleted) if each.place.node != end.broker]
        end = end if noticed and noticed[-1].place > end.place else None
    return None if end is None else Seen(end, since=end.place.at)


def _controller_changed(facts: TraceFacts, _: object) -> Seen | None:
    begun = facts.select(declarations.ControllerElected)
    if len(begun) < 2:
        return None
    return Seen(begun[-1], {"before": begun[-2].broker}, begun[-1].place.at)


def _one_controller(facts: TraceFacts, _: object) -> Seen | None:
    begun = facts.select(declarations.ControllerElected)
    return Seen(None, {"broker": begun[-1].broker, "epoch": begun[-1].epoch}, begun[-1].place.at) if begun else None


# ------------------------------------------------------------------------------------------------------------- cluster


def _partitions_with_events(facts: TraceFacts, _: object) -> Iterator[TopicPartition]:
    changed = {partition for partition, states in facts.states.items() if len(states) > 1}
    changed |= {each.partition for each in facts.select(declarations.StateChangeRefused)}
    topics = dict.fromkeys(partition.topic for partition in changed)
    created = {
        topic: created_after(facts, topic)
        for topic in topics
        if not pending_deletion(facts, topic) and not partition_situations.is_deleted(facts, topic)
    }

    def exists(partition: TopicPartition) -> bool:
        states = facts.states.get(partition)
        return partition.topic in created and (states is None or states[-1].place > created[partition.topic])

    yield from partition_situations.most_troubled(facts, filter(exists, changed))


_any_partition = partial(partition_situations.in_any, _partitions_with_events)


def _any_broker(facts: TraceFacts, _: object) -> Seen | None:
    reads = facts.select(declarations.BrokersRead)
    seen = {broker for each in reads for broker in each.brokers}
    for broker in sorted(seen.difference(*(each.brokers for each in reads[-1:]))):
        found = _broker_is_gone(facts, broker)
        if found is not None:
            return found._replace(values={"subject": broker})
    return None


BROKER_IS_GONE = Situation(_broker_is_gone, "broker {subject} has been gone since {since}{why}", True)

BROKER = (
    BROKER_IS_GONE,
    Situation(_id_taken, "a process of broker {subject} was refused at {since}{why}", True),
    Situation(
        _lags,
        "broker {subject} is alive, but has been out of the ISR {isr} of {partition} since {since}{why}",
        True,
        (Remedy("Find out why broker {subject} does not fetch."),),
    ),
    Situation(
        _shutdown_refused,
        "the controlled shutdown of broker {subject} was refused at {since}: {what}",
        True,
        (Remedy("Bring other replicas of these partitions into the ISR first.", _is_needed_still),),
    ),
    Situation(_was_gone, "broker {subject} was gone from {since} to {until} ({seconds:.1f} s){why}"),
    Situation(
        last_of(lambda facts, broker: facts.select(declarations.FollowerLagged, broker=broker)),
        "broker {subject} was removed from the ISR of {partition} at {since}{why}",
    ),
    Situation(_is_alive, "broker {subject} has been alive for the controllers since {since}"),
    Situation(quiet, "no controller in this trace has seen broker {subject}"),
)

CONTROLLER_CHANGED = Situation(
    _controller_changed, "broker {broker} has been controller (epoch {epoch}) since {since}, after broker {before}{why}"
)

CONTROLLER = (
    Situation(
        _no_controller,
        "there has been no controller since {since}, when the term of broker {broker} ended{why}",
        True,
    ),
    CONTROLLER_CHANGED,
    Situation(_one_controller, "broker {broker} has been controller (epoch {epoch}) since {since}"),
    Situation(quiet, "no controller was elected in this trace"),
)

CLUSTER = (
    _any_partition(partition_situations.OF_PARTITIONS[0]),
    _any_partition(partition_situations.NEVER_LED),
    _any_partition(partition_situations.OF_PARTITIONS[1]),
    BROKER_IS_GONE._replace(find=_any_broker),
    *map(_any_partition, partition_situations.OF_PARTITIONS[2:8]),
    CONTROLLER_CHANGED,
    Situation(quiet, "all brokers are alive, and no partition lacks a leader or a replica"),
)
