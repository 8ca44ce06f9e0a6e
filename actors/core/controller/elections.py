"""The four strategies that elect a partition's leader (controller.md 3.2).

Rule 1: Candidates are examined in the order of the assignment, so the preferred replica is first.
Rule 2: The leader is elected from the ISR, except in an unclean election, which is allowed per topic and loses records.
Rule 3: The leader epoch grows by one at every election, also if the leader stays.

Kafka: `PartitionLeaderElectionAlgorithms`, `Election`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from messages.vocabulary import value_class


@value_class
class Candidates:
    """The input of a leader election: the partition's replicas, its ISR, its target replicas, and the live replicas.

    `online` are the brokers that are alive, not shutting down, and without a failed log directory for the partition.
    `reachable` also includes the brokers that are shutting down. `unclean` allows a leader outside the ISR.
    """

    replicas: Sequence[int]
    isr: Sequence[int]
    online: Collection[int]
    reachable: Collection[int]
    shutting_down: Collection[int] = ()
    target: Sequence[int] = ()
    unclean: bool = False


@value_class
class Choice:
    """The result of a leader election: the leader, the new ISR, and the brokers that get a LeaderAndIsr request."""

    leader: int
    isr: tuple[int, ...]
    recipients: tuple[int, ...]
    unclean: bool = False


Strategy = Callable[[Candidates], Choice | None]
"""Election strategy; returns None if no replica can lead."""


def offline(c: Candidates) -> Choice | None:
    """Elect a leader for a partition without a leader: the first online replica of the ISR.

    If the ISR has no online replica and `unclean` is true, the first online replica is elected.
    """
    recipients = tuple(r for r in c.replicas if r in c.online)
    for replica in recipients:
        if replica in c.isr:
            return Choice(replica, tuple(r for r in c.isr if r in c.online), recipients)
    if c.unclean and recipients:
        return Choice(recipients[0], (recipients[0],), recipients, unclean=True)
    return None


def reassign(c: Candidates) -> Choice | None:
    """Elect a leader during a reassignment: the first target replica that is online and in the ISR."""
    for replica in c.target:
        if replica in c.online and replica in c.isr:
            return Choice(replica, tuple(c.isr), tuple(c.target))
    return None


def elect_preferred(c: Candidates) -> Choice | None:
    """Elect the preferred replica, if it is online and in the ISR."""
    head = c.replicas[0] if c.replicas else None
    if head is not None and head in c.online and head in c.isr:
        return Choice(head, tuple(c.isr), tuple(c.replicas))
    return None


def controlled_shutdown(c: Candidates) -> Choice | None:
    """Elect the first replica that is reachable, in the ISR, and not on a broker that is shutting down.

    Brokers that are shutting down leave the ISR, but still receive the LeaderAndIsr request.
    """
    for replica in c.replicas:
        if replica in c.reachable and replica in c.isr and replica not in c.shutting_down:
            staying = tuple(r for r in c.isr if r not in c.shutting_down)
            return Choice(replica, staying, tuple(r for r in c.replicas if r in c.reachable))
    return None


NAMES: dict[Strategy, str] = {
    offline: "OfflinePartitionLeaderElectionStrategy",
    reassign: "ReassignPartitionLeaderElectionStrategy",
    elect_preferred: "PreferredReplicaPartitionLeaderElectionStrategy",
    controlled_shutdown: "ControlledShutdownPartitionLeaderElectionStrategy",
}
"""Strategy -> its name in log lines."""
