"""A group without actors: tests send requests by name, read the responses, and advance the time."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from thespian.actors import ActorAddress

from actors.core.coordinator.group import Group
from actors.core.coordinator.group_metadata_records import Record, key_value
from actors.core.coordinator.group_states import COMPLETING, DEAD, EMPTY, PREPARING, STABLE, GroupState
from actors.core.coordinator.loading import Loading, Row
from actors.core.coordinator.membership import AppendRecords, AppendTombstones, ArmTimer, Disarm, LogRebalance, Reply
from actors.core.coordinator.offsets import NO_TRANSACTION
from messages.apis.heartbeat import HeartbeatRequest
from messages.apis.join_group import JoinGroupRequest, JoinGroupResponse, JoinProtocol
from messages.apis.leave_group import LeaveGroupRequest, LeavingMember
from messages.apis.offset_commit import CommittedPartition, OffsetCommitRequest
from messages.apis.offset_delete import OffsetDeletePartition, OffsetDeleteRequest
from messages.apis.offset_fetch import OffsetFetchRequest
from messages.apis.sync_group import MemberAssignment, SyncGroupRequest
from messages.apis.txn_offset_commit import TxnOffsetCommitRequest
from messages.cluster import TopicPartition
from messages.groups import GroupSettings, LoadedGroup, MemberExpired, RebalanceDue, SyncDue, TransactionEnded
from messages.network import ClientRequest, Forwarded
from messages.vocabulary import Message

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
CLIENT = ActorAddress("client")
SESSION_MS, REBALANCE_MS = 10_000, 60_000
START_MS = 1_000_000
RANGE = (JoinProtocol("range", b"\0\1\0\0\0\1\0\1t"),)
"""A consumer's subscription to topic t."""


