"""The members and generations of a consumer group, and how members' requests change both (broker.md 6.5).

No method waits, sends a message to another actor, or reads a clock: each takes an event, and `take()` returns the
resulting instructions in order. Wall times are in ms.

Rule 1 (states): Every request is checked first. The numbers in parentheses are the error codes of failed checks. If the
    request has an instance id, its member id must be the current one of that instance (82). The member must be known
    (25). The generation must be current (22). A table cell of `group_states` then defines the handling.
Rule 2 (joining): A rebalance ends when every member has joined and each new member id has been used in a JoinGroup
        (rule 3), or after the longest rebalance timeout of the members. Members that have not joined by then are
        removed, except static members. If no member has joined, the rebalance continues. The first rebalance of an
        empty group always waits for the initial delay. The wait is repeated while new members join, up to the rebalance
        timeout.
Rule 3 (ids): A new member whose JoinGroup has version 4 or later first receives its member id. It must join with this
        id within its session timeout.
Rule 4 (choosing): A generation uses the protocol with the most votes among the protocols that all members support. The
        previous leader stays if it has joined, else the first member that has joined leads.
Rule 5 (assigning): Members wait until the leader's assignment is in the log. Members without a SyncGroup within the
        rebalance timeout are removed, and all others rejoin.
Rule 6 (sessions): A member is removed after its session timeout without a request. While its JoinGroup or SyncGroup is
        waiting for a response, the member stays. Exception: a new member is removed after its first JoinGroup has
        waited for five minutes.
Rule 7 (static members): A member that rejoins with its instance id takes over the state of the former member. If a
        stable group keeps its protocol, it records the new member id in the log, sends the current generation, and does
        not rebalance.
Rule 8 (log): State that must survive a change of the coordinator is first appended to the log, and applies when the
    append succeeds. The result of an append is ignored if its purpose has ended, for example because a new generation
    has begun.

Kafka: `GroupMetadata`, `MemberMetadata`, the rules of `GroupCoordinator`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import attrs

from actors.core.coordinator import group_states
from actors.core.coordinator.group_metadata_records import Record, subscribed_topics
from actors.core.coordinator.log_codes import COMMON_CODES
from actors.core.coordinator.offsets import CONSUMERS
from actors.core.illegal_transition import enter
from messages import errors, groups
from messages.apis import join_group
from messages.apis.heartbeat import HeartbeatRequest, HeartbeatResponse
from messages.apis.leave_group import LeaveGroupRequest, LeaveGroupResponse, LeavingMember, LeftMember
from messages.apis.sync_group import SyncGroupRequest, SyncGroupResponse
from messages.error_names import name_of
from messages.network import Forwarded
from messages.probes import probe
from messages.vocabulary import AnyMessage, Message, evolve, value_class

NEW_MEMBER_TIMEOUT_MS = 5 * 60_000
"""Milliseconds that a new member's JoinGroup may wait (rule 6)."""

ID_FIRST_SINCE = 4
"""First JoinGroup version in which a new member receives its id first (rule 3)."""
EACH_MEMBER_SINCE = 3
"""First LeaveGroup version with an error code per member."""

JOIN_TIMER, SYNC_TIMER = "rebalance", "sync"

GROUP_CODES = {
    **COMMON_CODES,
    errors.REQUEST_TIMED_OUT: errors.REBALANCE_IN_PROGRESS,
    errors.MESSAGE_TOO_LARGE: errors.UNKNOWN_SERVER_ERROR,
    errors.RECORD_LIST_TOO_LARGE: errors.UNKNOWN_SERVER_ERROR,
}
"""Error of the log -> client error code of a generation that could not be stored."""


# ------------------------------------------------------------------------------------------------- instructions


class Producer(NamedTuple):
    """A transactional producer, given by its producer id and epoch, and its transactional id."""

    id: int
    epoch: int
    transactional_id: str


@value_class
class Reply:
    """An instruction to send this response to the client."""

    forwarded: Forwarded
    response: Message


