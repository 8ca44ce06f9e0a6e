"""PartitionActor carries events to a `Partition`, and its effects out: messages, calls of I/O adapters, wake-ups.

Everything that a partition knows and decides is in `actors.core.broker.partition`; this actor has no other state.
"""

from __future__ import annotations

import logging
from typing import Any

from thespian.actors import ActorAddress, WakeupMessage

from actors.core.broker.partition import EVENTS, Partition
from actors.core.broker.partition_effects import CallAdapter, Effects, Send, StorageError, WakeAt
from actors.runtime import Answerer
from actors.storage.log import NO_DESCRIPTORS, UNSUPPORTED_FORMAT
from actors.storage.log_directories import rename_deleted
from messages.vocabulary import Message

log = logging.getLogger("kafka.cluster.Partition")


class PartitionActor(Answerer):
    """This actor hosts one replica of one partition; no other actor writes the replica's log."""

    def __init__(self) -> None:
        super().__init__()
        self.partition = Partition()
        """All state of this actor."""

    def receiveMessage(self, message: Any, sender: ActorAddress) -> Any:
        """Hand an event to the partition; orders of the replica manager come as questions."""
        if message.__class__ in EVENTS:
            return self._carry_out(self.partition.handle(message, sender, self.now))
        return super().receiveMessage(message, sender)

    def answer(self, question: Message) -> Message:
        """Obey one order of the replica manager."""
        if question.__class__ not in EVENTS:
            return super().answer(question)
        self.partition.address = self.myAddress
        return self._carry_out(self.partition.handle(question, None, self.now))

    def receiveMsg_WakeupMessage(self, message: WakeupMessage, sender: ActorAddress) -> None:
        """A waiting request has timed out."""
        self._carry_out(self.partition.expire(self.now))

    def _carry_out(self, effects: Effects[Message | None]) -> Message | None:
        """Carry out each effect, and give its result back; returns what the partition replies."""
        result: Any = None
        error: StorageError | None = None
        try:
            while True:
                effect: Any = effects.send(result) if error is None else effects.throw(error)
                kind, result, error = effect.__class__, None, None
                if kind is Send:
                    self.send(effect[0], effect[1])
                elif kind is WakeAt:
                    self.wake_at(effect.at)
                else:
                    try:
                        if kind is CallAdapter:
                            result = getattr(self.port(effect[0]), effect[1])(*effect[2])
                        else:
                            result = rename_deleted(effect.path, *map(self.port, ("logs", "disk", "random")))
                    except OSError as failure:
                        error = StorageError(self._disk_failure(failure))
        except StopIteration as done:
            reply: Message | None = done.value
            return reply

    def _disk_failure(self, error: OSError) -> str:
        """Return what the disk says, "" if the disk works and its directory stays online."""
        if error.errno == UNSUPPORTED_FORMAT:
            return ""
        if error.errno in NO_DESCRIPTORS:
            role = self.partition.role
            log.error(
                "[Partition %s broker=%d] Failed to open a log file: %s",
                *(role.partition, role.broker_id, error.strerror),
            )
            return ""
        return error.strerror or str(error)