class Life:
    """Drive one group and its log.

    `log` is the error code with which the log answers each append; with None, the test answers by `stored`. `rows` are
    the records in the log; an append that fails at once adds none.
    """

    def __init__(self, group: Group | None = None, **settings: Any) -> None:
        self.rows: list[Row] = []
        self._end = 0
        """The log end offset."""
        self._placed: dict[int, int] = {}
        """Number of the append -> base offset of its batch."""
        self.settings = GroupSettings(**settings)
        self.group = Group("g", self.settings) if group is None else group
        self.now = START_MS
        self.log: int | None = 0
        self.stores: list[AppendRecords] = []
        self.written: list[Record] = []
        self.timers: dict[str, tuple[int, int, Message]] = {}
        """Timer name -> (due time, sequence number, payload)."""
        self.reasons: list[str] = []
        """Why rebalances began."""
        self._answers: dict[int, Message] = {}
        self._numbers = itertools.count(1)
        self._ids = itertools.count(1)
        self._settle()

    # -------------------------------------------------------------------------------------------- effects

    def _settle(self) -> None:
        while steps := self.group.take():
            for step in steps:
                match step:
                    case Reply(forwarded, response):
                        number = forwarded.request.correlation_id
                        assert number not in self._answers, "a request is answered once"
                        self._answers[number] = response
                    case AppendRecords():
                        self.stores.append(step)
                        self.written += step.records
                        self._append(step)
                    case AppendTombstones(records):  # always stored, also if `log` refuses other appends
                        self.written += records
                        self._write(records, NO_TRANSACTION)
                    case ArmTimer(name, delay_ms, payload):
                        self.timers[name] = self.now + delay_ms, next(self._numbers), payload
                    case Disarm(name):
                        self.timers.pop(name, None)
                    case LogRebalance(_, reason):
                        self.reasons.append(reason)

    def _append(self, step: AppendRecords) -> None:
        if self.log:
            self.group.handle_append(step.number, self.log, self.now)
            return
        self._placed[step.number] = self._end
        self._write(step.records, NO_TRANSACTION if step.producer is None else step.producer.id)
        if self.log is not None:
            self.group.handle_append(step.number, self.log, self.now, self._placed[step.number])

    def _write(self, records: Sequence[Record], producer: int) -> None:
        for record in records:
            key, value = key_value(record, self.settings.format)
            text = None if value is None else value.decode("latin-1")
            self.rows.append((producer, False, key.decode("latin-1"), text, self._end))
        self._end += len(records)

    def stored(self, code: int = 0, which: int = -1) -> None:
        """Answer an append that the log left unanswered."""
        number = self.stores[which].number
        self.group.handle_append(number, code, self.now, self._placed[number])
        self._settle()

    def wait(self, ms: int) -> None:
        """Advance the time and fire each timer when it is due."""
        until = self.now + ms
        while due := [(*at, name) for name, at in self.timers.items() if at[0] <= until]:
            self.now, _, payload, name = min(due)
            del self.timers[name]
            match payload:
                case RebalanceDue():
                    self.group.rebalance_due(self.now)
                case SyncDue(generation):
                    self.group.sync_due(generation, self.now)
                case MemberExpired(member_id):
                    self.group.member_expired(member_id, self.now)
            self._settle()
        self.now = until

    def answer(self, number: int) -> Any:
        """Return the response to a request, or None while the request waits."""
        return self._answers.get(number)

    def _send(self, request: Message, host: str = "/h") -> tuple[int, Forwarded]:
        number = next(self._numbers)
        return number, Forwarded(CLIENT, ClientRequest(1, number, "c", "PLAINTEXT", request, host))

    # -------------------------------------------------------------------------------------------- requests

    def join(self, member: str = "", instance: str | None = None, version: int = 3, **fields: Any) -> int:
        """Send a JoinGroup and return its number.

        New members get the ids m1, m2, ...; with version 3, they join at once.
        """
        defaults: dict[str, Any] = {
            "session_timeout_ms": SESSION_MS,
            "rebalance_timeout_ms": REBALANCE_MS,
            "protocol_type": "consumer",
            "protocols": RANGE,
        }
        request = JoinGroupRequest(version, "g", member_id=member, group_instance_id=instance, **{**defaults, **fields})
        number, forwarded = self._send(request)
        self.group.join(forwarded, "" if member else f"m{next(self._ids)}", self.now)
        self._settle()
        return number

    def sync(
        self, member: str, generation: int | None = None, given: dict[str, bytes] | None = None, **more: Any
    ) -> int:
        assignments = tuple(MemberAssignment(*entry) for entry in (given or {}).items())
        number, forwarded = self._send(
            SyncGroupRequest(5, "g", self._generation(generation), member, assignments, **more)
        )
        self.group.sync(forwarded)
        self._settle()
        return number

    def heartbeat(self, member: str, generation: int | None = None, instance: str | None = None) -> int:
        """Send a Heartbeat and return its error code."""
        number, forwarded = self._send(HeartbeatRequest(4, "g", self._generation(generation), member, instance))
        self.group.heartbeat(forwarded)
        self._settle()
        return int(self.answer(number).error_code)

    def leave(self, *members: str | tuple[Any, ...], version: int = 4) -> Any:
        """Send a LeaveGroup and return the response."""
        leaving = tuple(LeavingMember(*((each,) if isinstance(each, str) else each)) for each in members)
        number, forwarded = self._send(LeaveGroupRequest(version, "g", leaving))
        self.group.leave(forwarded, self.now)
        self._settle()
        return self.answer(number)

    def commit(
        self,
        member: str = "",
        generation: int | None = -1,
        offset: int = 7,
        unknown: tuple[TopicPartition, ...] = (),
        **more: Any,
    ) -> int:
        partitions = more.pop("partitions", (CommittedPartition(T0, offset, 3, "note"),))
        request = OffsetCommitRequest(7, "g", self._generation(generation), member, partitions, **more)
        number, forwarded = self._send(request)
        self.group.commit(forwarded, unknown, self.now)
        self._settle()
        return number

    def commit_in_transaction(
        self,
        producer: int = 1,
        offset: int = 7,
        member: str = "",
        generation: int = -1,
        instance: str | None = None,
        unknown: tuple[TopicPartition, ...] = (),
        partitions: tuple[CommittedPartition, ...] | None = None,
        epoch: int = 0,
        version: int = 3,
    ) -> int:
        """Send a TxnOffsetCommit and return its number."""
        wanted = (CommittedPartition(T0, offset),) if partitions is None else partitions
        request = TxnOffsetCommitRequest(version, "id", "g", producer, epoch, wanted, generation, member, instance)
        number, forwarded = self._send(request)
        self.group.commit(forwarded, unknown, self.now)
        self._settle()
        return number

    def mark(self, producer: int = 1, committed: bool = True) -> TransactionEnded:
        """Append a marker to the log and return the notification for the group."""
        self.rows.append((producer, True, "\0\0\0" + chr(committed), "marker", self._end))
        self._end += 1
        return TransactionEnded(producer, 0, committed, self._end - 1)

    def end_transaction(self, producer: int = 1, committed: bool = True) -> None:
        """Append a marker to the log and notify the group."""
        self.group.end_transaction(self.mark(producer, committed))

    def loaded(self) -> Group:
        """Return the group as the next coordinator loads it from the log."""
        loading = Loading(0)
        loading.take(self.rows)
        [found] = [each for each in loading.groups() if each.group == "g"] or [LoadedGroup("g")]
        return Group.from_log(found, self.settings)

    def fetch(self, stable: bool = False) -> dict[TopicPartition, int]:
        """Return all committed offsets.

        A partition with an error has its negative error code instead; with `stable`, unstable offsets are errors.
        """
        number, forwarded = self._send(OffsetFetchRequest(7, "g", None, stable))
        self.group.fetch(forwarded)
        self._settle()
        return {each.partition: -each.error_code or each.committed_offset for each in self.answer(number).partitions}

    def delete_offsets(self, *partitions: TopicPartition, unknown: tuple[TopicPartition, ...] = ()) -> Any:
        request = OffsetDeleteRequest(0, "g", tuple(OffsetDeletePartition(each) for each in partitions))
        number, forwarded = self._send(request)
        self.group.delete_offsets(forwarded, unknown, self.now)
        self._settle()
        return self.answer(number)

    def expire_offsets(self) -> None:
        self.group.expire_offsets(self.now)
        self._settle()

    def unload(self) -> None:
        self.group.unload()
        self._settle()

    def _generation(self, generation: int | None) -> int:
        return self.group.generation if generation is None else generation

    # -------------------------------------------------------------------------------------------- sequences

    def joined(self, number: int) -> JoinGroupResponse:
        """Return the response to a JoinGroup, which must have been answered."""
        answer = self.answer(number)
        assert isinstance(answer, JoinGroupResponse), "it still waits"
        return answer

    def completing(self, members: int = 2, **fields: Any) -> list[str]:
        """Let new members join, pass the initial delay and return their ids, the leader's first."""
        numbers = [self.join(**fields) for _ in range(members)]
        self.wait(self.settings.initial_rebalance_delay_ms * 2)
        return [self.joined(number).member_id for number in numbers]

    def stable(self, members: int = 2, **fields: Any) -> list[str]:
        """Let new members join, assign each member its own id, and return the ids, the leader's first."""
        ids = self.completing(members, **fields)
        self.assign(*ids)
        return ids

    def assign(self, leader: str, *others: str) -> None:
        """Sync all members, the leader last with all assignments."""
        for member in others:
            self.sync(member)
        self.sync(leader, given={member: member.encode() for member in (leader, *others)})

    @classmethod
    def at(cls, state: GroupState, **settings: Any) -> Life:
        """Return a group in this state, with the members m1 (the leader) and m2 if the state allows members."""
        life = cls(**settings)
        if state is DEAD:
            life.group.expire_offsets(life.now)
        elif state is COMPLETING:
            life.completing()
        elif state in (PREPARING, STABLE):
            life.stable()
            if state is PREPARING:
                life.join("m1")
        elif state is EMPTY:
            life.stable()
            life.leave("m1", "m2")
        life._settle()
        assert life.group.state is state
        return life
