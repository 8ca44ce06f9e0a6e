"""Every group API with every kind of member, instance and generation, in every state of a group.

`table(wire)` sends the requests to one broker and returns the error codes as lines of text. A line has an API, states,
members, and the codes: for each instance of INSTANCES, the codes of each generation of GENERATIONS.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any, Protocol

import attrs

from messages.apis.delete_groups import DeleteGroupsRequest
from messages.apis.describe_groups import DescribeGroupsRequest
from messages.apis.heartbeat import HeartbeatRequest
from messages.apis.join_group import JoinGroupRequest, JoinProtocol
from messages.apis.leave_group import LeaveGroupRequest, LeavingMember
from messages.apis.offset_commit import CommittedPartition, OffsetCommitRequest
from messages.apis.offset_delete import OffsetDeletePartition, OffsetDeleteRequest
from messages.apis.offset_fetch import OffsetFetchRequest
from messages.apis.sync_group import MemberAssignment, SyncGroupRequest
from messages.apis.txn_offset_commit import TxnOffsetCommitRequest
from messages.cluster import TopicPartition
from messages.errors import MEMBER_ID_REQUIRED, NONE
from tests.waiting import until

RECORDED = Path(__file__).with_name("group_codes.txt")
TOPIC, ANOTHER = "t", "u"
MEMBERS = ("none", "unknown", "dynamic", "static", "former", "pending")
"""The member ids of a request: empty, never seen, of the two members, that the static member had before it rejoined,
and given to a new member that has not joined with it.
"""
INSTANCES = (None, "j", "i")
GENERATIONS = (None, -1, 0, 1)
"""No generation, or the difference to the group's generation."""
WAITS = "waits"
LONG_MS = 600_000
SUBSCRIPTION = b"\0\1\0\0\0\1\0\1t\0\0\0\0"
NEWS = SUBSCRIPTION[:-1] + b"\1x"
"""Subscriptions to TOPIC, without and with user data."""


class Wire(Protocol):
    """A broker: in this process, or behind sockets."""

    def send(self, request: Any) -> Any:
        """Send a request on a connection of its own, and return a handle for `answer`."""

    def answer(self, handle: Any, may_wait: bool = False) -> Any:
        """Return the response. With `may_wait`, None is returned if the broker holds the request."""

    def producer(self, group: str) -> tuple[str, int, int]:
        """Return (transactional id, producer id, epoch) of a transaction to which the group was added."""


