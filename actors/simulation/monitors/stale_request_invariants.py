"""Requests with older epochs or generations: a process refuses them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from actors.simulation.exchanges import accepted_markers
from actors.simulation.monitors.monitor import Monitor, invariant
from actors.simulation.observed_facts import START, Accepted, ResponseSent
from messages import errors
from messages.apis.fetch import FetchRequest
from messages.apis.heartbeat import HeartbeatRequest
from messages.apis.leader_and_isr import LeaderAndIsrRequest
from messages.apis.list_offsets import ListOffsetsRequest
from messages.apis.offset_commit import OffsetCommitRequest
from messages.apis.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from messages.apis.stop_replica import StopReplicaRequest
from messages.apis.sync_group import SyncGroupRequest
from messages.apis.update_metadata import UpdateMetadataRequest
from messages.apis.write_txn_markers import WriteTxnMarkersRequest
from messages.cluster import EPOCH_DURING_DELETE, NO_EPOCH
from messages.response_codes import accepts


class StaleRequestInvariants(Monitor):
    """The rules for requests with older controller, broker, leader or coordinator epochs, or older generations."""

    @invariant("stale requests are refused", "broker.md 1.1, 1.2, 3.7, 6.5")
    def _stale_requests_are_refused(self, fact: ResponseSent) -> Iterator[str]:
        """A process refuses requests with older controller, broker or leader epochs, or with older generations."""
        request, response = fact.request, fact.response
        name = f"node {fact.node} accepted {type(request).__name__.removesuffix('Request')}"
        match request:
            case LeaderAndIsrRequest() | StopReplicaRequest() | UpdateMetadataRequest():
                if response.error_code == errors.NONE and fact.accepted is not None:
                    may_lag = self.observed.is_simulated and not self.observed.healthy_for(fact.node)
                    yield from self._of_controllers(name, request, response, fact.accepted, may_lag)
            case FetchRequest() | ListOffsetsRequest() | OffsetForLeaderEpochRequest() if fact.accepted is not None:
                sent_epochs = {part.partition: part.current_leader_epoch for part in request.partitions}
                for result in response.partitions:
                    partition = result.partition
                    sent, known = sent_epochs.get(partition, -1), fact.accepted.leader_epochs.get(partition, -1)
                    if result.error_code == errors.NONE and 0 <= sent < known:
                        yield f"{name} for {partition} with leader epoch {sent} after {known}"
            case WriteTxnMarkersRequest():
                for partition, marker in accepted_markers(request, response):
                    known, sent = fact.markers.get((marker.producer_id, partition), -1), marker.coordinator_epoch
                    if 0 <= sent < known and not self.znodes.was_deleted_since(partition.topic, fact.at):
                        yield f"{name} of {partition}, coordinator epoch {sent} after {known}"
            case HeartbeatRequest() | SyncGroupRequest() | OffsetCommitRequest() if accepts(request, response):
                members = self.exchanges.member_ids.get(request.group_id, () if self.observed.is_whole else None)
                # A Heartbeat is accepted from any member while the group is being loaded.
                is_named = bool(request.member_id) and not isinstance(request, HeartbeatRequest)
                if is_named and members is not None and request.member_id not in members:
                    yield f"{name} of {request.group_id} from {request.member_id!r}, which was never a member"
                if 0 <= request.generation_id < fact.generation and not self.observed.power_failed:
                    yield (
                        f"{name} of {request.group_id} with generation {request.generation_id} after {fact.generation}"
                    )

    @invariant("current StopReplica requests are obeyed", "broker.md 2.1, KIP-570", StopReplicaRequest, lacks=START)
    def _current_stops_are_obeyed(self, fact: ResponseSent) -> Iterator[str]:
        """A broker refuses no StopReplica for an old leader epoch if the request has the epoch in ZooKeeper."""
        sent = {state.partition: state.leader_epoch for state in fact.request.partition_states}
        for each in fact.response.partition_errors:
            state = self.znodes.states.get(each.partition)
            is_current = state is not None and sent.get(each.partition, -1) >= state.leader_epoch
            is_first = each.partition.topic in self.znodes.topics and each.partition.topic not in self.znodes.deleted_at
            if each.error_code == errors.FENCED_LEADER_EPOCH and is_current and is_first:
                yield f"node {fact.node} refused to stop {each.partition} in leader epoch {sent[each.partition]}"

    def _of_controllers(
        self, name: str, request: Any, response: Any, accepted: Accepted, may_lag: bool
    ) -> Iterator[str]:
        # As in Kafka, a controller may know a broker's new epoch before the broker does.
        for what in ("controller_epoch",) if may_lag else ("controller_epoch", "broker_epoch"):
            sent, known = getattr(request, what), getattr(accepted, what)
            if 0 <= sent < known:
                yield f"{name} with {what} {sent} after {known}"
        if isinstance(request, UpdateMetadataRequest):
            return
        codes = {each.partition: each.error_code for each in response.partition_errors}
        for state in request.partition_states:
            known, sent = accepted.leader_epochs.get(state.partition, -1), state.leader_epoch
            is_refused = codes.get(state.partition, errors.NONE) != errors.NONE
            if sent not in (EPOCH_DURING_DELETE, NO_EPOCH) and not is_refused and sent < known:
                yield f"{name} for {state.partition}, leader epoch {sent} after {known}"
