"""The four strategies that elect a partition's leader (controller.md 3.2).

Rule 1: candidates are looked at in the order of the assignment, so that its head is preferred.
Rule 2: a leader comes out of the ISR, except in an unclean election, which is allowed per topic and loses records.
Rule 3: the leader epoch grows by one at every election, also when the leader stays.

Kafka: `PartitionLeaderElectionAlgorithms`, `Election`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import attrs


@attrs.frozen
class Candidates:
    """The input of a leader election: the partition's replicas, its ISR, its target replicas, and the live replicas.

    `online` are the replicas that are alive, not shutting down and on a working log directory; `reachable` are those
    that are alive or shutting down. `unclean`: may a replica outside the ISR lead?
    """

    replicas: Sequence[int]
    isr: Sequence[int]
    online: Collection[int]
    reachable: Collection[int]
    shutting_down: Collection[int] = ()
    target: Sequence[int] = ()
    unclean: bool = False


@attrs.frozen
class Choice:
    """The result of a leader election: the leader, the new ISR, and the brokers that get a LeaderAndIsr request."""

    leader: int
    isr: tuple[int, ...]
    recipients: tuple[int, ...]
    unclean: bool = False


Strategy = Callable[[Candidates], Choice | None]
"""None: no replica can lead."""


def offline(c: Candidates) -> Choice | None:
    """For a partition without leader: the first online replica of the ISR; else, if unclean, the first online one."""
    recipients = tuple(r for r in c.replicas if r in c.online)
    for replica in recipients:
        if replica in c.isr:
            return Choice(replica, tuple(r for r in c.isr if r in c.online), recipients)
    if c.unclean and recipients:
        return Choice(recipients[0], (recipients[0],), recipients, unclean=True)
    return None


def reassign(c: Candidates) -> Choice | None:
    """For a leader that a reassignment moves away: the first of the target that is online and in the ISR."""
    for replica in c.target:
        if replica in c.online and replica in c.isr:
            return Choice(replica, tuple(c.isr), tuple(c.target))
    return None


def preferred(c: Candidates) -> Choice | None:
    """Back to the head of the assignment, if it is online and in the ISR."""
    head = c.replicas[0] if c.replicas else None
    if head is not None and head in c.online and head in c.isr:
        return Choice(head, tuple(c.isr), tuple(c.replicas))
    return None


def controlled_shutdown(c: Candidates) -> Choice | None:
    """Away from brokers that shut down: the first of the ISR that stays. Brokers in shutdown leave the ISR, but are
    notified."""
    for replica in c.replicas:
        if replica in c.reachable and replica in c.isr and replica not in c.shutting_down:
            staying = tuple(r for r in c.isr if r not in c.shutting_down)
            return Choice(replica, staying, tuple(r for r in c.replicas if r in c.reachable))
    return None


NAMES: dict[Strategy, str] = {
    offline: "OfflinePartitionLeaderElectionStrategy",
    reassign: "ReassignPartitionLeaderElectionStrategy",
    preferred: "PreferredReplicaPartitionLeaderElectionStrategy",
    controlled_shutdown: "ControlledShutdownPartitionLeaderElectionStrategy",
}
"""Strategy -> the name that log lines use."""
