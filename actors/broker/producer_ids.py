"""ProducerIdsActor assigns producer ids from blocks in ZooKeeper (broker.md 7.4).

Rule: a block belongs to one broker, which uses it up before it takes the next; the unused ids of a block are lost when
        the broker stops. Producers without a transactional id are answered directly, others through the transaction
        coordinator.

Kafka: `ProducerIdManager`.
"""

from __future__ import annotations

import logging

from thespian.actors import ActorAddress

from actors.runtime import FlowActor
from messages import errors
from messages.apis.init_producer_id import InitProducerIdResponse
from messages.ask import AskFailed, BadZnode
from messages.flow.conversation import Flow, ask
from messages.network import Forwarded
from messages.node import StartProducerIds
from messages.transactions import ProducerIdTaken, TakeProducerId
from messages.vocabulary import Message
from messages.zookeeper import TakeProducerIds

log = logging.getLogger("kafka.coordinator.transaction.ProducerIdManager")


class ProducerIdsActor(FlowActor):
    """This actor assigns ids to idempotent producers; each broker has one."""

    def __init__(self) -> None:
        super().__init__()
        self._broker_id = -1
        self._next = 0
        self._end = 0

    def receiveMsg_StartProducerIds(self, message: StartProducerIds, sender: ActorAddress) -> None:
        """Set the broker's id and the ZooKeeper bridge, through which blocks are reserved."""
        self._broker_id = message.broker_id
        self.peers = {"bridge": message.bridge}

    def flow(self, message: Message) -> Flow[None] | None:
        """Handle a client's InitProducerId request, or a request of the transaction coordinator."""
        match message:
            case Forwarded():
                return self._serve(message)
            case TakeProducerId(request):
                return self._answer(request)
        return super().flow(message)

    def _answer(self, request: int) -> Flow[None]:
        asker = self.sender
        response = yield from self._give()
        self.send(asker, ProducerIdTaken(request, response.producer_id, response.error_code))

    def _serve(self, forwarded: Forwarded) -> Flow[None]:
        self.send(*forwarded.reply((yield from self._give())))

    def _give(self) -> Flow[InitProducerIdResponse]:
        """Return a response with the next producer id and epoch 0, or with an error code if no block was received."""
        if self._next == self._end:
            tag = f"[ProducerId Manager {self._broker_id}]"
            try:
                block = yield from ask(TakeProducerIds(self._broker_id))
            except BadZnode as error:  # only an operator can mend it: a code after which clients do not retry
                log.error("%s No producer ids are assigned: %s", tag, error)
                return InitProducerIdResponse(errors.UNKNOWN_SERVER_ERROR)
            except AskFailed as error:
                log.warning("%s No producer ids are assigned until ZooKeeper answers: %s", tag, error)
                return InitProducerIdResponse(errors.COORDINATOR_NOT_AVAILABLE)
            self._next, self._end = block.start, block.end
        self._next += 1
        return InitProducerIdResponse(errors.NONE, self._next - 1, 0)