@value_class
class AppendRecords:
    """An instruction to append records to the group's log; the result of the append has the same `number`.

    The number is 0 if no result is needed. `producer` is the producer of the records' transaction.
    """

    number: int
    records: tuple[Record, ...]
    producer: Producer | None = None


@value_class
class AppendTombstones:
    """An instruction to append tombstones to the group's log, whether or not enough replicas are in sync."""

    records: tuple[Record, ...]


@value_class
class ArmTimer:
    """An instruction to start the timer with this name; the delay is in ms."""

    name: str
    delay_ms: int
    payload: Message


@value_class
class Disarm:
    """An instruction to cancel the timer with this name."""

    name: str


@value_class
class LogRebalance:
    """An instruction to log that a rebalance begins, with Kafka's reason."""

    generation: int
    reason: str


ToDo = Reply | AppendRecords | AppendTombstones | ArmTimer | Disarm | LogRebalance


# ------------------------------------------------------------------------------------------------------------- members


@attrs.define
class Member:
    """A member of a consumer group; `joining` and `syncing` are its pending JoinGroup and SyncGroup requests."""

    id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: tuple[join_group.JoinProtocol, ...]
    assignment: bytes = b""
    joining: Forwarded | None = None
    syncing: Forwarded | None = None
    is_new: bool = False

    @property
    def is_static(self) -> bool:
        """Whether the member has an instance id."""
        return self.instance_id is not None

    def metadata(self, protocol: str | None) -> bytes:
        """Return the member's subscription for a protocol; empty if the member does not support the protocol."""
        return next((each.metadata for each in self.protocols if each.name == protocol), b"")


@value_class
class Assigning:
    """The assignment of a generation while it is being written to the log."""

    generation: int
    assignments: dict[str, bytes]


@value_class
class Replacing:
    """A static member that rejoins with a new member id.

    `before` is the member with its old id. `leader` is the member id of the group leader before the replacement.
    """

    member_id: str
    before: Member
    leader: str | None


