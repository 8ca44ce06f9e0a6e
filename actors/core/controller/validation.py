"""Check that the state of an idle controller is consistent; simulations and tests call this.

A check reads every partition. The controller runs the check after each event if `validate.state` is set (as in the
tests). It also runs the check once whenever an event is dropped because of an unexpected error.
"""

from __future__ import annotations

from collections import Counter

from actors.core.controller.context import ControllerContext, is_imbalanced
from actors.core.controller.states import PartitionState
from messages.flow.conversation import Flow, ask
from messages.topic_deletion import DeletionReport, ReportDeletions


class InconsistentContext(Exception):
    """The state of a controller is inconsistent; the exception's message lists the contradictions."""


def validate(context: ControllerContext) -> Flow[None]:
    """Check the controller's state and its agreement with TopicDeletionActor.

    Raises:
        InconsistentContext: The state is inconsistent.
    """
    report = yield from ask(ReportDeletions())
    found = inconsistencies(context) + disagreements(context, report)
    if found:
        raise InconsistentContext(f"{context.tag} {'; '.join(found)}")


def inconsistencies(context: ControllerContext) -> list[str]:
    """Return the contradictions between the controller's indexes and tables; empty if there are none."""
    found = []
    partitions = {tp for known in context.topics.values() for tp in known.values()}
    if partitions != set(context.assignments):
        found.append("topics and assignments name different partitions")
    hosted = {(b, tp) for b, tps in context.hosted.items() for tp in tps}
    if hosted != {(b, tp) for tp, assignment in context.assignments.items() for b in assignment.replicas}:
        found.append("the index by broker is not the assignment")
    reassigning = {tp for tp, assignment in context.assignments.items() if assignment.adding or assignment.removing}
    if reassigning != set(context.reassigning):
        found.append("the index of partitions being reassigned is wrong")
    leaderless = {
        tp for tp, state in context.partition_states.items() if state in (PartitionState.NEW, PartitionState.OFFLINE)
    }
    if leaderless != set(context.leaderless):
        found.append("the index of leaderless partitions is wrong")
    led = context.leadership.items()
    imbalanced = {tp for tp, state in led if is_imbalanced(context.assignment(tp), state)}
    if (
        imbalanced != set(context.imbalanced)
        or dict(Counter(tp.topic for tp in imbalanced)) != context.imbalanced_of_topic
    ):
        found.append("the index of partitions that are led by another than their preferred replica is wrong")
    offline = [
        tp
        for tp, state in context.partition_states.items()
        if state is PartitionState.OFFLINE and tp.topic not in context.started
    ]
    if len(offline) != context.offline_count:
        found.append(f"{len(offline)} partitions are offline, {context.offline_count} are counted")
    for tp, last_sent in context.last_sent.items():
        state = context.leadership.get(tp)
        if state is None or last_sent.assignment != context.assignments.get(tp):
            found.append(f"the state last sent for {tp} has another assignment, or no leadership")
        elif any(
            (each.partition, each.leader, each.leader_epoch, each.isr, each.zk_version)
            != (tp, state.leader, state.leader_epoch, state.isr, state.zk_version)
            for each in (last_sent.role, last_sent.metadata)
            if each is not None
        ):
            found.append(f"the state last sent for {tp} has another leadership")
    for name, table in (("leadership", context.leadership), ("states", context.partition_states)):
        if not set(table) <= partitions:
            found.append(f"{name} of unknown partitions: {sorted(set(table) - partitions)}")
    for broker_id, states in context.replica_states.items():
        if not set(states) <= partitions:
            found.append(f"replica states of unknown partitions on {broker_id}")
    for broker_id, partitions_offline in context.offline_dirs.items():
        if not partitions_offline or not set(partitions_offline) <= partitions:
            found.append(f"offline directories of broker {broker_id} name no or unknown partitions")
    if context.online_brokers != frozenset(b for b in context.brokers if b not in context.shutting_down):
        found.append("online brokers are not the brokers that do not shut down")
    return found


def disagreements(context: ControllerContext, report: DeletionReport) -> list[str]:
    """Return the differences between the controller's tables and TopicDeletionActor's report; empty if they agree."""
    found = []
    if context.deletions != report.sets:
        found.append(f"sets: controller {context.deletions}, deletion {report.sets}")
    for theirs in report.topics:
        ours = context.deleting_topic(theirs.topic)
        for name in ("replicas", "started", "successful", "ineligible"):
            one, other = getattr(ours, name), getattr(theirs, name)
            if frozenset(one) != frozenset(other):
                found.append(f"{theirs.topic} {name}: controller {sorted(one)}, deletion {sorted(other)}")
    return found
