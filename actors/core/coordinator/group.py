"""A consumer group: its members, its committed offsets and its admin operations.

Rule 1: Members of the current generation can commit offsets. While the group is empty, any client can commit offsets
        without a generation. Offsets are committed once their record is in the log. In a transaction, a producer
        without a member id and generation can commit too, because older versions of TxnOffsetCommit have neither.
Rule 2: An empty group without offsets is deleted.
Rule 3: After a change of its coordinator, a group is loaded from the log. A loaded group with members is in the state
        Stable.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from actors.core.coordinator import group_states
from actors.core.coordinator.group_metadata_records import Record
from actors.core.coordinator.log_codes import COMMON_CODES
from actors.core.coordinator.membership import AppendTombstones, Member, Membership, Producer
from actors.core.coordinator.offsets import CONSUMERS, NO_TRANSACTION, Offsets, fetch_offsets, to_commit
from messages import errors, groups
from messages.apis import API_BY_REQUEST
from messages.apis.declaration import PartitionError
from messages.apis.describe_groups import DescribedGroup, DescribedMember
from messages.apis.join_group import NO_MEMBER, JoinProtocol
from messages.apis.offset_commit import OffsetCommitRequest
from messages.apis.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from messages.apis.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from messages.apis.txn_offset_commit import ABORTABLE_SINCE, TxnOffsetCommitRequest
from messages.cluster import NO_EPOCH, TopicPartition
from messages.network import Forwarded
from messages.probes import probe
from messages.records import NO_OFFSET
from messages.vocabulary import AnyMessage, value_class

COMMIT_CODES = {
    **COMMON_CODES,
    errors.MESSAGE_TOO_LARGE: errors.INVALID_COMMIT_OFFSET_SIZE,
    errors.RECORD_LIST_TOO_LARGE: errors.INVALID_COMMIT_OFFSET_SIZE,
    errors.NETWORK_EXCEPTION: errors.COORDINATOR_LOAD_IN_PROGRESS,
    errors.INVALID_PRODUCER_EPOCH: errors.INVALID_PRODUCER_EPOCH,
}
"""Error of the log -> client error code of a failed commit. For a fenced producer it is the log's own code."""


@value_class
class Committing:
    """Offsets that are being written to the log; `codes` are the error codes of all requested partitions."""

    forwarded: Forwarded
    codes: tuple[PartitionError, ...]