@attrs.define
class Group:
    """A group in a state: its name, its generation, and member ids by their names in MEMBERS."""

    wire: Wire
    name: str
    generation: int = 0
    ids: dict[str, str] = attrs.field(factory=lambda: {"none": "", "unknown": "x"})

    def ask(self, request: Any) -> Any:
        return self.wire.answer(self.wire.send(request))

    def join(self, member: str = "", instance: str | None = None, protocol: str = "range") -> JoinGroupRequest:
        protocols = (JoinProtocol(protocol, SUBSCRIPTION),)
        return JoinGroupRequest(5, self.name, LONG_MS, member, "consumer", protocols, LONG_MS, instance)

    def rejoin(self) -> JoinGroupRequest:
        """Return the JoinGroup of the dynamic member with news, which begins a rebalance."""
        return attrs.evolve(self.join(self.ids["dynamic"]), protocols=(JoinProtocol("range", NEWS),))

    def fresh_id(self) -> str:
        response = self.ask(self.join())
        assert response.error_code == MEMBER_ID_REQUIRED
        return str(response.member_id)

    def sync(self, member: str) -> SyncGroupRequest:
        return SyncGroupRequest(3, self.name, self.generation, self.ids[member], (), self._instance(member))

    def assign(self) -> None:
        """Give the static member, which leads, and the dynamic member their assignments."""
        given = tuple(MemberAssignment(self.ids[each], b"") for each in ("static", "dynamic"))
        handles = [
            self.wire.send(self.sync("dynamic")),
            self.wire.send(attrs.evolve(self.sync("static"), assignments=given)),
        ]
        assert [self.wire.answer(handle).error_code for handle in handles] == [NONE, NONE]

    def _instance(self, member: str) -> str | None:
        return "i" if member == "static" else None

    def both_joined(self) -> None:
        handles = [self.wire.send(self.join(self.ids[each], self._instance(each))) for each in ("dynamic", "static")]
        responses = [self.wire.answer(handle) for handle in handles]
        assert [response.error_code for response in responses] == [NONE, NONE]
        self.generation = responses[0].generation_id

    def stable(self) -> None:
        first = self.ask(self.join(instance="i"))
        self.generation, self.ids["static"] = first.generation_id, first.member_id
        given = (MemberAssignment(first.member_id, b""),)
        assert self.ask(attrs.evolve(self.sync("static"), assignments=given)).error_code == NONE
        self.ids |= {"former": first.member_id, "static": self.ask(self.join(instance="i")).member_id}
        self.ids["dynamic"] = self.fresh_id()
        self.both_joined()
        self.assign()
        self.ids["pending"] = self.fresh_id()

    def preparing(self) -> None:
        self.stable()
        self.wire.send(self.rejoin())
        until(lambda: self.ask(DescribeGroupsRequest(5, (self.name,))).groups[0].group_state == "PreparingRebalance")

    def completing(self) -> None:
        self.stable()
        leave = LeaveGroupRequest(4, self.name, (LeavingMember(self.ids["pending"]),))
        assert self.ask(leave).error_code == NONE
        handles = [self.wire.send(self.rejoin()), self.wire.send(self.join(self.ids["static"], "i"))]
        self.generation = next(self.wire.answer(handle).generation_id for handle in handles)
        self.ids["pending"] = self.fresh_id()

    def empty(self) -> None:
        self.stable()
        leaving = tuple(LeavingMember(self.ids[each]) for each in ("dynamic", "static", "pending"))
        assert self.ask(LeaveGroupRequest(4, self.name, leaving)).error_code == NONE
        self.generation += 1
        self.ids["pending"] = self.fresh_id()

    def simple(self) -> None:
        """Commit an offset without being a member."""
        self.ids |= {"dynamic": "d", "static": "s", "former": "f", "pending": "p"}
        assert self.ask(self.commit("none", None, None)).partitions[0].error_code == NONE

    def absent(self) -> None:
        self.ids |= {"dynamic": "d", "static": "s", "former": "f", "pending": "p"}

    def dead(self) -> None:
        self.simple()
        assert self.ask(DeleteGroupsRequest(1, (self.name,))).results[0].error_code == NONE

    def commit(self, member: str, instance: str | None, change: int | None) -> OffsetCommitRequest:
        offsets = (CommittedPartition(TopicPartition(TOPIC, 0), 7),)
        return OffsetCommitRequest(7, self.name, self._generation(change), self.ids[member], offsets, instance)

    def _generation(self, change: int | None) -> int:
        return -1 if change is None else self.generation + change

    # ------------------------------------------------------------------------------------------------ the requests

    def request(self, api: str, member: str, instance: str | None, change: int | None) -> Any:
        id, generation = self.ids[member], self._generation(change)
        match api:
            case "JoinGroup":
                return attrs.evolve(self.join(id), group_instance_id=instance)
            case "JoinGroup of another protocol":
                return attrs.evolve(self.join(id, protocol="other"), group_instance_id=instance)
            case "SyncGroup" | "SyncGroup of another protocol":
                protocol = "range" if api == "SyncGroup" else "other"
                return SyncGroupRequest(5, self.name, generation, id, (), instance, "consumer", protocol)
            case "Heartbeat":
                return HeartbeatRequest(4, self.name, generation, id, instance)
            case "LeaveGroup":
                return LeaveGroupRequest(4, self.name, (LeavingMember(id, instance),))
            case "OffsetCommit":
                return self.commit(member, instance, change)
            case "OffsetCommit with a missing topic":
                commit = self.commit(member, instance, change)
                missing = CommittedPartition(TopicPartition("missing", 0), 7)
                return attrs.evolve(commit, partitions=(missing, *commit.partitions))
            case "TxnOffsetCommit":
                offsets = (CommittedPartition(TopicPartition(TOPIC, 0), 7),)
                transactional_id, producer, epoch = self.wire.producer(self.name)
                return TxnOffsetCommitRequest(
                    *(3, transactional_id, self.name, producer, epoch, offsets), generation, id, instance
                )
            case "OffsetFetch":
                return OffsetFetchRequest(7, self.name, None)
            case "OffsetDelete":
                parts = (OffsetDeletePartition(TopicPartition(topic, 0)) for topic in (TOPIC, ANOTHER))
                return OffsetDeleteRequest(0, self.name, tuple(parts))
            case "DescribeGroups":
                return DescribeGroupsRequest(5, (self.name,))
            case "DeleteGroups":
                return DeleteGroupsRequest(2, (self.name, self.name))
        raise AssertionError(api)


