"""LeaderAndIsrRequests passes a controller's LeaderAndIsr requests to the partitions (broker.md 1.2 - 1.4).

Rule 1: a partition checks an order (its part of the request) before its fetcher is stopped or replaced, so that a
        refused order does not affect the fetcher. The partition itself refuses records that the old fetcher still
        sends, because the records' leader epoch or the partition's role no longer fits.
Rule 2: a log that cannot be created in one directory is created in another. An order that needs an existing log fails
        with error code 56 if that log is unavailable.
Rule 3: a partition that refuses to lead with error code 56, because its log lacks committed records, stays hosted. The
        controller treats it as offline. As soon as another broker leads, this broker reports a changed log directory,
        so that the controller sends its state again, and the partition follows.

Kafka: `ReplicaManager.becomeLeaderOrFollower`, `makeLeaders`, `makeFollowers`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from thespian.actors import ActorAddress

from actors.broker.hosted_partitions import HostedPartitions, Taken
from actors.broker.hosted_topics import HostedTopics
from actors.broker.log_dirs import PARTITIONS_AT_ONCE, LogDirs, directory_of
from actors.core.broker.replica_manager import PartitionsByRole, name_verdict
from actors.core.broker.state_changes import Origin, ignored, stopped_fetchers
from messages import broker
from messages.apis.declaration import PartitionError
from messages.apis.leader_and_isr import LeaderAndIsrPartitionState, LeaderAndIsrRequest
from messages.apis.update_metadata import UpdateMetadataPartitionState
from messages.ask import Failure
from messages.cluster import NO_EPOCH, NO_LEADER, TopicPartition
from messages.errors import KAFKA_STORAGE_ERROR, NONE, UNKNOWN_SERVER_ERROR
from messages.flow import conversation
from messages.partition import FollowedPartition, FollowLeader, ScheduleFollowerCheck
from messages.parts import all_entries
from messages.vocabulary import AnyMessage

_log = logging.getLogger("kafka.server.ReplicaManager")

RoleOrder = broker.BecomeLeader | broker.BecomeFollower


class LeaderAndIsrRequests:
    """Handles LeaderAndIsr requests, one at a time."""

    def __init__(self, hosted: HostedPartitions, topics: HostedTopics, log_dirs: LogDirs) -> None:
        self._hosted = hosted
        self._topics = topics
        self._log_dirs = log_dirs
        self._orders = PartitionsByRole(hosted.broker_id)
        """Reused by each request: the garbage collector would scan new tables as young objects."""
        self._origin: Origin
        self.unled: dict[TopicPartition, None] = {}
        """Partitions that have refused to lead (rule 3)."""
        self.shutting_down = False
        """Whether the node is shutting down: a leader would add this broker to the ISR if it fetched."""

    def serve(
        self, request: LeaderAndIsrRequest, parts: Sequence[AnyMessage], origin: Origin, errors: list[PartitionError]
    ) -> conversation.Flow[None]:
        """Send each partition its new state, leaders first, and collect the error codes (broker.md 1.2).

        Args:
            request: The controller's request; the last part if the request was split.
            parts: The earlier parts of a split request.
            origin: The request's sender, for logs.
            errors: Receives the error code of each partition.
        """
        orders, self._origin = self._orders, origin
        orders.clear()
        yield from conversation.for_each(all_entries(parts, request), orders.take)
        _log.info(
            "[Broker id=%d] Handling LeaderAndIsr request from controller %d epoch %d: %d become-leader and "
            "%d become-follower partitions",
            *(self._hosted.broker_id, request.controller_id, request.controller_epoch),
            *(len(orders.leading), len(orders.following)),
        )
        yield from self._topics.read((orders.leading, orders.following))
        yield from self._lead(orders, errors)
        if orders.following:
            yield from self._follow(orders, errors)
            yield from conversation.for_each(orders.following, self._hosted.drop_producer_counts)
        orders.clear()

    def _lead(self, orders: PartitionsByRole, errors: list[PartitionError]) -> conversation.Flow[None]:
        hosted, leading = self._hosted, 0
        left: list[TopicPartition] = []
        for window in conversation.chunks(orders.leading.values(), PARTITIONS_AT_ONCE):
            taken = yield from self._take_roles(window, broker.become_leader, errors)
            hosted.note_leaderships(taken)
            left += [order.partition for _, order, result in taken if result.leads]
            if len(left) >= conversation.SLICE:
                leading += hosted.unfollow(left)
                left = []
        leading += hosted.unfollow(left)
        if leading:
            hosted.log_change(logging.INFO, stopped_fetchers(self._origin, leading, leading=True))

    def _follow(self, orders: PartitionsByRole, errors: list[PartitionError]) -> conversation.Flow[None]:
        following = 0
        brokers = yield from conversation.ask(broker.GetAliveBrokers())
        alive = frozenset(brokers.ids)
        for window in conversation.chunks(orders.following.values(), PARTITIONS_AT_ONCE):
            taken = yield from self._take_roles(
                window, lambda order, log, host: broker.BecomeFollower(order, log, host, order.leader in alive), errors
            )
            following += self._fetch(taken, brokers)
            self._hosted.note_leaderships(taken)
        if following:
            self._hosted.log_change(logging.INFO, stopped_fetchers(self._origin, following, leading=False))

    def _fetch(self, taken: Sequence[Taken], brokers: broker.AliveBrokers) -> int:
        """Start to fetch the partitions that have a new role, each from its leader.

        Return the number of these partitions.

        A partition stops fetching from its old leader even if the new leader is unreachable. During a shutdown no
        partition begins to fetch. Otherwise a new leader would add this broker to the ISR just before this broker
        stops.
        """
        endpoints = {} if self.shutting_down else dict(zip(brokers.ids, brokers.endpoints, strict=True))
        by_leader: dict[int, list[FollowedPartition]] = {}
        left: list[TopicPartition] = []
        for actor, order, result in taken:
            if result.changed and endpoints.get(order.leader) is None:
                left.append(order.partition)
            elif result.changed:
                by_leader.setdefault(order.leader, []).append(
                    FollowedPartition(
                        *(order.partition, actor, order.leader_epoch),
                        *(result.log_end_offset, result.high_watermark, result.latest_epoch),
                        self._hosted.broker_id in order.adding_replicas,
                    )
                )
        for leader, partitions in by_leader.items():
            endpoint = endpoints[leader]
            assert endpoint is not None
            self._hosted.send(self._hosted.start.fetcher_manager, FollowLeader(leader, endpoint, tuple(partitions)))
        return self._hosted.unfollow(left) + sum(map(len, by_leader.values()))

    def _take_roles(
        self,
        orders: Sequence[LeaderAndIsrPartitionState],
        become: Callable[
            [LeaderAndIsrPartitionState, broker.LogPlace | None, broker.PartitionContext | None], RoleOrder
        ],
        errors: list[PartitionError],
    ) -> conversation.Flow[list[Taken]]:
        """Send these states to their partitions (rule 2); return the accepted states with the partitions' replies."""
        hosted, log_dirs, directories = self._hosted, self._log_dirs, self._log_dirs.directories
        taken: list[Taken] = []
        placed: list[
            tuple[ActorAddress, LeaderAndIsrPartitionState, broker.LogPlace | None, broker.PartitionContext | None]
        ] = []
        looks: dict[float, list[ActorAddress]] = {}
        for order in orders:
            partition, host, error_code = order.partition, None, KAFKA_STORAGE_ERROR
            actor = hosted.actors.get(partition)
            if actor is None and partition not in hosted.actors and (error_code := name_verdict(partition)) == NONE:
                actor, host = hosted.host(partition), self._topics[partition.topic]
            if actor is not None:
                placed.append((actor, order, log_dirs.place(partition, order.is_new), host))
            else:
                errors.append(PartitionError(partition, error_code))
                self._ignored(order, error_code)
        hosted.notify()
        if not placed:
            yield conversation.Pause()
        while placed:
            results = yield from conversation.ask_all(
                [(actor, become(order, log, host)) for actor, order, log, host in placed]
            )
            asked, placed = placed, []
            failures: dict[str, str] = {}
            for (actor, order, log, _), result in zip(asked, results, strict=True):
                partition = order.partition
                if (isinstance(result, Failure) or not result.has_log) and log is not None and log.missing:
                    directories.forget(partition)
                if isinstance(result, Failure):
                    errors.append(PartitionError(partition, UNKNOWN_SERVER_ERROR))
                    continue
                if result.look_at is not None:
                    looks.setdefault(result.look_at, []).append(actor)
                if result.storage_error and log is not None:
                    failures[directory_of(log.path)] = result.storage_error
                    if log.missing:
                        placed.append((actor, order, None, None))
                        continue
                errors.append(PartitionError(partition, result.error_code))
                if result.error_code != NONE:
                    self._ignored(order, result.error_code, result.leader_epoch)
                if result.error_code == KAFKA_STORAGE_ERROR and result.has_log and not result.storage_error:
                    self.unled[partition] = None
                elif result.error_code == KAFKA_STORAGE_ERROR:
                    hosted.take_offline(partition)
                    if not result.storage_error:  # the log directory stays online, but has no log of this partition
                        directories.forget(partition)
                else:
                    if result.error_code == NONE:
                        taken.append((actor, order, result))
                        if not result.leads:
                            hosted.count_replicas(partition, 0)
                        elif result.leader_epoch == order.leader_epoch:  # else the order was older than the role
                            hosted.count_replicas(partition, len(order.replicas))
                    hosted.counts.count(partition, result.leads, result.health_flags)
            for at, leaders in looks.items():
                hosted.send(hosted.start.isr_keeper, ScheduleFollowerCheck(at, tuple(leaders)))
            looks.clear()
            for directory, storage_error in failures.items():
                yield from log_dirs.fail(directory, storage_error)
            placed = [  # is_new=True: the first call of log_dirs.place has already permitted a new log
                (actor, order, log_dirs.place(order.partition, is_new=True), None) for actor, order, _, _ in placed
            ]
        return taken

    def led_elsewhere(self, states: Sequence[UpdateMetadataPartitionState]) -> None:
        """Request the state of each partition that has refused to lead and now has another leader (rule 3)."""
        led = [
            state.partition
            for state in states
            if state.partition in self.unled and state.leader not in (NO_LEADER, self._hosted.broker_id)
        ]
        for partition in led:
            del self.unled[partition]
        if led:
            self._log_dirs.report()

    def _ignored(self, order: LeaderAndIsrPartitionState, code: int, known: int = NO_EPOCH) -> None:
        """Log why a partition's new state is ignored; at level INFO if the same state arrived before."""
        level = logging.INFO if order.leader_epoch == known else logging.WARNING
        text = ignored(self._origin, order.partition, code, order.leader_epoch, known, order.replicas)
        self._hosted.log_change(level, text)
