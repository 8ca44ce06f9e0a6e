"""The actions of `kafka-actors reassign-partitions`, which send requests to ZooKeeper and to the controller.

Rule 1: A plan is written to the znode /admin/reassign_partitions, as Kafka 2's tool does. The znode accepts one plan at
        a time. Cancellations and additional plans, which the znode does not support, are requests to the controller.
Rule 2: The output is that of the tool of Kafka 3.9.1.
Rule 3: Throttles are overrides of topics and brokers. They are set before the plan is submitted, and removed by the
        command that verifies the plan's completion.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping
from typing import Any

from actors.cli import overrides
from actors.cli.app import CommandFailed
from actors.core.admin import reassignment_plan
from actors.core.admin.config_admin import BROKERS, TOPICS
from messages import errors, zookeeper
from messages.admin_requests import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from messages.cluster import ConfigEntry, ReplicaAssignment, TopicPartition
from messages.vocabulary import Message

ALTER_VERSION, ALTER_MS = 0, 30_000

IN_PROGRESS = (
    "Cannot execute because there is an existing partition assignment.  Use --additional to override this and create a"
    " new partition assignment in addition to the existing one. The --additional flag can also be used to change the"
    " throttle by resubmitting the current reassignment."
)
RUN_VERIFY = (
    "Warning: You must run --verify periodically, until the reassignment completes, to ensure the throttle is removed."
)

Answer = Callable[[Message], Any]


class ReassignmentAdmin:
    """The actions of `kafka-actors reassign-partitions`.

    An action raises Refused if a rule of `actors.core` is violated. It raises CommandFailed if another check fails, or
    if the controller returns errors.

    Args:
        ask: Function that sends a request to ZooKeeper and returns the reply.
        controller: Client of the controller.
        print_line: Function that prints a line.
    """

    def __init__(self, ask: Callable[[Any], Any], controller: Answer, print_line: Callable[[str], None]) -> None:
        self._ask = ask
        self._controller = controller
        self._print_line = print_line

    def generate(self, topics_json: str, broker_list: str, rack_aware: bool) -> None:
        """Print the current assignment of these topics, and a proposed assignment to these brokers."""
        brokers, topics = reassignment_plan.parse_brokers(broker_list), reassignment_plan.parse_topics(topics_json)
        current = {tp: each.replicas for tp, each in self._assignments(topics).items()}
        known = {broker.id: broker.rack for broker in self._ask(zookeeper.GetBrokers(watch=False)).brokers}
        unknown = sorted(set(brokers) - set(known))
        if unknown:
            raise CommandFailed(f"Unknown broker id {unknown[0]}")
        racks = {broker: known[broker] if rack_aware else None for broker in sorted(brokers)}
        if None in racks.values() and any(racks.values()):
            raise CommandFailed(
                "Not all brokers have rack information. Add --disable-rack-aware in command line to make replica"
                " assignment without rack information."
            )
        proposed = reassignment_plan.propose(
            current, racks, lambda count: (random.randrange(count), random.randrange(count))
        )
        self._print_line(f"Current partition replica assignment\n{reassignment_plan.format_plan(current)}\n")
        self._print_line(f"Proposed partition reassignment configuration\n{reassignment_plan.format_plan(proposed)}")

    def execute(self, plan_json: str, throttle: int | None, additional: bool) -> None:
        """Submit a plan."""
        plan = reassignment_plan.parse_plan(plan_json)
        self._check_brokers(plan)
        everything = self._assignments()
        requested: zookeeper.Reassignments = self._ask(zookeeper.GetReassignments(watch=False))
        if not additional and (requested.there or any(each.adding or each.removing for each in everything.values())):
            raise CommandFailed(IN_PROGRESS)
        self._check_partitions(plan, everything)
        current = reassignment_plan.format_plan({tp: everything[tp].replicas for tp in plan})
        self._print_line(f"Current partition replica assignment\n\n{current}\n")
        self._print_line("Save this to use as the --reassignment-json-file option during rollback")
        if throttle is not None:
            self._print_line(RUN_VERIFY)
            moved = reassignment_plan.moves(everything, plan)
            for topic, throttles in reassignment_plan.topic_throttles(moved).items():
                self._override(TOPICS, topic, throttles)
            for broker in reassignment_plan.moving_brokers(moved):
                self._override(BROKERS, str(broker), dict.fromkeys(reassignment_plan.RATES, str(throttle)))
            self._print_line(f"The inter-broker throttle limit was set to {throttle} B/s")
        if additional:
            self._alter(plan, "Error reassigning partition(s):")
        else:
            self._request(plan)
        plural, names = reassignment_plan.named(plan)
        self._print_line(f"Successfully started partition reassignment{plural} for {names}")

    def verify(self, plan_json: str, preserve_throttles: bool) -> None:
        """Print the progress of a plan, and remove the throttles if no reassignment is active.

        The throttles stay if `preserve_throttles` is True.
        """
        plan = reassignment_plan.parse_plan(plan_json)
        everything = self._assignments()
        self._print_line("Status of partition reassignment:")
        for partition, target in plan.items():
            self._print_line(reassignment_plan.progress(partition, target, everything.get(partition)))
        self._print_line("")
        if not preserve_throttles and not any(each.adding or each.removing for each in everything.values()):
            self._clear_throttles(plan)

    def cancel(self, plan_json: str, preserve_throttles: bool) -> None:
        """Cancel the active reassignments of a plan's partitions."""
        plan = reassignment_plan.parse_plan(plan_json)
        everything = self._assignments()
        active = [tp for tp in plan if tp in everything and (everything[tp].adding or everything[tp].removing)]
        if active:
            plural, names = reassignment_plan.named(active)
            self._alter(dict.fromkeys(active), f"Error cancelling partition reassignment{plural} for:")
            self._print_line(f"Successfully cancelled partition reassignment{plural} for: {names}")
        else:
            self._print_line("None of the specified partition reassignments are active.")
        if not preserve_throttles:
            self._clear_throttles(plan)

    def list(self) -> None:
        """Print the active reassignments."""
        for line in reassignment_plan.ongoing(self._assignments()):
            self._print_line(line)

    # ------------------------------------------------------------------------------------------------- details

    def _assignments(self, topics: Collection[str] | None = None) -> dict[TopicPartition, ReplicaAssignment]:
        """Return the assignments of these topics, or of all; raise CommandFailed if a topic does not exist."""
        names = tuple(topics) if topics is not None else self._ask(zookeeper.GetTopics(watch=False)).topics
        found = self._ask(zookeeper.GetAssignments(names, watch=False)).topics if names else ()
        absent = sorted(set(topics or ()) - {topic.topic for topic in found})
        if absent:
            raise CommandFailed(f"Topic {absent[0]} not found.")
        return {TopicPartition(topic, number): each for topic, partitions, *_ in found for number, each in partitions}

    def _check_brokers(self, plan: reassignment_plan.Plan) -> None:
        alive = {broker.id for broker in self._ask(zookeeper.GetBrokers(watch=False)).brokers}
        for broker in sorted({replica for replicas in plan.values() for replica in replicas}):
            if broker not in alive:
                raise CommandFailed(f"Unknown broker id {broker}")

    def _check_partitions(
        self, plan: reassignment_plan.Plan, everything: Mapping[TopicPartition, ReplicaAssignment]
    ) -> None:
        topics = {tp.topic for tp in everything}
        for topic in sorted({tp.topic for tp in plan} - topics):
            raise CommandFailed(f"Topic {topic} not found.")
        absent = [tp for tp in plan if tp not in everything]
        if absent:
            raise CommandFailed(f"Unable to find partition: {', '.join(map(str, absent))}")

    def _request(self, plan: reassignment_plan.Plan) -> None:
        requests = tuple(zookeeper.RequestedReassignment(tp, replicas) for tp, replicas in plan.items())
        if isinstance(self._ask(zookeeper.RequestReassignments(requests)), zookeeper.Reassignments):
            raise CommandFailed(IN_PROGRESS)

    def _alter(self, plan: Mapping[TopicPartition, tuple[int, ...] | None], failure: str) -> None:
        """Send the plan to the controller; a value of None cancels the reassignment of that partition.

        Raises:
            CommandFailed: The response has errors. The exception's text is `failure` and these errors.
        """
        by_topic: dict[str, list[ReassignablePartition]] = {}
        for (topic, number), replicas in plan.items():
            by_topic.setdefault(topic, []).append(ReassignablePartition(number, replicas))
        topics = tuple(ReassignableTopic(topic, tuple(partitions)) for topic, partitions in by_topic.items())
        answer = self._controller(AlterPartitionReassignmentsRequest(ALTER_VERSION, ALTER_MS, topics))
        refused = [
            f"{topic.name}-{each.partition_index}: {each.error_message}"
            for topic in answer.responses
            for each in topic.partitions
            if each.error_code != errors.NONE
        ]
        if refused:
            raise CommandFailed("\n".join([failure, *refused]))

    def _clear_throttles(self, plan: reassignment_plan.Plan) -> None:
        brokers = {broker.id for broker in self._ask(zookeeper.GetBrokers(watch=False)).brokers}
        brokers.update(replica for replicas in plan.values() for replica in replicas)
        plural, ids = ("" if len(brokers) == 1 else "s"), ",".join(map(str, sorted(brokers)))
        self._print_line(f"Clearing broker-level throttles on broker{plural} {ids}")
        for broker in sorted(brokers):
            self._override(BROKERS, str(broker), dict.fromkeys(reassignment_plan.RATES))
        topics = sorted({tp.topic for tp in plan})
        self._print_line(f"Clearing topic-level throttles on topic{'' if len(topics) == 1 else 's'} {','.join(topics)}")
        for topic in topics:
            self._override(
                TOPICS, topic, dict.fromkeys((reassignment_plan.LEADER_THROTTLED, reassignment_plan.FOLLOWER_THROTTLED))
            )

    def _override(self, kind: str, name: str, values: Mapping[str, str | None]) -> None:
        """Set overrides of a topic or broker; None removes an override. Unchanged overrides are not written."""
        old = overrides.read(self._ask, kind, name)
        both = sorted({**dict(old), **values}.items())
        new = tuple(ConfigEntry(key, value) for key, value in both if value is not None)
        if new != old:
            overrides.write(self._ask, kind, name, new)
