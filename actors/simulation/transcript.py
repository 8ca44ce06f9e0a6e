"""Write the transcript of a run: its actions, the ZooKeeper writes, the requests, and the states at the end.

Rule: a transcript has no times and no ZooKeeper transaction ids, so that equal runs give equal text. Requests of the
data plane are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from actors.simulation.observed_cluster import ObservedCluster
from actors.simulation.schedule import Action
from actors.simulation.simulated_cluster import host_of
from messages.apis.controlled_shutdown import ControlledShutdownRequest
from messages.apis.leader_and_isr import LeaderAndIsrRequest
from messages.apis.stop_replica import StopReplicaRequest
from messages.apis.update_metadata import UpdateMetadataRequest
from messages.store import CHECK, DELETE, WriteOp, Written
from messages.vocabulary import Message

LEFT_OUT = ("/kafka-actors", "/latest_producer_id_block")
"""Znodes below these paths are left out."""


class TranscriptWriter:
    """Appends the transcript of a run to `lines`, beginning with the first action."""

    def __init__(self, observed: ObservedCluster, lines: list[str]) -> None:
        self.lines = lines
        self._observed = observed
        self._started = False

    def action(self, action: Action) -> None:
        """Append an action."""
        self._started = True
        self._append(f"{str(action).partition(' ')[2]}:")

    def transaction(self, ops: tuple[WriteOp, ...], results: tuple[Written, ...], session: int) -> None:
        """Append a ZooKeeper transaction."""
        for op, result in zip(ops, results, strict=True):
            if op.kind != CHECK and not op.path.startswith(LEFT_OUT):
                data = "" if op.data is None or op.kind == DELETE else f" {op.data.decode(errors='replace')}"
                self._append(f"  {self._owner(session)} {op.kind} {result.path or op.path}{data}")

    def request_sent(self, source: str, target: str, request: Message) -> None:
        """Append a request of the control plane."""
        described = "; ".join(_request_lines(request))
        if described:
            self._append(f"  {source} -> {target} {described}")

    def end(self) -> None:
        """Append the final state."""
        self._append("at the end:")
        observed = self._observed
        for partition in sorted(observed.znodes.assigned):
            assigned, state = observed.znodes.assigned[partition], observed.znodes.states.get(partition)
            moving = f", adding {assigned.adding}, removing {assigned.removing}" * bool(
                assigned.adding or assigned.removing
            )
            if state is None:
                stands = "no state"
            else:
                stands = f"leader {state.leader} epoch {state.leader_epoch} isr {_list(state.isr)}"
            self._append(f"  {partition}: replicas {_list(assigned.replicas)}{moving}: {stands}")
        for node, context in observed.cluster.controllers().items():
            self._append(f"  controller {node} epoch {context.epoch}, brokers {_list(context.brokers)}")
            for topic in sorted(context.queued):
                self._append(f"    {topic} is to be deleted")
            for broker, states in sorted(context.replica_states.items()):
                by_state = sorted((state.value, str(partition)) for partition, state in states.items())
                for state, each in groupby(by_state, key=lambda pair: pair[0]):
                    self._append(f"    {broker}: {state}: {', '.join(name for _, name in each)}")

    def _append(self, line: str) -> None:
        if self._started:
            self.lines.append(line)

    def _owner(self, session: int) -> str:
        node = self._observed.node_of_session(session)
        if node is not None:
            return host_of(node)
        return "zookeeper" if session == 0 else "operator"


def _list(numbers: Iterable[int]) -> str:
    return ",".join(map(str, numbers)) or "none"


def _request_lines(request: object) -> Iterator[str]:
    """Yield the lines that describe a controller's request."""
    match request:
        case LeaderAndIsrRequest():
            yield f"LeaderAndIsr of {request.controller_id}"
            for each in request.partition_states:
                new = " new" * each.is_new
                yield f"{each.partition} leader {each.leader} epoch {each.leader_epoch} isr {_list(each.isr)}{new}"
        case StopReplicaRequest():
            yield f"StopReplica of {request.controller_id}"
            for stop in request.partition_states:
                yield f"{stop.partition} epoch {stop.leader_epoch}{' delete' * stop.delete_partition}"
        case UpdateMetadataRequest():
            yield f"UpdateMetadata of {request.controller_id}, brokers {_list(b.id for b in request.live_brokers)}"
            for state in request.partition_states:
                yield f"{state.partition} leader {state.leader} epoch {state.leader_epoch} isr {_list(state.isr)}"
        case ControlledShutdownRequest():
            yield f"ControlledShutdown of {request.broker_id}"
