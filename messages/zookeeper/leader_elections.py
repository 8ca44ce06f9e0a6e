"""Leader election requests of admin tools: /admin/preferred_replica_election."""

from __future__ import annotations

from messages.cluster import TopicPartition
from messages.conversation import Done
from messages.vocabulary import message
from messages.zookeeper.question import BridgeQuestion


@message
class GetPreferredElections(BridgeQuestion["PreferredElections"]):
    """Read /admin/preferred_replica_election; arms PreferredReplicaLeaderElection. -> PreferredElections"""


@message
class PreferredElections:
    """The requested partitions, each once, in order; none if the znode is unreadable. `requested`: the znode exists."""

    requested: bool
    partitions: tuple[TopicPartition, ...] = ()


@message
class ForgetPreferredElections(BridgeQuestion[Done]):
    """Delete /admin/preferred_replica_election, fenced; an absent one is no error. -> Done"""

    epoch_zk_version: int
