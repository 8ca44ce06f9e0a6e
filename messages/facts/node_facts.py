"""Read facts about a node: error codes in its responses, injected faults, truncated logs, and its registrations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import attrs

from messages.ask import Answer
from messages.cluster import TopicPartition
from messages.facts.controller_facts import Emit
from messages.facts.declarations import (
    ErrorAnswered,
    InjectedFaultReturned,
    LogTruncation,
    NodeFaultChange,
    NodeRun,
    TracePosition,
)
from messages.network import ClientResponse, ClientResponses, FaultInjected
from messages.node import NodeFaultInjected
from messages.trace.schema import TraceRecord
from messages.vocabulary import Message
from messages.zookeeper.brokers import BrokerRegistered

PARTITION = "PartitionActor"

_LOG_END = {
    "open": 1,
    "append": 0,
    "append_as_coordinator": 0,
    "append_marker": 0,
    "replicate": 1,
    "truncate": 1,
    "restart": 1,
}
"""The index of the new log end offset in the result of each call of the adapter "logs"."""


class NodeFacts:
    """Reads the facts about the node of one run."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._log_ends: dict[str, int] = {}
        """Log end offsets by the directory of the partition."""
        self._registered: list[tuple[int, float]] = []
        """Broker epochs of this run, with the time of each registration."""

    def take(self, place: TracePosition, record: TraceRecord, message: Message) -> None:
        """Read the next message."""
        match message:
            case ClientResponse():
                self._errors(place, message)
            case ClientResponses():
                for each in message.responses:
                    self._errors(place, each)
            case FaultInjected():
                self._emit(InjectedFaultReturned(place, message.fault, message.value, message.api, message.client_id))
            case NodeFaultInjected():
                self._emit(NodeFaultChange(place, message.fault, message.value, message.change, message.hits))
            case Answer():
                if isinstance(message.result, BrokerRegistered):
                    self._registered.append((message.result.epoch, place.at))

    def on_disk(self, place: TracePosition, record: TraceRecord) -> None:
        """Read a replica's calls to its log."""
        if record.actor != PARTITION:
            return
        for effect in record.effects:
            end = _LOG_END.get(effect.method)
            if effect.port != "logs" or effect.error or end is None:
                continue
            path = effect.args[0]
            if effect.method in ("truncate", "restart"):
                topic, _, number = path.rpartition("/")[2].rpartition("-")
                partition = TopicPartition(topic, int(number))
                self._emit(LogTruncation(place, partition, self._log_ends.get(path, -1), effect.result[end]))
            self._log_ends[path] = effect.result[end]

    def end(self, first: TracePosition, last: TracePosition, ending: str) -> None:
        """Emit the node's run, at its end."""
        self._emit(NodeRun(last, first.at, ending, tuple(self._registered)))

    def _errors(self, place: TracePosition, responded: ClientResponse) -> None:
        """Emit the error codes in a response to a client or broker."""
        api = type(responded.response).__name__.removesuffix("Response")
        for (code, subject), times in Counter(_error_codes(responded.response, "")).items():
            self._emit(ErrorAnswered(place, api, code, subject, times))


def _error_codes(value: Any, subject: str) -> Iterator[tuple[int, str]]:
    """Yield all error codes in a response, each with the topic or partition that it concerns ("" if unknown).

    The field names are those that all responses share: `error_code`, `partition`, `topic`, `name`.
    """
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        for each in value:
            yield from _error_codes(each, subject)
        return
    if attrs.has(type(value)):
        fields = {field.name: getattr(value, field.name) for field in attrs.fields(type(value))}
    elif isinstance(value, tuple) and not isinstance(value, TopicPartition):
        fields = value._asdict()  # type: ignore[attr-defined]
    else:
        return
    partition, name = fields.get("partition"), fields.get("topic", fields.get("name"))
    if isinstance(partition, TopicPartition):
        subject = str(partition)
    elif isinstance(name, str):
        subject = name
    if fields.get("error_code"):
        yield fields["error_code"], subject
    for each in fields.values():
        yield from _error_codes(each, subject)
