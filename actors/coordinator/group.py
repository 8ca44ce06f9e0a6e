"""GroupActor hosts one consumer group: it manages members and writes their offsets to __consumer_offsets.

Rule 1: `actors.core.coordinator.group` makes the group's decisions. This actor runs the group's timers, and sends the
        group's responses to the clients. It appends the group's records to the group's partition of __consumer_offsets:
        tombstones with acks=0, all other records with acks=all. Tombstones do not need `min.insync.replicas`: if they
        are lost, the next coordinator expires the offsets again (Kafka's `GroupMetadataManager.cleanupGroupMetadata`).
Rule 2: each change of the group's state is sent to the coordinator before the client that caused the change receives
        its response.

Kafka: the timers are `DelayedJoin`, `InitialDelayedJoin`, `DelayedSync` and `DelayedHeartbeat` in their purgatories.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from thespian.actors import ActorAddress, WakeupMessage

from actors.core.coordinator import membership
from actors.core.coordinator.group import Group
from actors.core.coordinator.group_metadata_records import Record, key_value
from actors.runtime import Answerer
from messages import groups
from messages.apis import delete_groups, heartbeat, join_group, leave_group, offset_commit, offset_fetch, sync_group
from messages.apis.produce import ACKS_ALL, ACKS_NONE, ProducePartition
from messages.apis.txn_offset_commit import TxnOffsetCommitRequest
from messages.cluster import TopicPartition
from messages.flow.conversation import slices
from messages.network import Forwarded
from messages.partition import COORDINATOR_VERSION, FROM_COORDINATOR, AppendBatch, AppendBatches, BatchesAppended
from messages.vocabulary import Message
from messages.wire.record_batch import batch_of

log = logging.getLogger("kafka.coordinator.group.GroupCoordinator")

OFFSETS_SEQUENCE = 0
"""Base sequence of each batch of a transaction's offsets: the log does not check the sequences of coordinators."""
RECORDS_AT_ONCE = 500
"""Maximum number of tombstones in one batch. A commit is one batch, which the log appends completely or refuses."""


