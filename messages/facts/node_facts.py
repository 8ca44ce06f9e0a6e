"""Read facts about a node: error codes, injected faults, logs, followers, its session, and how the node ended."""

from __future__ import annotations

import math
import re
from collections import Counter

from messages import log_results, network
from messages.apis.produce import ProduceRequest
from messages.ask import Answer, Ask
from messages.broker import BecomeFollower, BecomeLeader, LogFailed, MergeMetadata, StageMetadata
from messages.client_quotas import ClientsThrottled
from messages.cluster import NO_EPOCH, UNKNOWN_BROKER_EPOCH, TopicPartition, partition_of_log
from messages.facts import declarations
from messages.facts.controller_facts import Emit
from messages.facts.open_requests import OpenClientRequests
from messages.log_cleaner import CLEANED, LogCleaned
from messages.node import NodeFailed, NodeFaultInjected, StopNode
from messages.partition import ChangeIsr, Configure, ThrottleReplicas, ThrottleReplication
from messages.response_codes import codes_with_subjects
from messages.store import CONNECTED, NODE_DELETED, SessionState, WatchEvent
from messages.trace.schema import OUTSIDE, TraceRecord
from messages.vocabulary import Message
from messages.zookeeper.brokers import BrokerRegistered, RegistrationRefused

PARTITION = "PartitionActor"
CONTROLLER_PATH = "/controller"

SIDES = {"PartitionRequestsActor": "leader", "ReplicaFetcherManagerActor": "follower"}
"""The actors that throttle replication, and the side of each."""

UNHEARD = 2 / 3
"""Share of the session timeout in which a node sends nothing to ZooKeeper before its session expires, at the least.

A ZooKeeper client sends a ping after a third of the timeout.
"""

_FETCHER = re.compile(r"fetcher-(\d+)-")
"""The channel of a follower's fetcher, with the id of the leader."""

_LOG_START = {"open": "", "expire": declarations.RETAINED, "advance_start": declarations.DELETED}
"""Calls of the adapter "logs" that return the log start offset, and how they move it."""