class Group(Membership):
    """The state of a consumer group, with its members and committed offsets."""

    def __init__(self, name: str, settings: groups.GroupSettings) -> None:
        super().__init__(name, settings)
        self.offsets = Offsets()

    @classmethod
    def from_log(cls, loaded: groups.LoadedGroup, settings: groups.GroupSettings) -> Group:
        """Return a group with the state that was loaded from the log."""
        group, record = cls(loaded.group, settings), loaded.record
        group.offsets = Offsets.from_log(loaded.offsets, loaded.pending)
        if record is None:
            return group
        group.state = group_states.STABLE if record.members else group_states.EMPTY
        group.protocol_type = record.protocol_type or None
        group.protocol, group.generation = record.protocol, record.generation
        group.leader, group.since_ms = record.leader, record.since_ms
        for each in record.members:
            protocols = (JoinProtocol(record.protocol or "", each.subscription),)
            member = group.members[each.member_id] = Member(
                *(each.member_id, each.instance_id, each.client_id, each.client_host),
                *(each.rebalance_timeout_ms, each.session_timeout_ms, protocols, each.assignment),
            )
            if each.instance_id is not None:
                group.static[each.instance_id] = each.member_id
            group._expect(member)
        group.note_topics()
        return group

    # ------------------------------------------------------------------------------------------------ offsets

    def commit(self, forwarded: Forwarded, unknown: Sequence[TopicPartition], wall_ms: int) -> None:
        """Handle an OffsetCommit or TxnOffsetCommit.

        Args:
            unknown: Requested partitions that do not exist.
            wall_ms: Wall time in milliseconds.
        """
        request: OffsetCommitRequest | TxnOffsetCommitRequest = forwarded.request.request
        retention_ms, producer = groups.NO_TIME, None
        if isinstance(request, TxnOffsetCommitRequest):
            producer = Producer(request.producer_id, request.producer_epoch, request.transactional_id)
        else:
            retention_ms = request.retention_time_ms
        code = self._commit_verdict(request)
        if producer is not None and producer.id < 0:
            code = errors.INVALID_PRODUCER_ID_MAPPING  # Kafka's verification, which precedes the checks of the member
        elif (
            producer is not None
            and code == errors.NONE
            and producer.epoch == NO_EPOCH
            and producer.id in self.offsets.pending
        ):
            code = (
                errors.UNKNOWN_SERVER_ERROR
            )  # in Kafka, an open transaction needs no verification, and the append raises
        codes, entries = to_commit(
            request.partitions, unknown, self._settings.metadata_max_bytes, wall_ms, retention_ms
        )
        if code != errors.NONE:
            nowhere = errors.UNKNOWN_TOPIC_OR_PARTITION
            codes = [each if each.error_code == nowhere else PartitionError(each.partition, code) for each in codes]
        if code != errors.NONE or not entries:
            self._reply(forwarded, _committed_response(forwarded, codes))
            return
        if producer is None and request.member_id in self.members:
            self._expect(self.members[request.member_id])
        records = [groups.OffsetRecord(self.name, partition, value) for partition, value in entries]
        number = self._store(Committing(forwarded, tuple(codes)), *records, producer=producer)
        self.offsets.begin(number, NO_TRANSACTION if producer is None else producer.id, entries)

    def _commit_verdict(self, request: OffsetCommitRequest | TxnOffsetCommitRequest) -> int:
        in_transaction = isinstance(request, TxnOffsetCommitRequest)
        names_member = request.member_id != NO_MEMBER or request.group_instance_id is not None
        if self.state is group_states.DEAD or (self.state is group_states.EMPTY and request.generation_id < 0):
            pass  # an empty group stores offsets for any client, whatever member id or instance id it sends
        elif request.generation_id >= 0 or names_member:
            code = self._verdict_in_generation(request.member_id, request.group_instance_id, request.generation_id)
            if code != errors.NONE:
                return code
        elif not in_transaction:
            return errors.UNKNOWN_MEMBER_ID
        cell = (group_states.COMMIT_IN_TRANSACTION if in_transaction else group_states.COMMIT)[self.state]
        return cell if isinstance(cell, int) else errors.NONE

    def _end_commit(self, number: int, error_code: int, log_offset: int = NO_OFFSET) -> None:
        done: Committing = self._under_way.pop(number)
        self.offsets.end(number, error_code, log_offset)
        code = COMMIT_CODES.get(error_code, error_code)
        if code == errors.TRANSACTION_ABORTABLE and done.forwarded.request.request.version < ABORTABLE_SINCE:
            code = errors.INVALID_TXN_STATE
        codes = [PartitionError(each.partition, each.error_code or code) for each in done.codes]
        self._reply(done.forwarded, _committed_response(done.forwarded, codes))

    def end_transaction(self, ended: groups.TransactionEnded) -> None:
        """Commit or drop the offsets that an ended transaction has in this group."""
        self.offsets.end_transaction(ended)

    def fetch(self, forwarded: Forwarded) -> None:
        """Handle an OffsetFetch."""
        self._reply(forwarded, self.fetch_offsets(forwarded.request.request))

    def fetch_offsets(self, request: OffsetFetchRequest) -> OffsetFetchResponse:
        """Return the response to an OffsetFetch of this group."""
        return fetch_offsets(request, Offsets() if self.state is group_states.DEAD else self.offsets)

    def delete_offsets(self, forwarded: Forwarded, unknown: Sequence[TopicPartition], wall_ms: int) -> None:
        """Handle an OffsetDelete; the `unknown` partitions do not exist."""
        request: OffsetDeleteRequest = forwarded.request.request
        cell = group_states.DELETE_OFFSETS[self.state]
        if cell is group_states.GroupAction.UNSUBSCRIBED and self.protocol_type != CONSUMERS:
            cell = errors.NON_EMPTY_GROUP
        if isinstance(cell, int):
            self._reply(forwarded, OffsetDeleteResponse(cell))
            return
        kept = (lambda topic: False) if cell is group_states.GroupAction.FORGET else self._is_subscribed
        codes = [
            PartitionError(
                tp,
                errors.UNKNOWN_TOPIC_OR_PARTITION
                if tp in unknown
                else errors.GROUP_SUBSCRIBED_TO_TOPIC
                if kept(tp.topic)
                else errors.NONE,
            )
            for tp in (each.partition for each in request.partitions)
        ]
        self.forget([each.partition for each in codes if each.error_code == errors.NONE], wall_ms)
        self._reply(forwarded, OffsetDeleteResponse(errors.NONE, tuple(codes)))

    def _is_subscribed(self, topic: str) -> bool:
        return self.subscribed is None or topic in self.subscribed

    def expire_offsets(self, wall_ms: int) -> None:
        """Delete expired offsets, and the group if it is empty and has no other offsets."""
        over = self.offsets.over(
            self.state, self.protocol_type, self.subscribed, self.since_ms, wall_ms, self._settings.retention_ms
        )
        self.forget(over, wall_ms)

    def forget(self, partitions: Iterable[TopicPartition], wall_ms: int) -> None:
        """Delete the offsets of these partitions, and the group if it is empty and has no other offsets."""
        records: list[Record] = [groups.OffsetRecord(self.name, each, None) for each in self.offsets.forget(partitions)]
        if self.state is group_states.EMPTY and not (self.offsets or self.pending):
            self._enter(group_states.DEAD, wall_ms)
            if self.generation > 0:  # a group of generation 0 never had a member and has no record in the log
                records.append(groups.GroupRecord(self.name, None))
        if records:
            self._to_do.append(AppendTombstones(tuple(records)))

    # ------------------------------------------------------------------------------------------------ admin

    def describe(self) -> DescribedGroup:
        """Return the group's description for DescribeGroups."""
        stable = self.state is group_states.STABLE
        members = [
            DescribedMember(
                *(each.id, each.client_id, each.client_host, each.instance_id),
                *((each.metadata(self.protocol), each.assignment) if stable else ()),
            )
            for each in self.members.values()
        ]
        protocol = self.protocol or "" if stable else ""
        return DescribedGroup(
            errors.NONE, self.name, self.state.value, self.protocol_type or "", protocol, tuple(members)
        )

    def delete(self, wall_ms: int) -> int:
        """Delete the group with its offsets if it is empty; return the error code."""
        cell = group_states.DELETE_GROUP[self.state]
        if isinstance(cell, int):
            return cell
        self.forget(self.offsets.all_partitions(), wall_ms)
        return errors.NONE

    # ------------------------------------------------------------------------------------------------ the log

    def handle_append(self, number: int, error_code: int, wall_ms: int, log_offset: int = NO_OFFSET) -> None:
        """Handle the result of the append with this number.

        Args:
            error_code: The log's error code.
            log_offset: Base offset of the batch.
        """
        if isinstance(self._under_way.get(number), Committing):
            self._end_commit(number, error_code, log_offset)
        else:
            super().handle_append(number, error_code, wall_ms, log_offset)

    def unload(self) -> None:
        """Fail all waiting requests, because another broker is now the group's coordinator."""
        for member in self.members.values():
            self._end_join(member, errors.NOT_COORDINATOR, member.id)
            self._answer_sync(member, errors.NOT_COORDINATOR)
        for number in [number for number, done in self._under_way.items() if isinstance(done, Committing)]:
            probe("a group is unloaded while a commit is under way")
            self._end_commit(number, errors.NOT_COORDINATOR)
        self._under_way.clear()
        probe(f"group {self.state.value} to {group_states.DEAD.value}")
        self.state = group_states.DEAD


def _committed_response(forwarded: Forwarded, codes: Sequence[PartitionError]) -> AnyMessage:
    """Return the response to an OffsetCommit or TxnOffsetCommit."""
    return API_BY_REQUEST[type(forwarded.request.request)].response(tuple(codes))
