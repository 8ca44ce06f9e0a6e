"""Read facts from the messages of consumer groups: their coordinators, their states, and their members' actions."""

from __future__ import annotations

from thespian.actors import WakeupMessage

from messages.apis.join_group import JoinGroupRequest
from messages.apis.leave_group import LeaveGroupRequest
from messages.broker import Forwarded
from messages.facts import declarations
from messages.facts.controller_facts import Emit
from messages.groups import GroupChanged, MemberExpired, RebalanceDue, StartGroup, SyncDue
from messages.trace.schema import TraceRecord
from messages.vocabulary import Message

GROUP = "GroupActor"

_TIMERS = {RebalanceDue: declarations.NOT_JOINED, SyncDue: declarations.NOT_SYNCED}


class GroupFacts:
    """Reads the facts about the consumer groups of one run."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._groups: dict[str, str] = {}
        """Groups by the address of their actor."""
        self._clients: dict[tuple[str, str], tuple[str, int]] = {}
        """Client id and session timeout of members, by group and member id."""

    def take(self, place: declarations.TracePosition, record: TraceRecord, message: Message) -> None:
        """Read the next message."""
        match message:
            case StartGroup():
                group = self._groups[record.receiver] = message.loaded.group
                self._emit(declarations.GroupHosted(place, group, message.log))
                for each in message.loaded.record.members if message.loaded.record is not None else ():
                    self._clients[group, each.member_id] = each.client_id, each.session_timeout_ms
            case GroupChanged():
                self._emit(declarations.GroupStateChanged(place, message.group, message.state))
            case Forwarded() if record.actor == GROUP:
                self._requested(place, message)
            case WakeupMessage() if record.actor == GROUP:
                self._due(place, self._groups.get(record.receiver, ""), message.payload)

    def _requested(self, place: declarations.TracePosition, forwarded: Forwarded) -> None:
        client = forwarded.request.client_id
        match forwarded.request.request:
            case JoinGroupRequest() as join:
                self._clients[join.group_id, join.member_id] = client, join.session_timeout_ms
                self._emit(
                    declarations.GroupMemberAction(
                        place, join.group_id, declarations.JOINED, join.member_id, client, join.session_timeout_ms
                    )
                )
            case LeaveGroupRequest() as leave:
                for member in leave.members:
                    self._emit(
                        declarations.GroupMemberAction(
                            place, leave.group_id, declarations.LEFT, member.member_id, client
                        )
                    )

    def _due(self, place: declarations.TracePosition, group: str, due: object) -> None:
        if isinstance(due, MemberExpired):
            client, timeout_ms = self._clients.get((group, due.member_id), ("", -1))
            self._emit(
                declarations.GroupMemberAction(place, group, declarations.EXPIRED, due.member_id, client, timeout_ms)
            )
        elif type(due) in _TIMERS:
            self._emit(declarations.GroupMemberAction(place, group, _TIMERS[type(due)]))