class NodeFacts:
    """A reader of one run of a node: it emits the facts about the node; with `metadata`, what its cache stores, too."""

    def __init__(self, emit: Emit, session_timeout: float, metadata: bool) -> None:
        self._emit = emit
        self._metadata = metadata
        self.shortest_gap = session_timeout * UNHEARD or math.inf
        """Seconds without a delivery in which ZooKeeper can have ended the node's session."""
        self._log_ends: dict[str, int] = {}
        """Log end offsets by the directory of the partition."""
        self._log_starts: dict[str, int] = {}
        """Log start offsets by the directory of the partition."""
        self._registered: list[tuple[int, float]] = []
        """Broker epochs of this run, with the time of each registration."""
        self._partitions: dict[str, TopicPartition] = {}
        """Partitions by the address of their actor."""
        self._minimums: dict[TopicPartition, int] = {}
        self._throttles: dict[str, declarations.ReplicationThrottled] = {}
        """The throttles by side."""
        self._gap: declarations.RecordingGap | None = None
        """The last time in which the node recorded nothing."""
        self._connected = False
        """Whether the node has a connection to ZooKeeper."""
        self.requests = OpenClientRequests()

    def note_gap(self, before: declarations.TracePosition, place: declarations.TracePosition) -> None:
        """Note a gap between two deliveries that is longer than `shortest_gap`."""
        self._gap = declarations.RecordingGap(place, place.at - before.at)

    def take(self, place: declarations.TracePosition, record: TraceRecord, message: Message) -> None:
        """Read the next message."""
        match message:
            case network.ClientResponse():
                self._errors(place, message)
            case network.ClientResponses():
                for each in message.responses:
                    self._errors(place, each)
            case network.AccessDenied(denials):
                for denial in denials:
                    self._emit(declarations.OperationDenied(place, *denial))
            case network.AuthenticationsFailed(failures):
                for failed in failures:
                    self._emit(declarations.AuthenticationFailures(place, *failed))
            case ClientsThrottled(throttles):
                for throttle in throttles:
                    self._emit(declarations.ClientThrottled(place, *throttle))
            case LogCleaned(path, state, figures) if state == CLEANED and figures[2] != figures[3]:
                self._emit(declarations.LogPartCleaned(place, partition_of_log(path), *figures[:4]))
            case network.FaultInjected(_, _, client_id, api, fault, value):
                self._emit(declarations.InjectedFaultReturned(place, fault, value, api, client_id))
            case NodeFaultInjected(fault, value, change, hits):
                self._emit(declarations.NodeFaultChange(place, fault, value, change, hits))
            case Answer(_, BrokerRegistered(epoch)):
                self._registered.append((epoch, place.at))
            case Answer(_, RegistrationRefused(owner)):
                self._emit(declarations.RegistrationTaken(place, owner))
            case Ask(_, StageMetadata(part)) if self._metadata:
                self._emit(declarations.MetadataCached(place, None, NO_EPOCH, (), part.entries))
            case Ask(_, MergeMetadata(request)) if self._metadata:
                brokers = tuple(broker.id for broker in request.live_brokers)
                sender = request.controller_id, request.controller_epoch
                self._emit(declarations.MetadataCached(place, *sender, brokers, request.partition_states))
            case Ask(_, BecomeLeader() | BecomeFollower() as order):
                self._partitions[record.receiver] = order.state.partition
                if isinstance(order, BecomeLeader) and order.host is not None:
                    self._minimum(place, order.state.partition, order.host.settings.min_insync_replicas)
            case Configure() if record.receiver in self._partitions:
                self._minimum(place, self._partitions[record.receiver], message.settings.min_insync_replicas)
            case ThrottleReplication() | ThrottleReplicas() if record.actor in SIDES:
                self._throttle_fact(place, SIDES[record.actor], message)
            case ChangeIsr():
                for broker, end, fetched_ago, caught_up_ago in message.lagging:
                    behind = end, message.leader_end, fetched_ago, caught_up_ago, message.lag, message.zk_version
                    self._emit(declarations.FollowerLagged(place, message.partition, message.leader, broker, *behind))
            case network.TransmitFailed():
                fetcher = _FETCHER.match(message.channel)
                if fetcher is not None:
                    self._emit(declarations.FetchFailed(place, int(fetcher[1]), message.reason))
            case SessionState():
                if self._connected and message.state != CONNECTED and self._gap is not None:
                    self._emit(self._gap)
                self._connected = message.state == CONNECTED
                self._emit(declarations.SessionChanged(place, message.state))
            case WatchEvent(path, kind) if (path, kind) == (CONTROLLER_PATH, NODE_DELETED):
                self._emit(declarations.ControllerZnodeDeleted(place))
            case LogFailed():
                self._emit(declarations.LogDirectoryFailed(place, message.partition, message.storage_error))
            case NodeFailed():
                self._emit(declarations.NodeFailure(place, message.reason))
            case StopNode() if record.kind == OUTSIDE:
                self._emit(declarations.StopRequested(place))

    def _minimum(self, place: declarations.TracePosition, partition: TopicPartition, replicas: int) -> None:
        if replicas != self._minimums.get(partition, 1):
            self._minimums[partition] = replicas
            self._emit(declarations.MinInsyncReplicas(place, partition, replicas))

    def _throttle_fact(
        self, place: declarations.TracePosition, side: str, message: ThrottleReplication | ThrottleReplicas
    ) -> None:
        now = self._throttles.get(side, declarations.ReplicationThrottled(place, side, None, {}))._replace(place=place)
        if isinstance(message, ThrottleReplication):
            now = now._replace(rate=message.rate)
        else:
            now = now._replace(topics={**now.topics, **dict(message.topics)})
        self._throttles[side] = now
        self._emit(now)

    def on_disk(self, place: declarations.TracePosition, record: TraceRecord) -> None:
        """Store the offsets that operations on a log return; emit each truncation and each removal of records."""
        if record.actor != PARTITION:
            return
        for effect in record.effects:
            if effect.port != "logs" or effect.error:
                continue
            path = effect.args[0] if effect.args else ""
            result = log_results.named(effect.method, effect.result)
            if effect.method in _LOG_START:
                start = effect.result if result is None else result.start
                before = self._log_starts.get(path, -1)
                if effect.method != "open" and start != before and (before >= 0 or effect.method == "advance_start"):
                    how = _LOG_START[effect.method]
                    why = result.reason if how == declarations.RETAINED else ""
                    client = self.requests.client_of(place.event_id) if how == declarations.DELETED else None
                    moved = before, start, how, why, client
                    self._emit(declarations.LogStartMoved(place, partition_of_log(path), *moved))
                self._log_starts[path] = start
            if result is None or isinstance(result, log_results.SegmentsExpired):
                continue
            if isinstance(result, log_results.LogCut):
                ends = self._log_ends.get(path, -1), result.end
                self._emit(declarations.LogTruncated(place, partition_of_log(path), *ends))
            self._log_ends[path] = result.end

    def end(self, first: declarations.TracePosition, last: declarations.TracePosition, ending: str) -> None:
        """Emit the fact NodeRun, which says when the run began and ended, and how it ended."""
        if not self._registered and first.n > 1:  # the segments with its start were removed
            self._registered.append((UNKNOWN_BROKER_EPOCH, first.at))
        self._emit(declarations.NodeRun(last, first.at, ending, tuple(self._registered)))

    def _errors(self, place: declarations.TracePosition, responded: network.ClientResponse) -> None:
        """Emit the error codes in a response to a client or broker."""
        api = type(responded.response).__name__.removesuffix("Response")
        found = Counter(each for each in codes_with_subjects(responded.response) if each[0])
        asked = self.requests.request(responded.connection, responded.correlation_id) if found else None
        request, client = (None, "") if asked is None else (asked.request, asked.client_id)
        group = getattr(request, "group_id", "")
        for (code, subject), times in found.items():
            batch = self.requests.batch(request, subject) if isinstance(request, ProduceRequest) else None
            self._emit(declarations.ErrorAnswered(place, api, code, subject, times, client, group, batch))