class Membership:
    """All members of a consumer group, and its current generation."""

    def __init__(self, name: str, settings: groups.GroupSettings) -> None:
        self.name = name
        self.state = group_states.EMPTY
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.generation = 0
        self.leader: str | None = None
        self.since_ms = groups.NO_TIME
        """Wall time in ms at which the group entered its state."""
        self.members: dict[str, Member] = {}
        self.static: dict[str, str] = {}
        """Instance id -> member id."""
        self.pending: dict[str, None] = {}
        """Member ids that were sent to new members and not used yet (rule 3)."""
        self.unsynced: dict[str, None] = {}
        """Members without a SyncGroup in this generation."""
        self.subscribed: tuple[str, ...] | None = None
        """Topics to which consumers subscribe; None if unknown."""
        self._settings = settings
        self._delays: tuple[int, int] | None = None
        """Waits of the first rebalance in ms: (the current wait, the remaining time after it); None otherwise."""
        self._more_came = False
        self._stores = 0
        self._under_way: dict[int, AnyMessage] = {}
        self._to_do: list[ToDo] = []

    def take(self) -> list[ToDo]:
        """Return the instructions since the last call, in order, and clear them."""
        taken, self._to_do = self._to_do, []
        return taken

    # --------------------------------------------------------------------------------------------------- join

    def join(self, forwarded: Forwarded, fresh_id: str, wall_ms: int) -> None:
        """Handle a JoinGroup; `fresh_id` is the member id to assign if the request has none."""
        request: join_group.JoinGroupRequest = forwarded.request.request
        code = self._join_verdict(request)
        if code == errors.GROUP_MAX_SIZE_REACHED:
            if request.member_id in self.members:
                self._drop(request.member_id)
            self._refuse_join(forwarded, code)
        elif code != errors.NONE:
            self._refuse_join(forwarded, code, request.member_id)
        elif request.member_id == join_group.NO_MEMBER:
            self._join_first(forwarded, fresh_id, wall_ms)
        elif request.member_id in self.pending:
            self._add(forwarded, request.member_id, wall_ms)
        else:
            self._join_again(forwarded, wall_ms)
        self._complete_if_all_joined(wall_ms)

    def _join_verdict(self, request: join_group.JoinGroupRequest) -> int:
        known = self.members.get(request.member_id)
        if (
            self.state in (group_states.COMPLETING, group_states.STABLE)
            and known is None
            and len(self.members) >= self._settings.max_size
        ):
            return errors.GROUP_MAX_SIZE_REACHED
        if self.state is group_states.PREPARING and (known is None or known.joining is None):
            waiting = sum(member.joining is not None for member in self.members.values())
            if waiting >= self._settings.max_size:
                return errors.GROUP_MAX_SIZE_REACHED
        if self.state is group_states.DEAD:
            return errors.COORDINATOR_NOT_AVAILABLE
        if not self._supports(request):
            return errors.INCONSISTENT_GROUP_PROTOCOL
        if request.member_id == join_group.NO_MEMBER:
            return errors.NONE
        if request.member_id in self.pending:  # only a member without an instance id receives its member id first
            return errors.NONE if request.group_instance_id is None else errors.UNKNOWN_SERVER_ERROR
        return self._member_verdict(request.member_id, request.group_instance_id)

    def _supports(self, request: join_group.JoinGroupRequest) -> bool:
        """Return whether the request has the group's protocol type and a protocol that all members support."""
        if self.state is group_states.EMPTY:
            return bool(request.protocol_type and request.protocols)
        common, names = self._common_protocols(), [each.name for each in request.protocols]
        return request.protocol_type == self.protocol_type and any(name in common or not self.members for name in names)

    def _member_verdict(self, member_id: str, instance_id: str | None) -> int:
        """Return an error code if the request's member id or instance id is invalid, else NONE (rule 1)."""
        if instance_id is not None:
            current = self.static.get(instance_id)
            if current is None:
                return errors.UNKNOWN_MEMBER_ID
            if current != member_id:
                return errors.FENCED_INSTANCE_ID
        return errors.NONE if member_id in self.members else errors.UNKNOWN_MEMBER_ID

    def _join_first(self, forwarded: Forwarded, fresh_id: str, wall_ms: int) -> None:
        request: join_group.JoinGroupRequest = forwarded.request.request
        instance = request.group_instance_id
        if instance is not None and instance in self.static:
            self._replace(forwarded, self.static[instance], fresh_id, wall_ms)
        elif isinstance(code := group_states.JOIN_NEW[self.state], int):
            self._refuse_join(forwarded, code)
        elif instance is None and request.version >= ID_FIRST_SINCE:
            self.pending[fresh_id] = None
            self._arm_session(fresh_id, request.session_timeout_ms)
            self._refuse_join(forwarded, errors.MEMBER_ID_REQUIRED, fresh_id)
        else:
            self._add(forwarded, fresh_id, wall_ms)

    def _join_again(self, forwarded: Forwarded, wall_ms: int) -> None:
        request: join_group.JoinGroupRequest = forwarded.request.request
        member, cell = self.members[request.member_id], group_states.JOIN_AGAIN[self.state]
        if isinstance(cell, int):
            self._refuse_join(forwarded, cell, member.id)
            return
        unchanged = cell is not group_states.GroupAction.REBALANCE and member.protocols == request.protocols
        if cell is group_states.GroupAction.REBALANCE_IF_NEWS_OR_LEADER and member.id == self.leader:
            unchanged = False
        if unchanged:
            self._reply(forwarded, self._generation_for(member, request.version))
        else:
            self._update(member, forwarded)
            leads = member.id == self.leader and self.state is group_states.STABLE
            what = f"Leader {member.id} re-joining group" if leads else f"Updating metadata for member {member.id}"
            self._rebalance(wall_ms, f"{what} during {self.state.value}{_client_reason(request.reason)}")

    def _add(self, forwarded: Forwarded, member_id: str, wall_ms: int) -> None:
        request: join_group.JoinGroupRequest = forwarded.request.request
        member = Member(
            *(member_id, request.group_instance_id, forwarded.request.client_id, forwarded.request.client_host),
            *(_rebalance_timeout(request), request.session_timeout_ms, request.protocols),
            joining=forwarded,
            is_new=True,
        )
        if not self.members:
            self.protocol_type = request.protocol_type
        if self.leader is None:
            self.leader = member_id
        if self.state is group_states.PREPARING and self.generation == 0:
            self._more_came = True
        self.pending.pop(member_id, None)
        self.members[member_id] = member
        if member.instance_id is not None:
            self.static[member.instance_id] = member_id
        self._arm_session(member_id, NEW_MEMBER_TIMEOUT_MS)
        instance = "None" if member.instance_id is None else f"Some({member.instance_id})"
        what = f"Adding new member {member_id} with group instance id {instance}"
        self._rebalance(wall_ms, what + _client_reason(request.reason))

    def _update(self, member: Member, forwarded: Forwarded) -> None:
        """Update the member from its newest JoinGroup."""
        wanted: join_group.JoinGroupRequest = forwarded.request.request
        member.protocols = wanted.protocols
        member.rebalance_timeout_ms, member.session_timeout_ms = _rebalance_timeout(wanted), wanted.session_timeout_ms
        member.joining = forwarded

    def _replace(self, forwarded: Forwarded, before_id: str, member_id: str, wall_ms: int) -> None:
        """Replace a static member that rejoins without its member id (rule 7)."""
        cell = group_states.JOIN_STATIC[self.state]
        if isinstance(cell, int):
            self._refuse_join(forwarded, cell)
            return
        led_before, before = self.leader, self.members[before_id]
        self._end_join(before, errors.FENCED_INSTANCE_ID, before_id)
        self._answer_sync(before, errors.FENCED_INSTANCE_ID)
        member = attrs.evolve(before, id=member_id)
        self._rename(before_id, member)
        self._update(member, forwarded)
        self._expect(member)
        if cell is group_states.GroupAction.REPLACE_QUIETLY and self._choose_protocol() == self.protocol:
            assignments = {each.id: each.assignment for each in self.members.values()}
            self._store(Replacing(member_id, before, led_before), self._record(assignments))
        else:
            what = f"static member {member.id} with instance id Some({member.instance_id})"
            what = (
                f"Group's selectedProtocol will change because {what} joined with change of protocol"
                if self.state is group_states.STABLE
                else f"Updating metadata for {what}"
            )
            self._rebalance(wall_ms, what + _client_reason(forwarded.request.request.reason))

    def _rename(self, member_id: str, member: Member) -> None:
        """In all tables, replace the member whose id is `member_id` by `member`, a static member with a new id.

        The order of the members does not change. If the old member was the group's leader, the new member becomes the
        leader.
        """
        self.members = {member.id if id == member_id else id: each for id, each in self.members.items()}
        self.members[member.id] = member
        if member_id in self.unsynced:
            del self.unsynced[member_id]
            self.unsynced[member.id] = None
        if self.leader == member_id:
            self.leader = member.id
        assert member.instance_id is not None
        self.static[member.instance_id] = member.id
        self._to_do.append(Disarm(_session(member_id)))

    def _end_replacement(self, done: Replacing, error_code: int) -> None:
        """Handle the result of the append that replaces a static member; on an error, restore the former member."""
        member = self.members.get(done.member_id)
        if member is None or member.joining is None or self.state is not group_states.STABLE:
            return
        version, forwarded = member.joining.request.request.version, member.joining
        if error_code == errors.NONE:
            member.joining = None
            if version >= join_group.SKIP_ASSIGNMENT_SINCE:
                response = evolve(self._generation_for(member, version), skip_assignment=member.id == self.leader)
            else:
                response = self._generation_for(member, version, leader=done.leader)
            self._reply(forwarded, response)
        else:
            self._rename(member.id, done.before)
            self._expect(done.before)
            self._refuse_join(forwarded, error_code)

    # -------------------------------------------------------------------------------------------------- rebalance

    def _rebalance(self, wall_ms: int, reason: str) -> None:
        """Start a rebalance unless one is in progress; `reason` is Kafka's text for the log."""
        if self.state not in group_states.PREVIOUS[group_states.PREPARING]:
            return
        if self.state is group_states.COMPLETING:
            self._complete_syncs({}, errors.REBALANCE_IN_PROGRESS)
        self._to_do.append(Disarm(SYNC_TIMER))
        if self.state is group_states.EMPTY:
            delay = self._settings.initial_rebalance_delay_ms
            self._delays = delay, max(self._longest_rebalance() - delay, 0)
            self._more_came = False
            self._arm_join(delay)
        else:
            self._delays = None
            self._arm_join(self._longest_rebalance())
        self._enter(group_states.PREPARING, wall_ms)
        self._to_do.append(LogRebalance(self.generation, reason))

    def rebalance_due(self, wall_ms: int) -> None:
        """Complete the join phase after its delay, or extend the initial delay (rule 2)."""
        if self.state is not group_states.PREPARING:
            return
        if self._delays is not None and self._more_came and self._delays[1] != 0:
            self._more_came = False
            waited, left = self._delays
            delay = min(self._settings.initial_rebalance_delay_ms, left)
            self._delays = delay, max(left - waited, 0)
            self._arm_join(delay)
        else:
            self._delays = None
            self._complete_join(wall_ms)

    def _complete_if_all_joined(self, wall_ms: int) -> None:
        all_joined = not self.pending and all(member.joining is not None for member in self.members.values())
        if self.state is group_states.PREPARING and self._delays is None and all_joined:
            self._complete_join(wall_ms)

    def _complete_join(self, wall_ms: int) -> None:
        for member in [each for each in self.members.values() if each.joining is None and not each.is_static]:
            self._drop(member.id)
        if self.members and not self._leader_has_joined():
            probe("a rebalance goes on with static members that have not joined")
            self._arm_join(self._longest_rebalance())
            return
        self._to_do.append(Disarm(JOIN_TIMER))
        self.generation += 1
        self.unsynced.clear()
        if not self.members:
            self.protocol = None
            self._enter(group_states.EMPTY, wall_ms)
            self.note_topics()
            self._store(None, self._record({}))
            return
        self.protocol = self._choose_protocol()
        self._enter(group_states.COMPLETING, wall_ms)
        self.note_topics()
        for member in self.members.values():
            waiting, member.joining = member.joining, None
            if waiting is not None:
                self._reply(waiting, self._generation_for(member, waiting.request.request.version))
            self._expect(member)
            member.is_new = False
            self.unsynced[member.id] = None
        self._to_do.append(ArmTimer(SYNC_TIMER, self._longest_rebalance(), groups.SyncDue(self.generation)))

    def _leader_has_joined(self) -> bool:
        """If the leader has not joined, choose another leader (rule 4); return False if no member has joined."""
        leader = self.members.get(self.leader or join_group.NO_MEMBER)
        if leader is None or leader.joining is None:
            joined = next((member.id for member in self.members.values() if member.joining is not None), None)
            if joined is None:
                return False
            self.leader = joined
        return True

    def _choose_protocol(self) -> str:
        """Return the protocol with the most votes (rule 4).

        In a tie, this is the protocol that received its first vote earliest.
        """
        common = self._common_protocols()
        votes = Counter(
            next(each.name for each in member.protocols if each.name in common) for member in self.members.values()
        )
        return max(votes, key=lambda name: votes[name])

    def _common_protocols(self) -> frozenset[str]:
        names = [frozenset(each.name for each in member.protocols) for member in self.members.values()]
        return frozenset.intersection(*names) if names else frozenset()

    def _generation_for(self, member: Member, version: int, leader: str | None = None) -> join_group.JoinGroupResponse:
        """The JoinGroup response for the current generation; the leader receives all members."""
        leads = member.id == self.leader and leader is None
        members = self.members.values() if leads else ()
        return join_group.JoinGroupResponse(
            *(errors.NONE, self.generation, self.protocol_type),
            self.protocol if version >= join_group.PROTOCOL_NAME_SINCE else self.protocol or "",
            self.leader or join_group.NO_MEMBER if leader is None else leader,
            member.id,
            tuple(
                [join_group.JoinedMember(each.id, each.metadata(self.protocol), each.instance_id) for each in members]
            ),
        )

    # ----------------------------------------------------------------------------------------------- assignment

    def sync(self, forwarded: Forwarded) -> None:
        """Handle a SyncGroup."""
        request: SyncGroupRequest = forwarded.request.request
        code = self._sync_verdict(request)
        cell: int | group_states.GroupAction = group_states.SYNC[self.state] if code == errors.NONE else code
        if isinstance(cell, int):
            self._reply(forwarded, SyncGroupResponse(cell))
            return
        member = self.members[request.member_id]
        self.unsynced.pop(member.id, None)
        if not self.unsynced:
            self._to_do.append(Disarm(SYNC_TIMER))
        if cell is group_states.GroupAction.TELL:
            self._reply(forwarded, self._part_of(member))
            self._expect(member)
            return
        member.syncing = forwarded
        if member.id == self.leader:
            given = {each.member_id: each.assignment for each in request.assignments}
            assignments = {id: given.get(id, b"") for id in self.members}
            self._store(Assigning(self.generation, assignments), self._record(assignments))

    def _sync_verdict(self, request: SyncGroupRequest) -> int:
        if self.state is group_states.DEAD:
            return errors.COORDINATOR_NOT_AVAILABLE
        code = self._verdict_in_generation(request.member_id, request.group_instance_id, request.generation_id)
        if code != errors.NONE:
            return code
        named = ((request.protocol_type, self.protocol_type), (request.protocol_name, self.protocol))
        return (
            errors.INCONSISTENT_GROUP_PROTOCOL if any(sent not in (None, ours) for sent, ours in named) else errors.NONE
        )

    def _verdict_in_generation(self, member_id: str, instance_id: str | None, generation: int) -> int:
        code = self._member_verdict(member_id, instance_id)
        return errors.ILLEGAL_GENERATION if code == errors.NONE and generation != self.generation else code

    def _end_assignment(self, done: Assigning, error_code: int, wall_ms: int) -> None:
        if self.state is not group_states.COMPLETING or done.generation != self.generation:
            return
        if error_code == errors.NONE:
            self._complete_syncs(done.assignments, errors.NONE)
            self._enter(group_states.STABLE, wall_ms)
        else:
            probe("the assignment of a generation cannot be stored")
            self._complete_syncs({}, error_code)
            self._rebalance(wall_ms, f"Error {name_of(error_code)} when storing group assignment during SyncGroup")

    def _complete_syncs(self, assignments: dict[str, bytes], error_code: int) -> None:
        for member in self.members.values():
            member.assignment = assignments.get(member.id, b"")
            if self._answer_sync(member, error_code):
                self._expect(member)

    def _part_of(self, member: Member) -> SyncGroupResponse:
        return SyncGroupResponse(errors.NONE, member.assignment, self.protocol_type, self.protocol)

    def sync_due(self, generation: int, wall_ms: int) -> None:
        """Remove the members without a SyncGroup in this generation (rule 5)."""
        if (
            generation == self.generation
            and self.state in (group_states.COMPLETING, group_states.STABLE)
            and self.unsynced
        ):
            probe("a member does not ask for its assignment in time")
            late = list(self.unsynced)
            for member_id in late:
                self._drop(member_id)
            self._rebalance(wall_ms, f"Removing {', '.join(late)} on pending sync request expiration")
            self._complete_if_all_joined(wall_ms)

    # -------------------------------------------------------------------------------------------- heartbeat and leave

    def heartbeat(self, forwarded: Forwarded) -> None:
        """Handle a Heartbeat."""
        request: HeartbeatRequest = forwarded.request.request
        code = group_states.HEARTBEAT[self.state]
        if self.state is not group_states.DEAD:
            verdict = self._verdict_in_generation(request.member_id, request.group_instance_id, request.generation_id)
            if verdict == errors.NONE:
                self._expect(self.members[request.member_id])
            code = verdict or code
        assert isinstance(code, int)
        self._reply(forwarded, HeartbeatResponse(code))

    def leave(self, forwarded: Forwarded, wall_ms: int) -> None:
        """Handle a LeaveGroup."""
        request: LeaveGroupRequest = forwarded.request.request
        if self.state is group_states.DEAD:
            self._reply(forwarded, LeaveGroupResponse(errors.COORDINATOR_NOT_AVAILABLE))
            return
        left = [
            LeftMember(each.member_id, each.group_instance_id, self._leave(each, wall_ms)) for each in request.members
        ]
        self._reply(forwarded, leave_response(request, left))

    def _leave(self, who: LeavingMember, wall_ms: int) -> int:
        member_id = who.member_id
        if member_id in self.pending:
            self._forget_pending(member_id, wall_ms)
            return errors.NONE
        if member_id == join_group.NO_MEMBER:
            member_id = self.static.get(who.group_instance_id or "", join_group.NO_MEMBER)
        code = self._member_verdict(member_id, who.group_instance_id)
        if code == errors.NONE and isinstance(cell := group_states.LEAVE[self.state], int):
            code = cell
        if code == errors.NONE:
            reason = f"Removing member {member_id} on LeaveGroup{_client_reason(who.reason)}"
            self._remove(self.members[member_id], wall_ms, reason)
        return code

    def member_expired(self, member_id: str, wall_ms: int) -> None:
        """Remove a member after its session timeout, or a new member id that was not used (rules 3, 6)."""
        member = self.members.get(member_id)
        if member_id in self.pending:
            self._forget_pending(member_id, wall_ms)
        elif member is not None and (member.is_new or not (member.joining or member.syncing)):
            self._remove(member, wall_ms, f"Removing member {member_id} on heartbeat expiration")

    def _forget_pending(self, member_id: str, wall_ms: int) -> None:
        del self.pending[member_id]
        self._to_do.append(Disarm(_session(member_id)))
        self._complete_if_all_joined(wall_ms)

    def _remove(self, member: Member, wall_ms: int, reason: str) -> None:
        """Remove a member and start a rebalance."""
        self._end_join(member, errors.UNKNOWN_MEMBER_ID)
        self._answer_sync(member, errors.UNKNOWN_MEMBER_ID)
        self._drop(member.id)
        self._rebalance(wall_ms, reason)
        self._complete_if_all_joined(wall_ms)

    def _drop(self, member_id: str) -> None:
        member = self.members.pop(member_id)
        self.unsynced.pop(member_id, None)
        if member.instance_id is not None and self.static.get(member.instance_id) == member_id:
            del self.static[member.instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        self._to_do.append(Disarm(_session(member_id)))

    # ------------------------------------------------------------------------------------------------ the log

    def handle_append(self, number: int, error_code: int, wall_ms: int, log_offset: int) -> None:
        """Handle the result of the append with this number (rule 8)."""
        code = GROUP_CODES.get(error_code, error_code)
        match self._under_way.pop(number, None):
            case Assigning() as done:
                self._end_assignment(done, code, wall_ms)
            case Replacing() as done:
                self._end_replacement(done, code)

    def _store(self, wanted: AnyMessage, *records: Record, producer: Producer | None = None) -> int:
        """Append records; return the number of the append.

        Args:
            wanted: The operation to continue when the append's result arrives, or None. For None, the result is ignored
                and the returned number is 0.
        """
        if wanted is None:
            self._to_do.append(AppendRecords(0, records))
            return 0
        self._stores += 1
        self._under_way[self._stores] = wanted
        self._to_do.append(AppendRecords(self._stores, records, producer))
        return self._stores

    def _record(self, assignments: dict[str, bytes]) -> groups.GroupRecord:
        """Return the group's record with these assignments."""
        members = [
            groups.RecordedMember(
                *(each.id, each.instance_id, each.client_id, each.client_host),
                *(each.rebalance_timeout_ms, each.session_timeout_ms),
                *(each.metadata(self.protocol), assignments.get(each.id, b"")),
            )
            for each in self.members.values()
        ]
        value = groups.RecordedGroup(
            self.protocol_type or "", self.generation, self.protocol, self.leader, self.since_ms, tuple(members)
        )
        return groups.GroupRecord(self.name, value)

    # ----------------------------------------------------------------------------------------------------- helpers

    def _enter(self, state: group_states.GroupState, wall_ms: int) -> None:
        previous, self.state = self.state, enter(f"group {self.name}", self.state, state, group_states.PREVIOUS)
        probe(f"group {previous.value} to {state.value}")
        self.since_ms = wall_ms

    def note_topics(self) -> None:
        """Store the topics to which consumers subscribe in this generation."""
        self.subscribed = () if not self.members else None
        if self.members and self.protocol_type == CONSUMERS and self.protocol is not None:
            self.subscribed = subscribed_topics([each.metadata(self.protocol) for each in self.members.values()])

    def _longest_rebalance(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def _arm_join(self, delay_ms: int) -> None:
        self._to_do.append(ArmTimer(JOIN_TIMER, delay_ms, groups.RebalanceDue()))

    def _expect(self, member: Member) -> None:
        """Restart the member's session timeout."""
        self._arm_session(member.id, member.session_timeout_ms)

    def _arm_session(self, member_id: str, delay_ms: int) -> None:
        self._to_do.append(ArmTimer(_session(member_id), delay_ms, groups.MemberExpired(member_id)))

    def _reply(self, forwarded: Forwarded, response: Message) -> None:
        self._to_do.append(Reply(forwarded, response))

    def _refuse_join(self, forwarded: Forwarded, code: int, member_id: str = join_group.NO_MEMBER) -> None:
        self._reply(forwarded, _refusal(forwarded, code, member_id))

    def _end_join(self, member: Member, code: int, member_id: str = join_group.NO_MEMBER) -> None:
        """Refuse the member's waiting JoinGroup, if it has one."""
        waiting, member.joining = member.joining, None
        if waiting is not None:
            self._refuse_join(waiting, code, member_id)

    def _answer_sync(self, member: Member, error_code: int) -> bool:
        """Respond to the member's waiting SyncGroup with the assignment or the error; return False if none waits."""
        waiting, member.syncing = member.syncing, None
        if waiting is not None:
            self._reply(
                waiting,
                self._part_of(member) if error_code == errors.NONE else SyncGroupResponse(error_code),
            )
        return waiting is not None


def leave_response(request: LeaveGroupRequest, left: Sequence[LeftMember]) -> LeaveGroupResponse:
    """Return the response to a LeaveGroup: one error code per member, or a single code in versions before 3."""
    if request.version >= EACH_MEMBER_SINCE:
        return LeaveGroupResponse(errors.NONE, tuple(left))
    return LeaveGroupResponse(left[0].error_code)


def _refusal(forwarded: Forwarded, code: int, member_id: str = join_group.NO_MEMBER) -> join_group.JoinGroupResponse:
    """Return the response to a refused JoinGroup.

    The response names no protocol: the name is null, or empty in versions in which it cannot be null.
    """
    name = None if forwarded.request.request.version >= join_group.PROTOCOL_NAME_SINCE else ""
    return join_group.JoinGroupResponse(code, protocol_name=name, member_id=member_id)


def _rebalance_timeout(request: join_group.JoinGroupRequest) -> int:
    """Return the rebalance timeout in ms; version 0 has none and uses the session timeout."""
    return request.session_timeout_ms if request.rebalance_timeout_ms < 0 else request.rebalance_timeout_ms


def _client_reason(reason: str | None) -> str:
    return f"; client reason: {reason or 'not provided'}"


def _session(member_id: str) -> str:
    return f"session of {member_id}"
