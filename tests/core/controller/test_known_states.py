"""Writing with cached states has the same result as Kafka's read before every write (`leadership`, rule 2).

One run uses the cached states. The other has none, and reads every state before it writes. Whatever happens to the
znodes in the meantime, both runs leave the same znodes and states, and send the brokers the same states.
"""

from __future__ import annotations

from typing import Any
from unittest import mock

from hypothesis import given
from hypothesis import strategies as st

from actors.core.controller import broker_changes, elections, partition_state_machine, replica_state_machine
from actors.core.controller.states import PartitionState, ReplicaState
from messages.apis.leader_and_isr import LeaderAndIsrRequest
from messages.apis.stop_replica import StopReplicaRequest
from messages.apis.update_metadata import UpdateMetadataRequest
from messages.cluster import LeaderIsrAndControllerEpoch
from messages.zookeeper import GetPartitionStates
from tests.core.controller import driver
from tests.core.controller.driver import EPOCH, Scene

LIVE = (1, 2, 3)
SUBSETS = st.lists(st.sampled_from(LIVE), min_size=1, max_size=3, unique=True).map(tuple)
MEANWHILE = st.sampled_from(("nothing", "nothing", "nothing", "shrunk", "grown", "removed", "newer controller"))
PARTITIONS = st.lists(st.tuples(SUBSETS, SUBSETS, MEANWHILE), min_size=1, max_size=5)


def scene_of(partitions: Any) -> Scene:
    scene = Scene(*LIVE)
    assigned = scene.assign("t", *[LIVE] * len(partitions))
    for tp, (isr, other, meanwhile) in zip(assigned, partitions, strict=True):
        scene.lead(tp, isr[0], *isr)
        scene.put(tp, PartitionState.ONLINE)
        for broker_id in LIVE:
            scene.put_replica(tp, broker_id, ReplicaState.ONLINE)
        match meanwhile:
            case "shrunk":
                scene.znodes[tp] = driver.leadership(isr[0], isr[0], version=1)
            case "grown":
                scene.znodes[tp] = driver.leadership(isr[0], *dict.fromkeys((*isr, *other)), version=1)
            case "removed":
                del scene.znodes[tp]
            case "newer controller":
                scene.znodes[tp] = LeaderIsrAndControllerEpoch(isr[0], 0, isr, EPOCH + 1, 1)
    return scene


def last_sent(scene: Scene) -> Any:
    """Return the last state that was sent, by request kind, broker and partition."""
    by_kind = {}
    for kind in (LeaderAndIsrRequest, UpdateMetadataRequest, StopReplicaRequest):
        for broker_id, request in scene.sent:
            if isinstance(request, kind):
                for state in request.partition_states:
                    by_kind[kind, broker_id, state.partition] = state
    return by_kind


@given(PARTITIONS, st.sampled_from(LIVE), st.sampled_from(("failure", "preferred", "shutdown")))
def test_what_is_known_need_not_be_read(partitions: Any, broker_id: int, event: str) -> None:
    ends, reads = [], []
    for known_states in (partition_state_machine.known_states, lambda context, partitions: {}):
        scene = scene_of(partitions)
        context = scene.context
        with (
            mock.patch.object(partition_state_machine, "known_states", known_states),
            mock.patch.object(replica_state_machine, "known_states", known_states),
        ):
            match event:
                case "failure":
                    scene.run(broker_changes.on_broker_failure(context, [broker_id]))
                case "preferred":
                    everyone = tuple(context.assignments)
                    move = partition_state_machine.move_partitions
                    scene.run(move(context, everyone, PartitionState.ONLINE, elections.elect_preferred))
                case "shutdown":
                    context.begin_shutdown(broker_id)
                    gone = {broker_id: list(context.assignments)}
                    scene.run(replica_state_machine.move_replicas(context, gone, ReplicaState.OFFLINE))
        states = (context.partition_states, context.replica_states, context.leadership)
        ends.append((scene.znodes, states, last_sent(scene)))
        reads.append(sum(len(q.partitions) for q in scene.asked if isinstance(q, GetPartitionStates)))
    assert ends[0] == ends[1]
    if all(meanwhile == "nothing" for _, _, meanwhile in partitions):
        assert reads[0] <= reads[1]
        if event == "failure":  # an election settles the partition, so it is not read again
            assert reads[0] == sum(broker_id not in isr or isr == (broker_id,) for isr, _, _ in partitions)
