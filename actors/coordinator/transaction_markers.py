"""TransactionMarkersActor finds the leaders of the partitions to which the markers of a transaction are written.

Rule 1: the metadata cache returns the leaders. For each broker, a separate MarkerSenderActor sends the markers to that
        broker. A sender is created when it is first needed, and is replaced if the broker's endpoint has changed.
Rule 2: a partition without a live leader waits, and its leader is requested again after RETRY_SECONDS. Markers also
        wait if a broker did not write them.
Rule 3: a partition that the metadata cache lacks may be new or deleted, so its topic is read from ZooKeeper. A deleted
        partition needs no marker; an existing partition waits.
Rule 4: when this broker does not lead a partition of __transaction_state any more, the markers of that partition's
        transactions are dropped here and in the MarkerSenderActors.

Kafka: `TransactionMarkerChannelManager`.
"""

from __future__ import annotations

from collections.abc import Iterable

from thespian.actors import ActorAddress, ChildActorExited, WakeupMessage

from actors.coordinator.broker_senders import BrokerSenders
from actors.coordinator.marker_sender import MarkerSenderActor
from messages import transactions
from messages.ask import Answer, Ask
from messages.cluster import TopicPartition
from messages.metrics import Gauge, Gauges
from messages.probes import probe
from messages.zookeeper import Assignments, GetAssignments

RETRY, RETRY_SECONDS = "retry", 0.1
UNKNOWN_DESTINATION = "kafka_coordinator_transaction_transactionmarkerchannelmanager_unknowndestinationqueuesize"
LOG_APPEND_RETRY = "kafka_coordinator_transaction_transactionmarkerchannelmanager_logappendretryqueuesize"


