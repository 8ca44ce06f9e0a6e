"""Check that the replicas and the metadata of an idle broker are consistent; simulations and tests call this.

The checks read every partition. They run after each controller request if `validate.state` is true, as in our tests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

from actors.core.broker.metadata_cache import ClusterView
from actors.core.broker.replica_manager import PartitionCounts
from messages.cluster import LEADER_DURING_DELETE, TopicPartition


class InconsistentBroker(Exception):
    """The state of a broker is inconsistent; the exception's message names the contradictions."""


def check(found: list[str]) -> None:
    """Raise InconsistentBroker if `found` is not empty."""
    if found:
        raise InconsistentBroker("; ".join(found))


def replica_disagreements(
    online: Collection[TopicPartition],
    offline: Collection[TopicPartition],
    counted_offline: int,
    counts: PartitionCounts,
) -> list[str]:
    """Return differences between the hosted partitions and their counts; empty if they agree."""
    found = []
    if len(offline) != counted_offline:
        found.append(f"{len(offline)} replicas are offline, {counted_offline} are counted")
    if unhosted := counts.leading.keys() - online:
        found.append(f"leaders that are not hosted: {sorted(unhosted)}")
    flagged = Counter(flag for flags in counts.leading.values() for flag in flags)
    found += [
        f"{flagged[flag]} leaders are in {flag}, {count} are counted"
        for flag, count in counts.troubled.items()
        if count != flagged[flag]
    ]
    return found


def log_disagreements(
    offline: Collection[TopicPartition],
    homes: Mapping[tuple[str, int], str],
    live: Collection[str],
) -> list[str]:
    """Return differences between the hosted partitions and the places of their logs; empty if they agree."""
    found = [f"the log of {partition} lies in {home}" for partition, home in homes.items() if home not in live]
    found += [f"{partition} is offline, and has a log" for partition in offline if partition in homes]
    return found


def view_disagreements(view: ClusterView) -> list[str]:
    """Return violations of rules 1 and 2 of the metadata cache; empty if the view is valid."""
    found = [f"topic {topic} has no partitions" for topic, partitions in view.topics.items() if not partitions]
    for topic, partitions in view.topics.items():
        for number, state in partitions.items():
            if state.partition != (topic, number):
                found.append(f"{topic}-{number} is kept as {state.partition}")
            if state.leader == LEADER_DURING_DELETE:
                found.append(f"{state.partition} is being deleted")
    found += [f"broker {broker.id} is kept as {id}" for id, broker in view.brokers.items() if broker.id != id]
    return found
