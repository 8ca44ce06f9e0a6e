"""Find the facts of a run: decode the messages in its trace records, and pass them to the modules that find facts.

Rule: only messages that these modules need are decoded. They are selected by their type, and for some types also by
their receiver or sender. If most messages of a type have no fact, only those whose payload matches a pattern are
decoded.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from thespian.actors import WakeupMessage

from messages import errors
from messages.apis.join_group import JoinGroupRequest, JoinGroupResponse
from messages.apis.leave_group import LeaveGroupRequest
from messages.events import EVENTS
from messages.facts import declarations
from messages.facts.channel_facts import ChannelFacts
from messages.facts.controller_facts import CONTROLLER, ControllerFacts, Emit
from messages.facts.coordinator_facts import CoordinatorFacts
from messages.facts.declarations import Fact, TracePosition, Undecodable
from messages.facts.node_facts import PARTITION, NodeFacts
from messages.facts.open_requests import BATCHES, REQUESTS, RESPONSES, OpenClientRequests
from messages.groups import GroupChanged, MemberExpired, RebalanceDue, StartGroup, SyncDue
from messages.metrics import EVENT_TIME
from messages.network import ClientResponse, Forwarded
from messages.trace.codec import decode
from messages.trace.endings import DAMAGED, RUNNING
from messages.trace.errors import BadPayload, TraceError, UnknownType
from messages.trace.files.runs import Run, RunRecords, ending
from messages.trace.schema import DELIVERIES, NO_PAYLOAD, TraceRecord
from messages.vocabulary import Message

GROUP = "GroupActor"

_TIMERS = {RebalanceDue: declarations.NOT_JOINED, SyncDue: declarations.NOT_SYNCED}


class GroupFacts:
    """Reads the facts about the consumer groups of one run."""

    def __init__(self, emit: Emit, open_requests: OpenClientRequests) -> None:
        self._emit = emit
        self._open = open_requests
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
                self._read_request(place, message)
            case ClientResponse(connection, id, JoinGroupResponse() as response) if record.sender in self._groups:
                if response.error_code == errors.NONE:
                    asked = self._open.request(connection, id)
                    client = "" if asked is None else asked.client_id
                    joined = self._groups[record.sender], response.generation_id, response.member_id, client
                    self._emit(declarations.GroupMemberAdmitted(place, *joined))
            case WakeupMessage() if record.actor == GROUP:
                self._due(place, self._groups.get(record.receiver, ""), message.payload)

    def _read_request(self, place: declarations.TracePosition, forwarded: Forwarded) -> None:
        client = forwarded.request.client_id
        match forwarded.request.request:
            case JoinGroupRequest() as join:
                self._clients[join.group_id, join.member_id] = client, join.session_timeout_ms
                self._emit(
                    declarations.GroupMemberAction(
                        *(place, join.group_id, declarations.JOINED, join.member_id, client, join.session_timeout_ms),
                        join.reason or "",
                    )
                )
            case LeaveGroupRequest() as leave:
                for member in leave.members:
                    self._emit(
                        declarations.GroupMemberAction(
                            *(place, leave.group_id, declarations.LEFT, member.member_id, client),
                            reason=member.reason or "",
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


_TRANSACTIONAL = rb'"(InitProducerId|AddPartitionsToTxn|AddOffsetsToTxn|EndTxn)Response"'
_JOINED = rb'"JoinGroupResponse"'
_HAS_ERROR = rb'"error_code":(?!0[,}])'

_ALWAYS = (
    "AccessDenied AuthenticationsFailed Ask ClientsThrottled Configure FaultInjected GroupChanged "
    "LeaderAndIsrPart LeaderAndIsrRequest LoadEnded LogCleaned LogFailed NodeFailed NodeFaultInjected "
    "PartitionsMarked SendMarkers SessionState StartChannel StartGroup StateChangesRefused StopNode "
    "ThrottleReplicas ThrottleReplication TransactionsLoaded TransmitFailed"
).split()
DECODED: dict[str, re.Pattern[bytes]] = {
    **dict.fromkeys(_ALWAYS, re.compile(b"")),
    "Answer": re.compile(rb'"result":\["(?!RoleTaken")'),
    "BatchesAppended": re.compile(b"__transaction_state"),
    "ChangeIsr": re.compile(b'"grows":false'),
    "ChannelPart": re.compile(b'"PartitionErrorsPart"'),
    "ClientResponse": re.compile(b"|".join((_TRANSACTIONAL, _JOINED, _HAS_ERROR))),
    "ClientResponses": re.compile(_HAS_ERROR),
    "Forwarded": re.compile(rb'"(JoinGroup|LeaveGroup)Request"'),
    "Received": re.compile(b'"(LeaderAndIsr|StopReplica)Response"'),
    "Samples": re.compile(EVENT_TIME.encode()),
    "Transmit": re.compile(b'"LeaderAndIsrRequest"'),
    "WatchEvent": re.compile(b'"/controller"'),
}
"""Types of messages that have facts, with a pattern that the payload of such a message contains."""

_REQUESTED = REQUESTS | {BATCHES}

_READ = frozenset((*DECODED, *_REQUESTED, *RESPONSES, "Received", CONTROLLER, GROUP, PARTITION))
"""The types of messages, and the actors, that have facts."""
_OF_CONTROLLERS = frozenset(("Forwarded", "StartController", "WakeupMessage", *(event.__name__ for event in EVENTS)))
"""Messages to a controller that are always decoded."""


def facts(run: Run, until: float = math.inf, partial: bool = False) -> Iterator[Fact]:
    """Read the facts of a run, in the order in which its records show them.

    Args:
        run: A run with payloads (`trace.detail` is `full`).
        until: Read the deliveries up to this time, in seconds since 1970.
        partial: Whether to read a damaged run up to the damage.

    Raises:
        TraceError: The run is damaged, and `partial` is false.
    """
    found: list[Fact] = []
    reader = RunReader(run, found.append)
    how = ""
    try:
        for record in RunRecords(run):
            if record.kind in DELIVERIES:
                if record.taken_at + run.header.clock_offset > until:
                    how = RUNNING
                    break
                reader.take(record)
                yield from found
                found.clear()
    except TraceError:
        if not partial:
            raise
        how = DAMAGED
    reader.end(how or ending(run))
    yield from found


class RunReader:
    """Finds the facts in the deliveries of one run, one delivery after the other; `emit` gets each fact.

    With `metadata`, it also emits what the node's metadata cache stores.
    """

    def __init__(self, run: Run, emit: Emit, metadata: bool = False) -> None:
        self._run = run
        self._emit = emit
        self._controllers = ControllerFacts(self._emit)
        self._channels = ChannelFacts(self._emit)
        timeout_ms = run.header.settings.get("zookeeper_session_timeout_ms", 0)
        self._node = NodeFacts(self._emit, timeout_ms / 1000, metadata)
        self._coordinators = CoordinatorFacts(self._emit, self._node.requests)
        self._groups = GroupFacts(self._emit, self._node.requests)
        self._first: TraceRecord | None = None
        self._last: TraceRecord | None = None

    def take(self, record: TraceRecord) -> None:
        """Read the next delivery."""
        first, last = self._first or record, self._last or record
        self._first, self._last = first, record
        if record.taken_at - last.taken_at > self._node.shortest_gap:
            self._node.note_gap(self._place(last), self._place(record))
        if record.type not in _READ and record.actor not in _READ:
            return
        place = self._place(record)
        if record.type == "Received":
            self._channels.note_response(place, record)
        if record.type in _REQUESTED:
            self._node.requests.begin(record)
        if record.effects:
            self._node.on_disk(place, record)
        if self._is_decoded(record) and record.payload != NO_PAYLOAD:
            self._decode(place, record)
        if record.type in RESPONSES:
            self._node.requests.end(record)

    def _place(self, record: TraceRecord) -> TracePosition:
        header = self._run.header
        return TracePosition(record.taken_at + header.clock_offset, header.node, header.run, record.n, record.event_id)

    def _decode(self, place: TracePosition, record: TraceRecord) -> None:
        """Decode a message, and pass it to the readers."""
        try:
            message = decode(record.type, record.payload)
        except (BadPayload, UnknownType) as error:
            self._emit(Undecodable(place, record.type, str(error)))
            return
        self._controllers.take(place, record, message)
        self._channels.take(place, record, message)
        self._node.take(place, record, message)
        self._coordinators.take(place, record, message)
        self._groups.take(place, record, message)

    def _is_decoded(self, record: TraceRecord) -> bool:
        if record.actor == CONTROLLER and record.type in _OF_CONTROLLERS:
            return True
        if record.actor == GROUP and record.type == "WakeupMessage":
            return True
        if record.type == "ClientResponse" and self._controllers.is_controller(record.sender):
            return True
        pattern = DECODED.get(record.type)
        return pattern is not None and pattern.search(record.payload) is not None

    def end(self, how: str) -> None:
        """Emit the facts that are final only after the last delivery; `how` is the ending of the run."""
        if self._first is not None and self._last is not None:
            last = self._place(self._last)
            self._channels.end()
            self._node.end(self._place(self._first), last, how)
            self._controllers.end(last, how)