STATES = ("absent", "dead", "simple", "empty", "preparing", "completing", "stable")
OF_MEMBERS = ("JoinGroup", "JoinGroup of another protocol", "LeaveGroup")
COMMITS = ("OffsetCommit", "OffsetCommit with a missing topic", "TxnOffsetCommit")
OF_GENERATIONS = ("SyncGroup", "SyncGroup of another protocol", "Heartbeat", *COMMITS)
OF_GROUPS = ("OffsetFetch", "OffsetDelete", "DescribeGroups", "DeleteGroups")
KEEPS = ("Heartbeat", *COMMITS)
"""Requests that change no members, so that one group serves for all."""
WITHOUT_GROUP, WITH_MEMBERS = STATES[:2], STATES[-3:]
CHANGES = ("0", "79", "0/0", WAITS)
"""Codes of requests that changed the members, or may have done so."""


def code(response: Any) -> str:
    """Return the error codes of a response, and the state of a described group."""
    if response is None:
        return WAITS
    codes = [getattr(response, "error_code", None)]
    for entries in ("members", "partitions", "results", "groups"):
        codes += [getattr(each, "error_code", None) for each in getattr(response, entries, ())]
    states = [each.group_state for each in getattr(response, "groups", ())]
    return " ".join(["/".join(str(each) for each in codes if each is not None), *states])


def table(wire: Wire) -> str:
    """Return the codes of a broker that has the topics TOPIC and ANOTHER; equal codes share a line."""
    numbers = itertools.count()
    lines: dict[tuple[str, str], dict[str, list[str]]] = {}
    """(API, codes) -> members by state."""

    def group(state: str) -> Group:
        made = Group(wire, f"{state}-{next(numbers)}")
        getattr(made, state)()
        return made

    for state in STATES:
        for api in OF_GROUPS:
            response = wire.answer(wire.send(group(state).request(api, "none", None, None)))
            lines.setdefault((api, code(response)), {}).setdefault(state, [])
        for api in (*OF_MEMBERS, *OF_GENERATIONS):
            may_wait = state in WITH_MEMBERS and api not in KEEPS
            at = None
            for member in MEMBERS:
                codes = []
                for instance, change in itertools.product(INSTANCES, (None,) if api in OF_MEMBERS else GENERATIONS):
                    at = group(state) if at is None else at
                    codes.append(code(wire.answer(wire.send(at.request(api, member, instance, change)), may_wait)))
                    if state in WITHOUT_GROUP or (api not in KEEPS and codes[-1] in CHANGES):
                        at = None
                lines.setdefault((api, " ".join(codes)), {}).setdefault(state, []).append(member)
    text = []
    for api in (*OF_GROUPS, *OF_MEMBERS, *OF_GENERATIONS):
        for codes in (codes for other, codes in lines if other == api):
            states: dict[str, list[str]] = {}
            for state, members in lines[api, codes].items():
                states.setdefault(" ".join(members), []).append(state)
            text += [f"{api} | {' '.join(states[each])} | {each} | {codes}\n" for each in states]
    return "".join(text)