class TransactionMarkersActor(BrokerSenders):
    """Each broker has one such actor; it sends transaction markers to the leaders of a transaction's partitions."""

    SENDER = MarkerSenderActor
    CHANNELS = "markers"

    def __init__(self) -> None:
        super().__init__()
        self._start: transactions.StartTransactionMarkers
        self._due: list[transactions.Marker] = []
        """Markers whose leaders are not requested yet."""
        self._asked: dict[int, list[transactions.Marker]] = {}
        """Markers whose leaders are requested from the metadata cache, by number of the request."""
        self._missing: dict[int, list[transactions.Marker]] = {}
        """Markers of partitions that the metadata cache lacks, by number of the request to ZooKeeper."""
        self._unknown: list[transactions.Marker] = []
        """Markers without a live leader (rule 2)."""
        self._again: list[transactions.Marker] = []
        """Markers that were not written."""
        self._waits = False
        self._questions = 0
        self._gauges = {UNKNOWN_DESTINATION: 0, LOG_APPEND_RETRY: 0}
        """The last published values."""
        self._to_retry: dict[int, int] = {}
        """Partition of __transaction_state -> number of completions that must be appended again."""

    def receiveMsg_StartTransactionMarkers(
        self, message: transactions.StartTransactionMarkers, sender: ActorAddress
    ) -> None:
        """Set the actors that this actor sends requests to, and publish the metrics."""
        self._start = message
        if message.metrics is not None:
            self.send(message.metrics, Gauges(tuple([Gauge(*each) for each in self._gauges.items()])))

    def receiveMsg_SendMarkers(self, message: transactions.SendMarkers, sender: ActorAddress) -> None:
        """Queue the markers of an ended transaction."""
        self._due += message.markers
        self._find()

    def receiveMsg_RetryMarkers(self, message: transactions.RetryMarkers, sender: ActorAddress) -> None:
        """Queue markers that a broker did not write."""
        self._again += message.markers
        self._wait()

    def receiveMsg_WakeupMessage(self, message: WakeupMessage, sender: ActorAddress) -> None:
        """Find the leaders of waiting markers again."""
        self._waits = False
        self._due += [*self._unknown, *self._again]
        self._unknown, self._again = [], []
        self._find()

    def receiveMsg_DropMarkers(self, message: transactions.DropMarkers, sender: ActorAddress) -> None:
        """Drop the markers of ids that this broker does not coordinate any more (rule 4)."""
        gone = message.state_partition

        def remaining(markers: Iterable[transactions.Marker]) -> list[transactions.Marker]:
            return [each for each in markers if each.state_partition != gone]

        self._due, self._unknown, self._again = remaining(self._due), remaining(self._unknown), remaining(self._again)
        self._asked = {number: remaining(markers) for number, markers in self._asked.items()}
        self._missing = {number: remaining(markers) for number, markers in self._missing.items()}
        for sender_actor, _ in self._senders.values():
            self.send(sender_actor, message)
        self._to_retry.pop(gone, None)
        self._publish()

    def receiveMsg_CompletionsToRetry(self, message: transactions.CompletionsToRetry, sender: ActorAddress) -> None:
        """Store and publish how many completion records of a __transaction_state partition must be appended again."""
        self._to_retry[message.partition] = message.count
        self._publish()

    def receiveMsg_ChildActorExited(self, message: ChildActorExited, sender: ActorAddress) -> None:
        """Ignore the exit of a child that sent requests: this actor stopped the child."""

    # ------------------------------------------------------------------------------------------------ destinations

    def _find(self) -> None:
        """Ask for the leaders of partitions, one request at a time."""
        if self._asked or not self._due:
            return
        self._questions += 1
        markers, self._due = self._due, []
        self._asked[self._questions] = markers
        partitions = tuple(dict.fromkeys([each for marker in markers for each in marker.partitions]))
        self.send(self._start.metadata_cache, Ask(self._questions, transactions.FindLeaders(partitions)))

    def receiveMsg_Answer(self, message: Answer, sender: ActorAddress) -> None:
        """Handle the leaders from the metadata cache, or the topics from ZooKeeper."""
        if message.id in self._asked:
            markers = self._asked.pop(message.id)
            if isinstance(message.result, transactions.LeadersFound):
                self._dispatch(markers, message.result.leaders)
            else:
                self._unknown += markers
            self._find()
        elif message.id in self._missing:
            markers = self._missing.pop(message.id)
            if isinstance(message.result, Assignments):
                self._complete_deleted(markers, message.result)
            else:
                self._unknown += markers
        self._wait()
        self._publish()

    def _dispatch(self, markers: list[transactions.Marker], leaders: tuple[transactions.PartitionLeader, ...]) -> None:
        """Divide markers among the senders."""
        asked = dict.fromkeys([each for marker in markers for each in marker.partitions])
        places = dict(zip(asked, leaders, strict=False))
        by_broker: dict[int, list[transactions.Marker]] = {}
        missing: list[transactions.Marker] = []
        for marker in markers:
            groups: dict[int | None, list[TopicPartition]] = {}
            for partition in marker.partitions:
                place = places.get(partition, transactions.PartitionLeader(True, -1, None))
                broker = place.leader if place.endpoint is not None else -1
                groups.setdefault(broker if place.exists else None, []).append(partition)
            for broker_id, partitions in groups.items():
                part = marker._replace(partitions=tuple(partitions))
                if broker_id is None:
                    missing.append(part)
                elif broker_id < 0:
                    self._unknown.append(part)
                else:
                    by_broker.setdefault(broker_id, []).append(part)
        endpoints = {place.leader: place.endpoint for place in leaders if place.endpoint is not None}
        for broker_id, its in by_broker.items():
            self.send(self.sender_to(broker_id, endpoints[broker_id]), transactions.SendMarkers(tuple(its)))
        if missing:
            self._ask_zookeeper(missing)

    def _ask_zookeeper(self, markers: list[transactions.Marker]) -> None:
        """Read from ZooKeeper which partitions of these markers are deleted (rule 3)."""
        probe("a marker is due for a partition that the metadata cache lacks")
        self._questions += 1
        self._missing[self._questions] = markers
        topics = tuple(sorted({each.topic for marker in markers for each in marker.partitions}))
        self.send(self._start.bridge, Ask(self._questions, GetAssignments(topics, watch=False)))

    def _complete_deleted(self, markers: list[transactions.Marker], found: Assignments) -> None:
        """Send PartitionsMarked for partitions of deleted topics; keep the markers of other partitions for a retry."""
        existing = {topic.topic for topic in found.topics} | set(found.unreadable)
        for marker in markers:
            known = [each for each in marker.partitions if each.topic in existing]
            gone = tuple([each for each in marker.partitions if each not in known])
            if gone:
                who = marker.transactional_id, marker.producer_id, marker.producer_epoch
                self.send(marker.owner, transactions.PartitionsMarked(*who, gone))
            if known:
                self._unknown.append(marker._replace(partitions=tuple(known)))

    # ------------------------------------------------------------------------------------------------ waiting, figures

    def _wait(self) -> None:
        """Start the retry timer while markers wait (rule 2)."""
        if (self._unknown or self._again) and not self._waits:
            self._waits = True
            self.set_timer(RETRY, RETRY_SECONDS, transactions.RetryDue())

    def _publish(self) -> None:
        """Publish the metrics that changed."""
        figures = {UNKNOWN_DESTINATION: len(self._unknown), LOG_APPEND_RETRY: sum(self._to_retry.values())}
        changed = tuple([Gauge(name, value) for name, value in figures.items() if self._gauges[name] != value])
        if changed and self._start.metrics is not None:
            self._gauges = figures
            self.send(self._start.metrics, Gauges(changed))
