"""Replication: high watermarks, the ISR of lagging replicas, and what leaders acknowledge and return."""

from __future__ import annotations

from collections.abc import Iterator

from actors.broker.isr_keeper import BY_CONTROLLER
from actors.simulation import observed_facts
from actors.simulation.monitors.monitor import Monitor, invariant
from actors.simulation.observed_facts import FAULTS, START
from actors.simulation.reachability import SLACK
from messages import errors
from messages.apis.fetch import READ_COMMITTED, READ_UNCOMMITTED, FetchRequest
from messages.apis.leader_and_isr import LeaderAndIsrRequest
from messages.apis.produce import ACKS_ALL, ProduceRequest
from messages.cluster import TopicPartition
from messages.protocol_version import at_least
from messages.wire.record_batch import whole_batches

PROMPT = 0.3
"""Seconds within which a node without a fault answers a fetch when it has data."""


class ReplicationInvariants(Monitor):
    """The rules for high watermarks and for lagging replicas, and for what leaders acknowledge and return."""

    @invariant("high watermarks never decrease", "broker.md 3.5")
    def _high_watermarks_never_decrease(self, fact: observed_facts.HighWatermarkMoved) -> Iterator[str]:
        if fact.after < fact.before:
            yield f"node {fact.node}: the high watermark of {fact.log} fell from {fact.before} to {fact.after}"

    @invariant("high watermarks never exceed the log end", "broker.md 3.5, 4.5")
    def _high_watermarks_never_exceed_the_log_end(self, fact: observed_facts.LogCalled) -> Iterator[str]:
        if fact.view.high_watermark > fact.view.end:
            yield (
                f"{fact.partition}: node {fact.node} has high watermark {fact.view.high_watermark} and log end"
                f" {fact.view.end} after {fact.method}"
            )

    @invariant("lagging replicas leave the ISR", "broker.md 3.1")
    def _lagging_replicas_leave_the_isr(self, fact: observed_facts.Ticked) -> Iterator[str]:
        """A replica is not in the ISR if it lacks records that its leader had 1.5 * replica.lag.time.max.ms ago.

        A replica is excepted if it entered the ISR after that time. Such a replica may lack records above the high
        watermark, which does not advance while the ISR is smaller than min.insync.replicas. A replica is also excepted
        if its broker was unhealthy after that time and also had a power failure, even an earlier one. A power failure
        loses unflushed records. A leader of protocol version 2.7 or later changes the ISR only through the controller.
        """
        replicas, cluster = self.replicas, self.cluster
        lag = next(iter(cluster.machines.values())).settings.replica_lag_time_max_ms / 1000
        long = 1.5 * lag + SLACK
        for partition in replicas.with_records.values():
            state = self.states.get(partition)
            if state is None or len(state.isr) < 2 or state.leader not in cluster.machines:
                continue
            if partition.topic in self.deleting:
                continue
            logs = replicas.logs_of(partition)
            leader = logs.get(state.leader)
            if leader is None or all(node in logs and logs[node].end >= leader.end for node in state.isr):
                continue  # every replica has all records: this is so for most partitions most of the time
            observed = self.observed
            if observed.led_for(state.leader, partition) < long or observed.healthy_for(state.leader) < long:
                continue
            if observed.was_led_before(state.leader, partition):
                continue
            protocol = cluster.machines[state.leader].settings.inter_broker_protocol_version
            if at_least(protocol, BY_CONTROLLER) and self.nodes.controlled_for(state.leader) < long:
                continue
            had = leader.end_at(self.now - long)
            for replica in state.isr:
                end = logs[replica].end if replica in logs else 0
                since = self.znodes.in_sync_since.get((replica, partition), 0.0)
                if replica in self.observed.power_failed_at:
                    # The leader notices the loss when the replica fetches again.
                    since = max(since, self.nodes.unhealthy_at.get(replica, 0.0))
                if replica != state.leader and end < had and self.now - since > long:
                    yield (
                        f"{partition}: {replica} is in the ISR {state.isr} with log end {end}; leader {state.leader}"
                        f" had {had} records {long:g} s ago, and replica.lag.time.max.ms is {lag:g} s"
                    )

    @invariant(
        "high watermarks need min.insync.replicas",
        "broker.md 3.5, Kafka 3.9 `Partition.maybeIncrementLeaderHW`",
        lacks=START,
    )
    def _high_watermarks_need_min_insync_replicas(self, fact: observed_facts.HighWatermarkRaised) -> Iterator[str]:
        """A leader commits only records that at least min.insync.replicas logs have, and none while the ISR is smaller.

        The number of logs is not checked while a topic is being deleted: a follower may then have deleted its log
        before the leader handles the follower's last fetch.
        """
        partition = fact.partition
        required = self.znodes.least_insync(partition)
        if required < 2 or self.observed.may_lack(partition):
            return
        holders = self.observed.holders(partition, fact.after)
        if len(holders) < required and partition.topic not in self.deleting:
            yield (
                f"{partition}: leader {fact.node} raised the high watermark to {fact.after}, which only {holders}"
                f" have; min.insync.replicas is {required}"
            )
        state = self.states.get(partition)
        settled = 3.0
        if (
            state is not None
            and state.leader == fact.node
            and len(state.isr) < required
            and self.now - self.znodes.written_at.get(partition, 0.0) > settled
            and self.observed.led_for(fact.node, partition) > settled
            and self.observed.healthy_for(fact.node) > settled
        ):
            yield (
                f"{partition}: leader {fact.node} raised the high watermark to {fact.after} with ISR {state.isr};"
                f" min.insync.replicas is {required}"
            )

    @invariant("high watermarks are in the logs of the ISR", "broker.md 3.5, KIP-497")
    def _high_watermarks_are_in_the_logs_of_the_isr(self, fact: observed_facts.HighWatermarkRaised) -> Iterator[str]:
        """A leader commits only records that each ISR member has; replicas that are just being added count, too."""
        yield from self._beyond_the_isr(fact.node, fact.partition, fact.after)

    def _beyond_the_isr(self, node: int, partition: TopicPartition, high_watermark: int) -> Iterator[str]:
        """Yield a violation for each ISR member that lacks committed records of a leader.

        Replicas that a reassignment removes are not checked. The leader may receive the target replicas before they are
        written to ZooKeeper; it then no longer waits for the other replicas.
        """
        state = self.states.get(partition)
        if (
            state is None
            or state.leader != node
            or not self.observed.led_for(node, partition)
            or self.observed.may_lack(partition)
        ):
            return
        if self.observed.was_led_before(node, partition) or partition.topic in self.deleting:
            return
        removing = self.assigned[partition].removing if partition in self.assigned else ()
        for replica in set(state.isr).difference(removing):
            log = self.replicas.log(replica, partition)
            if log is not None and log.end < high_watermark and not self.observed.is_hurt(replica):
                yield (
                    f"{partition}: leader {node} has high watermark {high_watermark}; {replica} of the ISR {state.isr}"
                    f" has log end {log.end}"
                )

    @invariant("followers know what is committed", "broker.md 4.5, KIP-227")
    def _followers_know_what_is_committed(self, fact: observed_facts.ClusterAtRest) -> Iterator[str]:
        """At rest, all that the ISR has is committed, and it has its leader's high watermark.

        Fetch sessions send a high watermark that moves without records, and take all fetch offsets. A follower that
        truncates its log after a response does not use the offsets in it; a session sends them again when they move.
        """
        for partition, state in self.znodes.remaining.items():
            logs = self.replicas.logs_of(partition)
            if self.nodes.can_commit(partition) and state.leader in logs and not self.observed.may_lack(partition):
                nodes = (state.leader,) if partition in self.replicas.diverged else state.isr
                known = {node: logs[node].high_watermark for node in nodes if node in logs}
                if set(known.values()) != {min(logs[node].end for node in state.isr if node in logs)}:
                    yield f"{partition}: the ISR of leader {state.leader} has the high watermarks {known}"

    @invariant("consumers read committed records", "broker.md 3.7, KIP-98", FetchRequest)
    def _consumers_read_committed_records(self, fact: observed_facts.ResponseSent) -> Iterator[str]:
        """Consumers receive only records below the high watermark (READ_COMMITTED: below the last stable offset)."""
        request = fact.request
        if request.replica_id >= 0:
            return
        for result in fact.response.partitions:
            if result.error_code != errors.NONE:
                continue
            yield from self._beyond_the_isr(fact.node, result.partition, result.high_watermark)
            if result.last_stable_offset > result.high_watermark:
                yield (
                    f"{result.partition}: leader {fact.node} has last stable offset {result.last_stable_offset},"
                    f" beyond its high watermark {result.high_watermark}"
                )
            if not self.observed.is_simulated:
                continue  # a trace has no records
            limit = result.high_watermark if request.isolation_level == READ_UNCOMMITTED else result.last_stable_offset
            data = result.body.data if result.body.size else b""
            last = max((header.last_offset for _, header in whole_batches(data)), default=-1)
            if last >= limit:
                yield (
                    f"{result.partition}: leader {fact.node} sent a consumer offset {last}; the limit of its isolation"
                    f" level {request.isolation_level} is {limit}"
                )

    @invariant("acks=all needs min.insync.replicas", "broker.md 3.6", ProduceRequest, lacks=START)
    def _acks_all_needs_min_insync_replicas(self, fact: observed_facts.ResponseSent) -> Iterator[str]:
        """A leader acknowledges with acks=all only records that at least min.insync.replicas logs have.

        If the ISR is too small for the whole time of a request, the leader must refuse the request and not let it time
        out. This is checked only for healthy leaders: if a leader's connection to ZooKeeper is disturbed, the leader
        may learn late that its write of the ISR succeeded.
        """
        if fact.request.acks != ACKS_ALL:
            return
        for result in fact.response.partitions:
            required, state = self.znodes.least_insync(result.partition), self.states.get(result.partition)
            gone = self.znodes.was_deleted_since(result.partition.topic, fact.at)
            if (
                result.error_code == errors.REQUEST_TIMED_OUT
                and state is not None
                and len(state.isr) < required
                and self.znodes.written_at[result.partition] < fact.at - SLACK
                and self.observed.led_for(fact.node, result.partition) > self.now - fact.at + SLACK
                and self.observed.healthy_for(fact.node) > self.now - fact.at + SLACK
                and not gone
            ):
                yield (
                    f"{result.partition}: leader {fact.node} appended records with acks=all, which timed out;"
                    f" its ISR was {state.isr} all the time, and min.insync.replicas is {required}"
                )
            if result.error_code == errors.NONE and not gone and not self.observed.may_lack(result.partition):
                holders = self.observed.holders(result.partition, result.base_offset + 1)
                if len(holders) < required:
                    yield (
                        f"{result.partition}: leader {fact.node} acknowledged offset {result.base_offset} with"
                        f" acks=all, which only {holders} have; min.insync.replicas is {required}"
                    )

    @invariant("acks=all waits for the high watermark", "broker.md 3.6", ProduceRequest)
    def _acks_all_waits_for_the_high_watermark(self, fact: observed_facts.ResponseSent) -> Iterator[str]:
        """For acks=all, a leader acknowledges only records below its high watermark."""
        if fact.request.acks != ACKS_ALL:
            return
        for result in fact.response.partitions:
            log = self.replicas.log(fact.node, result.partition)
            if (
                result.error_code != errors.NONE
                or log is None
                or self.znodes.was_deleted_since(result.partition.topic, fact.at)
            ):
                continue
            if log.high_watermark <= result.base_offset and not self.observed.is_lossy(result.partition):
                yield (
                    f"{result.partition}: leader {fact.node} acknowledged offset {result.base_offset} with acks=all;"
                    f" its high watermark is {log.high_watermark}"
                )

    @invariant("damaged replicas do not lead", "broker.md 5.6.7", LeaderAndIsrRequest)
    def _damaged_replicas_do_not_lead(self, fact: observed_facts.ResponseSent) -> Iterator[str]:
        """A replica that lost committed records does not lead while another ISR member has a good copy."""
        for partition, isr in self.replicas.leads_without_records(fact.node, fact.request, fact.response):
            view = self.replicas.log(fact.node, partition)
            if set(isr) != {fact.node} and view is not None and not self.observed.is_lossy(partition):
                yield (
                    f"{partition}: node {fact.node} leads with log end offset {view.end}, although its records before"
                    f" {view.lost_before} were committed; the ISR is {isr}"
                )

    @invariant("replicas of the ISR keep committed records", "broker.md 4.4, KIP-101")
    def _in_sync_replicas_keep_committed_records(self, fact: observed_facts.LogCalled) -> Iterator[str]:
        """A replica of the ISR truncates no committed record, because its leader has the same record (KIP-101)."""
        if fact.method not in ("truncate", "restart") or self.observed.is_lossy(fact.partition):
            return
        state = self.states.get(fact.partition)
        if state is None or fact.node not in state.isr or fact.partition.topic in self.deleting:
            return
        committed = min(self.replicas.largest_high_watermark(fact.partition), fact.end_before)
        if fact.view.end < committed:
            yield (
                f"{fact.partition}: {fact.node} of the ISR {state.isr} truncated its log to {fact.view.end};"
                f" the records before {committed} are committed"
            )

    @invariant("waiting fetches end when there is data", "broker.md 3.7, DelayedFetch", FetchRequest, lacks=FAULTS)
    def _waiting_fetches_end_when_there_is_data(self, fact: observed_facts.ResponseSent) -> Iterator[str]:
        """A consumer's fetch stops waiting as soon as there is a record below the limit of its isolation level."""
        request, now = fact.request, self.now
        if request.replica_id >= 0 or not request.max_wait_ms:
            return
        if self.observed.healthy_for(fact.node) < now - fact.at:
            return
        codes = {result.partition: result.error_code for result in fact.response.partitions}
        for part in request.partitions:
            view = self.replicas.log(fact.node, part.partition)
            if view is None or codes.get(part.partition, errors.NONE) != errors.NONE:
                continue
            since = view.readable_since(part.fetch_offset, request.isolation_level == READ_COMMITTED)
            if since is not None and now - max(since, fact.at) > PROMPT:
                yield (
                    f"{part.partition}: a fetch from offset {part.fetch_offset} arrived at {fact.at:.3f} s; node"
                    f" {fact.node} had the record at {since:.3f} s and answered at {now:.3f} s"
                )
