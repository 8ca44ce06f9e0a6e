"""TransactionVerifierActor asks coordinators whether partitions are in open transactions.

Rule 1: the metadata cache returns the coordinators. For each broker, a separate VerificationSenderActor sends the
        requests to that broker, and sends the results to the actors of the partitions.
Rule 2: a verification without a live coordinator is answered with COORDINATOR_NOT_AVAILABLE. This actor does not retry:
        the producer retries its batches.

Kafka: `AddPartitionsToTxnManager`.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import zip_longest

from thespian.actors import ActorAddress, ChildActorExited

from actors.coordinator.broker_senders import BrokerSenders
from actors.coordinator.verification_sender import VerificationSenderActor
from actors.core.topic.topic_name import TRANSACTION_STATE
from messages import errors, transactions
from messages.ask import Answer, Ask
from messages.cluster import Endpoint, TopicPartition
from messages.groups import CountPartitions, PartitionCount
from messages.placement import slot


class TransactionVerifierActor(BrokerSenders):
    """Each broker has one such actor. It checks whether the broker's partitions are in open transactions."""

    SENDER = VerificationSenderActor
    CHANNELS = "verifications"

    def __init__(self) -> None:
        super().__init__()
        self._start: transactions.StartTransactionVerifier
        self._due: list[transactions.VerificationRequest] = []
        """Verifications whose coordinators are not requested yet."""
        self._finding = False
        """Whether coordinators are being found: first the number of partitions of __transaction_state, then their
        leaders."""
        self._asked: dict[TopicPartition, list[transactions.VerificationRequest]] = {}
        """Verifications whose coordinators are being found, by the partition of __transaction_state that has the id."""
        self._questions = 0

    def receiveMsg_StartTransactionVerifier(
        self, message: transactions.StartTransactionVerifier, sender: ActorAddress
    ) -> None:
        """Set the actors that this actor sends requests to."""
        self._start = message

    def receiveMsg_Verify(self, message: transactions.Verify, sender: ActorAddress) -> None:
        """Queue the verifications that a partition's leader requests."""
        self._due += [each._replace(asker=sender, since=self.now) for each in message.verifications]
        self._find()

    def _find(self) -> None:
        """Find the coordinators of the queued verifications, one request at a time."""
        if not self._finding and self._due:
            self._finding = True
            self.send(self._start.finder, CountPartitions(TRANSACTION_STATE))

    def receiveMsg_PartitionCount(self, message: PartitionCount, sender: ActorAddress) -> None:
        """Request the leaders of the partitions of __transaction_state.

        If the topic has no partitions, refuse the verifications.
        """
        due, self._due = self._due, []
        if not message.count:
            self._finding = False
            self._refuse(due)
            return
        for each in due:
            place = TopicPartition(TRANSACTION_STATE, slot(each.transactional_id) % message.count)
            self._asked.setdefault(place, []).append(each)
        self._questions += 1
        self.send(self._start.metadata_cache, Ask(self._questions, transactions.FindLeaders(tuple(self._asked))))

    def receiveMsg_Answer(self, message: Answer, sender: ActorAddress) -> None:
        """Send each verification to its coordinator's VerificationSenderActor, or refuse it (rules 1, 2)."""
        asked, self._asked, self._finding = self._asked, {}, False
        leaders = message.result.leaders if isinstance(message.result, transactions.LeadersFound) else ()
        by_broker: dict[tuple[int, Endpoint], list[transactions.VerificationRequest]] = {}
        for its, leader in zip_longest(asked.values(), leaders):
            if leader is None or leader.endpoint is None:
                self._refuse(its)
            else:
                by_broker.setdefault((leader.leader, leader.endpoint), []).extend(its)
        for broker, its in by_broker.items():
            self.send(self.sender_to(*broker), transactions.Verify(tuple(its)))
        self._find()

    def _refuse(self, verifications: Iterable[transactions.VerificationRequest]) -> None:
        """Reply COORDINATOR_NOT_AVAILABLE to verifications without a live coordinator (rule 2)."""
        for each in verifications:
            refusal = transactions.TransactionVerified(each.number, each.producer_id, errors.COORDINATOR_NOT_AVAILABLE)
            self.send(each.asker, refusal)

    def receiveMsg_ChildActorExited(self, message: ChildActorExited, sender: ActorAddress) -> None:
        """Ignore the exit of a child that sent requests: this actor stopped the child."""