class GroupActor(Answerer):
    """This actor hosts one consumer group."""

    def __init__(self) -> None:
        super().__init__()
        self._group: Group
        self._settings: groups.GroupSettings
        self._log: TopicPartition
        self._partition: ActorAddress
        self._coordinator: ActorAddress
        self._last_sent: groups.GroupChanged | None = None
        """The last state that was sent to the coordinator."""

    def receiveMsg_StartGroup(self, message: groups.StartGroup, sender: ActorAddress) -> None:
        """Create the group, with the state that was loaded from the log."""
        self._coordinator, self._settings = sender, message.settings
        self._log, self._partition = message.log, message.partition
        self._group = Group.from_log(message.loaded, message.settings)
        self._carry_out()

    @property
    def group(self) -> Group:
        """The hosted group."""
        return self._group

    # ------------------------------------------------------------------------------------------------ requests

    def receiveMsg_Forwarded(self, message: Forwarded, sender: ActorAddress) -> None:
        """Handle a client's request that concerns only this group."""
        group = self._group
        match message.request.request:
            case join_group.JoinGroupRequest() as request:
                group.join(message, self._fresh_id(message, request), self._wall_ms())
            case sync_group.SyncGroupRequest():
                group.sync(message)
            case heartbeat.HeartbeatRequest():
                group.heartbeat(message)
            case leave_group.LeaveGroupRequest():
                group.leave(message, self._wall_ms())
            case offset_fetch.OffsetFetchRequest():
                group.fetch(message)
        self._carry_out()

    def _fresh_id(self, forwarded: Forwarded, request: join_group.JoinGroupRequest) -> str:
        """Return a new member id as in Kafka: the instance id (the client id if there is none), then a UUID."""
        if request.member_id != join_group.NO_MEMBER:
            return join_group.NO_MEMBER
        digits = self.port("random").uuid_hex()
        uuid = "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
        return f"{request.group_instance_id or forwarded.request.client_id}-{uuid}"

    def receiveMsg_CommitOffsets(self, message: groups.CommitOffsets, sender: ActorAddress) -> None:
        """Commit or delete offsets. The message lists the partitions of the request that do not exist."""
        act = (
            self._group.commit
            if isinstance(message.forwarded.request.request, offset_commit.OffsetCommitRequest | TxnOffsetCommitRequest)
            else self._group.delete_offsets
        )
        act(message.forwarded, message.unknown, self._wall_ms())
        self._carry_out()

    def answer(self, question: Message) -> Message:
        """Answer a request that the coordinator makes on behalf of an admin client."""
        match question:
            case groups.DescribeGroup():
                return self._group.describe()
            case groups.FetchOffsets(request):
                return self._group.fetch_offsets(request)
            case groups.DeleteGroup():
                error_code = self._group.delete(self._wall_ms())
                self._carry_out()
                return delete_groups.DeletedGroup(self._group.name, error_code)
        raise TypeError(f"GroupActor has no handler for {type(question).__name__}")

    # --------------------------------------------------------------------------------------------- what comes by itself

    def receiveMsg_WakeupMessage(self, message: WakeupMessage, sender: ActorAddress) -> None:
        """Handle a member's expired timer."""
        match message.payload:
            case groups.RebalanceDue():
                self._group.rebalance_due(self._wall_ms())
            case groups.SyncDue(generation):
                self._group.sync_due(generation, self._wall_ms())
            case groups.MemberExpired(member_id):
                self._group.member_expired(member_id, self._wall_ms())
        self._carry_out()

    def receiveMsg_BatchesAppended(self, message: BatchesAppended, sender: ActorAddress) -> None:
        """Handle the results of appends to the log."""
        for request, _, result in message.results:
            self._group.handle_append(request, result.error_code, self._wall_ms(), result.base_offset)
        self._carry_out()

    def receiveMsg_ExpireOffsets(self, message: groups.ExpireOffsets, sender: ActorAddress) -> None:
        """Expire old offsets."""
        self._group.expire_offsets(self._wall_ms())
        self._carry_out()

    def receiveMsg_ForgetOffsets(self, message: groups.ForgetOffsets, sender: ActorAddress) -> None:
        """Remove the offsets of partitions that were deleted from the cluster."""
        self._group.forget(message.partitions, self._wall_ms())
        self._carry_out()

    def receiveMsg_TransactionEnded(self, message: groups.TransactionEnded, sender: ActorAddress) -> None:
        """Complete or drop a transaction's offsets after its marker was appended."""
        self._group.end_transaction(message)
        self._carry_out()

    def receiveMsg_UnloadGroup(self, message: groups.UnloadGroup, sender: ActorAddress) -> None:
        """Fail pending requests, because another broker coordinates the group."""
        self._group.unload()
        self._carry_out()

    # ---------------------------------------------------------------------------------------------- what is to be done

    def _carry_out(self) -> None:
        """Execute the steps that the group requests (rules 1, 2)."""
        group = self._group
        changed = groups.GroupChanged(
            group.name, group.state.value, group.protocol_type or "", group.offsets.producer_ids
        )
        if changed != self._last_sent:
            self._last_sent = changed
            self.send(self._coordinator, changed)
        for step in group.take():
            match step:
                case membership.Reply(forwarded, response):
                    self.send(*forwarded.reply(response))
                case membership.AppendRecords(number, records, producer):
                    self._append(number, records, producer)
                case membership.AppendTombstones(records):
                    for part in slices(records, RECORDS_AT_ONCE):
                        self._append(0, part, None, ACKS_NONE)
                case membership.ArmTimer(name, delay_ms, payload):
                    self.set_timer(name, delay_ms / 1000, payload)
                case membership.Disarm(name):
                    self.cancel_timer(name)
                case membership.LogRebalance(generation, reason):
                    log.info(
                        "[GroupCoordinator %d]: Preparing to rebalance group %s in state PreparingRebalance"
                        " with old generation %d (%s) (reason: %s)",
                        *(self._settings.node_id, group.name, generation, self._log, reason),
                    )

    def _append(
        self, number: int, records: Sequence[Record], producer: membership.Producer | None, acks: int = ACKS_ALL
    ) -> None:
        pairs = [key_value(record, self._settings.format) for record in records]
        header = () if producer is None else (producer.id, producer.epoch, OFFSETS_SEQUENCE, True)
        part = ProducePartition(self._log, batch_of(pairs, self._wall_ms(), *header))
        timeout = self._settings.commit_timeout_ms / 1000
        id = None if producer is None else producer.transactional_id
        batch = AppendBatch(number, 0, part, acks, COORDINATOR_VERSION, timeout, FROM_COORDINATOR, id)
        self.send(self._partition, AppendBatches((batch,)))

    def _wall_ms(self) -> int:
        return int(self.port("time").wall_ms())
