"""All families of invariants, in the order in which violations of a cluster at rest are reported."""

from __future__ import annotations

from actors.simulation.monitors.access_invariants import AccessInvariants
from actors.simulation.monitors.cleaning_invariants import CleaningInvariants
from actors.simulation.monitors.cluster_invariants import ClusterInvariants
from actors.simulation.monitors.controller_invariants import ControllerInvariants
from actors.simulation.monitors.controller_state_invariants import ControllerStateInvariants
from actors.simulation.monitors.fetch_session_invariants import FetchSessionInvariants
from actors.simulation.monitors.group_invariants import GroupInvariants
from actors.simulation.monitors.log_invariants import LogInvariants
from actors.simulation.monitors.monitor import Monitor, invariants_of
from actors.simulation.monitors.partition_state_invariants import PartitionStateInvariants
from actors.simulation.monitors.producer_invariants import ProducerInvariants
from actors.simulation.monitors.quota_invariants import QuotaInvariants
from actors.simulation.monitors.replication_invariants import ReplicationInvariants
from actors.simulation.monitors.stale_request_invariants import StaleRequestInvariants

FAMILIES: tuple[type[Monitor], ...] = (
    PartitionStateInvariants,
    ControllerInvariants,
    ControllerStateInvariants,
    ReplicationInvariants,
    StaleRequestInvariants,
    FetchSessionInvariants,
    ClusterInvariants,
    ProducerInvariants,
    GroupInvariants,
    LogInvariants,
    CleaningInvariants,
    AccessInvariants,
    QuotaInvariants,
)
INVARIANTS = tuple(invariants_of(FAMILIES))
