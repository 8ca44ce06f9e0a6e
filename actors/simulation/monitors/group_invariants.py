"""Consumer groups: members, generations and committed offsets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from actors.broker.partition import PartitionActor
from actors.coordinator.group import GroupActor
from actors.core.coordinator.loading import Loading
from actors.core.coordinator.offsets import Offsets
from actors.core.topic.topic_name import GROUP_METADATA
from actors.runtime import Delivery
from actors.simulation.exchanges import kept_for
from actors.simulation.members import PARTS, AssignmentReceived, SimulatedGroup, SimulatedMember
from actors.simulation.monitors.monitor import Monitor, invariant, looks
from actors.simulation.observed_cluster import ObservedCluster
from actors.simulation.observed_facts import FAULTS, ClusterAtRest, ClusterQueried, ResponseSent
from actors.simulation.reachability import SLACK
from actors.storage.log.key_values import key_values
from messages import errors
from messages.apis.describe_groups import DescribeGroupsRequest
from messages.apis.heartbeat import HeartbeatRequest
from messages.apis.leave_group import LeaveGroupRequest
from messages.apis.offset_commit import OffsetCommitRequest
from messages.apis.offset_fetch import OffsetFetchRequest
from messages.apis.sync_group import SyncGroupRequest
from messages.cluster import TopicPartition
from messages.groups import LoadedGroup, StartGroup
from messages.partition import BatchesAppended
from messages.response_codes import accepts, codes_of
from messages.vocabulary import Message

PERHAPS_APPENDED = (errors.REQUEST_TIMED_OUT, errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
"""Error codes of a produce whose batch may be in the log nevertheless."""


class GroupInvariants(Monitor):
    """The rules for the members of a group, its generations and its committed offsets."""

    def __init__(self, observed: ObservedCluster) -> None:
        super().__init__(observed)
        self._unsure: set[tuple[int, str]] = set()
        """(node, group) pairs whose append to the log failed after it had begun."""

    @looks(GroupActor)
    def _note_group(self, node: int, delivery: Delivery) -> Iterable[object]:
        """Note a group that was loaded or created, or the result of an append.

        A batch whose append timed out may be in the log nevertheless. A group that is loaded from the log is no longer
        unsure. A group that is created empty stays unsure, because the log may still have the batch.
        """
        actor, message = getattr(delivery.receiver, "actor", None), delivery.message
        if not isinstance(actor, GroupActor):
            return ()
        key = node, actor.group.name
        if isinstance(message, StartGroup):
            if message.loaded != LoadedGroup(actor.group.name):
                self._unsure.discard(key)
        elif isinstance(message, BatchesAppended) and any(
            result.error_code in PERHAPS_APPENDED for _, _, result in message.results
        ):
            self._unsure.add(key)
        return ()

    @invariant("one assignment per group generation", "broker.md 6.5")
    def _one_assignment_per_group_generation(self, fact: AssignmentReceived) -> Iterator[str]:
        group, generation = fact.group, fact.generation
        if self.observed.is_lossy(self.exchanges.group_partition(group.name)) or group.is_deleted:
            return  # generation numbers may repeat after the group's records are lost or the group is deleted
        if generation == 1:
            group.begin(fact.leader)
        leader = group.leaders.setdefault(generation, fact.leader)
        ids = group.ids  # a member id may be missing: within a generation, a static member may get a new member id
        unknown = group.has_static and not {leader, fact.leader} <= ids.keys()
        if not unknown and ids.get(leader, leader) != ids.get(fact.leader, fact.leader):
            yield f"generation {generation} of {group.name} has two leaders: {leader} and {fact.leader}"
        for part in fact.parts:
            owner = group.owners.setdefault((generation, part), fact.member)
            if owner != fact.member:
                yield f"generation {generation} of {group.name} assigns part {part} to {owner} and to {fact.member}"

    @invariant("groups answer what their log has", "broker.md 6.5", SyncGroupRequest, OffsetCommitRequest)
    def _group_responses_are_in_the_log(self, fact: ResponseSent) -> Iterator[str]:
        """The record of a commit or an assignment is below the high watermark before the coordinator responds."""
        request = fact.request
        partition = self.exchanges.group_partition(request.group_id)
        log = self.replicas.log(fact.node, partition)
        if log is None or fact.log_end < 0 or not accepts(request, fact.response) or self.observed.is_lossy(partition):
            return
        if log.high_watermark <= fact.log_end:
            yield (
                f"node {fact.node} accepted {type(request).__name__} of {request.group_id}, which arrived at log end"
                f" {fact.log_end} of {partition}; its high watermark is {log.high_watermark}"
            )

    @invariant("silent members leave the group", "broker.md 6.5", HeartbeatRequest)
    def _silent_members_leave_the_group(self, fact: ResponseSent) -> Iterator[str]:
        """A group's generation has no member that was silent for its session timeout."""
        request = fact.request
        if fact.response.error_code != errors.NONE:
            return
        view = self.exchanges.groups.get((fact.process, request.group_id))
        if view is None or view.generation != request.generation_id:
            return
        for member in fact.left:
            if member != request.member_id and member in view.members:
                yield f"{member} has left {request.group_id}, and is in generation {view.generation}"
        for member in view.members:
            timeout = view.session_timeouts.get(member)
            if member == request.member_id or timeout is None or view.waiting.get(member):
                continue
            silent = self.now - max(view.heard_at.get(member, 0.0), view.since)
            long = timeout * 1.03 + SLACK
            if silent > long and self.observed.healthy_for(fact.node) > long:
                yield (
                    f"{member} is in generation {view.generation} of {request.group_id}, and silent for {silent:.1f} s;"
                    f" its session timeout is {timeout:g} s"
                )

    @invariant("active members stay in the group", "broker.md 6.5", HeartbeatRequest, lacks=FAULTS)
    def _active_members_stay_in_the_group(self, fact: ResponseSent) -> Iterator[str]:
        """A member is not removed before its session timeout; a static member may be replaced."""
        request = fact.request
        view = self.exchanges.groups.get((fact.process, request.group_id))
        if view is None or fact.response.error_code != errors.UNKNOWN_MEMBER_ID or request.group_instance_id:
            return
        timeout = view.session_timeouts.get(request.member_id, 0.0)
        if request.generation_id != view.generation or request.member_id in view.left:
            return
        if fact.renewed < kept_for(timeout) and self.observed.healthy_for(fact.node) > timeout:
            yield (
                f"node {fact.node} removed {request.member_id} from generation {view.generation} of {request.group_id},"
                f" whose last request arrived {fact.renewed:.1f} s ago; its session timeout is {timeout:g} s"
            )

    @invariant("coordinators know the members", "broker.md 1.6, 6.5")
    def _coordinators_know_the_members(self, fact: ResponseSent) -> Iterator[str]:
        """A coordinator knows the members that its predecessor knew: it loads them from the log before it answers."""
        now = self.now
        for (group, member), confirmation in fact.confirmed.items():
            later = self.exchanges.confirmation_of(group, member)
            is_same = later is not None and later.generation == confirmation.generation
            if now > confirmation.until or self.observed.is_lossy(self.exchanges.group_partition(group)):
                continue
            if is_same or isinstance(fact.request, LeaveGroupRequest):
                for result in _unknown_to(fact.request, fact.response, group, member, confirmation.generation):
                    yield (
                        f"node {fact.node} answered {type(fact.request).__name__} with {result}; {member} is in"
                        f" generation {confirmation.generation} of {group}"
                    )

    @invariant("fetched offsets were committed", "broker.md 6.5", OffsetFetchRequest)
    def _fetched_offsets_were_committed(self, fact: ResponseSent) -> Iterator[str]:
        """A coordinator returns the last committed offset."""
        request, response = fact.request, fact.response
        if response.error_code != errors.NONE:
            return
        if self.observed.is_lossy(self.exchanges.group_partition(request.group_id)):
            return
        for result in response.partitions:
            if result.error_code != errors.NONE or result.partition.topic != GROUP_METADATA:
                continue
            commits = self.exchanges.commits.get((request.group_id, result.partition), [])
            found = [commit for commit in commits if commit.offset == result.committed_offset]
            name = f"{request.group_id}: offset {result.committed_offset} of {result.partition}"
            if result.committed_offset >= 0 and not found and self.observed.is_whole:
                yield f"{name} was never committed"
            elif fact.is_current and result.committed_offset >= 0 and all(c.superseded_at < fact.at for c in found):
                yield f"{name} is not the last commit"
            elif fact.is_current and result.committed_offset < 0:
                for commit in commits:
                    acknowledged = commit.acknowledged_at is not None and commit.acknowledged_at < fact.at
                    if acknowledged and not commit.may_be_deleted:
                        yield f"{request.group_id}: commit {commit.offset} of {result.partition} is not found"

    @invariant("coordinators lead the partitions of their groups", "broker.md 1.6")
    def _coordinators_lead_the_partitions_of_their_groups(self, fact: ClusterAtRest) -> Iterator[str]:
        for node in self.nodes.controlled_nodes():
            for name in self.cluster.groups_at(node):
                partition = self.exchanges.group_partition(name)
                state = self.znodes.remaining.get(partition)
                if state is not None and state.leader != node and state.leader in self.nodes.connected_nodes():
                    yield f"node {node} has group {name}; the leader of {partition} is {state.leader}"

    @invariant("groups are what their log says", "KIP-98")
    def _groups_equal_their_log(self, fact: ClusterQueried) -> Iterator[str]:
        """The offsets of a group in memory are those that the next coordinator would load.

        A commit that timed out may be in the log and not in the coordinator's memory, as in Kafka (3.9
        `GroupMetadata.failPendingOffsetWrite`): the next coordinator may load later offsets.
        """
        for partition, read in self.history.read_committed.items():
            state = self.states.get(partition)
            if partition.topic != GROUP_METADATA or state is None or read.stable != read.high_watermark:
                continue
            log = self.replicas.log(state.leader, partition)
            if log is not None and log.end > read.high_watermark:  # a coordinator loads up to the log's end
                continue
            loading = Loading(partition.partition)
            loading.take(key_values(read.data, 0)[1])
            loaded = {each.group: Offsets.from_log(each.offsets, each.pending) for each in loading.groups()}
            for name, group in self.cluster.groups_at(state.leader).items():
                offsets = group.offsets
                if self.exchanges.group_partition(name) == partition and not offsets.under_way:
                    expected = loaded.get(name, Offsets())
                    is_behind = (state.leader, name) in self._unsure and _is_behind(offsets, expected)
                    if expected != offsets and not is_behind:
                        yield f"{name} has {offsets} in memory, and its log has {expected}"

    @invariant("no committed offset is lost", "broker.md 6.5")
    def _no_committed_offset_is_lost(self, fact: ClusterQueried) -> Iterator[str]:
        for group in self._groups():
            if group.fetched is None:
                yield f"the committed offsets of {group.name} cannot be read"
            elif not self.observed.is_lossy(self.exchanges.group_partition(group.name)):
                for part, number in () if group.is_deleted else group.committed.items():
                    found = group.fetched.get(part)
                    if found != number and found not in group.unsure:
                        yield f"{group.name} committed {number} for part {part}, but {found} was fetched"

    @invariant("group members match the live consumers", "broker.md 6.5")
    def _group_members_match_the_live_consumers(self, fact: ClusterQueried) -> Iterator[str]:
        some_are_away = len(self.nodes.connected_nodes()) < len(self.cluster.machines)
        for group in self._groups():
            described, partition = group.described, self.exchanges.group_partition(group.name)
            members = [each for each in group.living.values() if not self._is_stranded(each, partition)]
            living = sorted(member.id for member in members)
            # A member whose FindCoordinator requests went only to absent brokers may still be joining now.
            if some_are_away and described is not None and any(member.joining for member in members):
                continue
            if described is None:
                yield f"no broker describes {group.name}"
            elif described.group_state not in (("Stable",) if living else ("Empty", "Dead")):
                yield f"{group.name} is in state {described.group_state}; its live consumers are {living}"
            elif sorted(member.member_id for member in described.members) != living:
                yield (
                    f"{group.name} has members {[each.member_id for each in described.members]};"
                    f" its live consumers are {living}"
                )
            elif living and sorted(part for member in members for part in member.parts) != [*range(PARTS)]:
                yield f"{group.name} has an incomplete assignment: { {each.id: each.parts for each in members} }"

    def _groups(self) -> Iterator[SimulatedGroup]:
        """Yield each group whose partition of __consumer_offsets does not exist, or has a leader that can commit."""
        for group in self.cluster.members.groups.values():
            partition = self.exchanges.group_partition(group.name)
            if partition not in self.states or self.nodes.can_commit(partition):
                yield group

    def _is_stranded(self, member: SimulatedMember, partition: TopicPartition) -> bool:
        """Return whether a member cannot leave its former coordinator, because of a lasting fault.

        A broker that the controller cannot reach does not know that it has lost the group's partition. It cannot store
        a generation, and responds REBALANCE_IN_PROGRESS after the timeout. The member then joins at this broker again,
        as Kafka's clients do.
        """
        node = self.cluster.machines[member.coordinator].node if member.coordinator in self.cluster.machines else None
        hosted = (
            ()
            if node is None or member.coordinator in self.nodes.controlled_nodes()
            else node.base.actors(PartitionActor)
        )
        return any(
            each.partition.role.partition == partition and each.partition.role.leader == member.coordinator
            for each in hosted
        )


def _unknown_to(request: Message, response: Any, group: str, member: str, generation: int) -> Iterator[str]:
    """Yield a text for each place in the response where the member or its generation counts as unknown."""
    match request:
        case HeartbeatRequest() | SyncGroupRequest() | OffsetCommitRequest():
            if (request.member_id, request.generation_id) == (member, generation):
                refusals = (errors.UNKNOWN_MEMBER_ID, errors.ILLEGAL_GENERATION)
                yield from (f"error {code}" for code in codes_of(response) if code in refusals)
        case LeaveGroupRequest():
            for each in response.members:
                if each.member_id == member and each.error_code == errors.UNKNOWN_MEMBER_ID:
                    yield f"error {each.error_code}"
        case DescribeGroupsRequest():
            for each in response.groups:
                if each.group_id == group and each.error_code == errors.NONE and each.group_state == "Dead":
                    yield f"state {each.group_state}"


def _is_behind(offsets: Offsets, loaded: Offsets) -> bool:
    """Return whether the log's offsets `loaded` have the same or a later commit for each partition in `offsets`."""
    return all(
        partition in loaded.committed and loaded.committed[partition].log_offset >= value.log_offset
        for partition, value in offsets.committed.items()
    )
