"""Functions that compute the values of the columns in `spark.columns` from recorded messages.

A field of `RecordValues` declares a column. Each message class that has values for columns has one function. The
function returns the values of a message of this class. A message inside another message is decoded only if a column
needs its fields.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

from messages import network, store, zookeeper
from messages.apis.add_offsets_to_txn import AddOffsetsToTxnRequest
from messages.apis.add_partitions_to_txn import AddPartitionsToTxnRequest
from messages.apis.leader_and_isr import LeaderAndIsrRequest
from messages.apis.stop_replica import StopReplicaRequest
from messages.apis.update_metadata import UpdateMetadataRequest
from messages.ask import Answer, Ask
from messages.channel import StartChannel
from messages.cluster import TopicPartition
from messages.metrics import EVENT_REQUESTS, EVENT_TIME, EVENT_WAIT, Samples
from messages.network import Forwarded
from messages.node import NodeFaultInjected
from messages.partition import AppendBatches, ChangeIsr, LogRead
from messages.parts import LeaderAndIsrPart, StopReplicaPart, UpdateMetadataPart
from messages.topic_deletion import QueueDeletions
from messages.trace.codec import decode_outer
from messages.trace.forms import Boxed
from messages.trace.schema import NO_PAYLOAD, Payload
from messages.transactions import AddToTransaction, PartitionsMarked, SendMarkers
from messages.vocabulary import AnyMessage


class PartitionValues(NamedTuple):
    """A partition with its leader, ISR and replicas, as far as a message has them."""

    topic: str
    partition: int
    leader: int | None = None
    leader_epoch: int | None = None
    controller_epoch: int | None = None
    isr: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()


class ExchangeValues(NamedTuple):
    """The values that identify a client's request or its response: connection, correlation id, request class."""

    connection: int
    correlation: int
    request: str | None


class TransactionValues(NamedTuple):
    """The fields of a transaction in a message; `commit` is None if the message does not end the transaction."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    commit: bool | None = None


class RecordValues(NamedTuple):
    """The values of a message for the columns of the trace tables in Spark; a value that the message lacks is None."""

    request: str | None = None
    channel: str | None = None
    broker: int | None = None
    correlation: int | None = None
    epoch: int | None = None
    brokers: Sequence[int] | None = None
    states: Sequence[PartitionValues] | None = None
    connection: int | None = None
    subject: str | None = None
    topics: Sequence[str] | None = None
    items: int | None = None
    bytes: int | None = None
    batches: int | None = None
    exchanges: Sequence[ExchangeValues] | None = None
    event_ms: float | None = None
    event_queue_ms: float | None = None
    transactions: Sequence[TransactionValues] | None = None
    broker_epochs: Sequence[int] | None = None
    error: str | None = None
    """The reason why a request got no response. The record has the error of the handler."""


NOTHING = RecordValues()

_CONTROLLERS_CHANNEL = "controller-"
_TOPIC = re.compile(r"/brokers/topics/([^/]+)")


def _state(partition: TopicPartition, of: AnyMessage) -> PartitionValues:
    """Return a partition with the values that the object `of` has for it."""
    return PartitionValues(
        *partition,
        getattr(of, "leader", None),
        getattr(of, "leader_epoch", None),
        getattr(of, "controller_epoch", None),
        getattr(of, "isr", ()),
        getattr(of, "adding_replicas", ()),
        getattr(of, "removing_replicas", ()),
    )


def _states(states: Iterable[AnyMessage]) -> RecordValues:
    return RecordValues(states=[_state(each.partition, each) for each in states])


def _written(written: AnyMessage) -> RecordValues:
    return RecordValues(states=[_state(*each) for each in written.states])


def _inside(boxed: Boxed, **outer: AnyMessage) -> RecordValues:
    """Return the values of a message inside a message, its class as `request`, and the values of the outer message."""
    read = _INSIDE.get(boxed.type)
    if read is None:
        return RecordValues(request=boxed.type, **outer)
    return read(boxed.payload)._replace(request=boxed.type, **outer)


def _broker_of(channel: str) -> int | None:
    """Return the broker id in a channel's name, controller-ID-broker-ID-N; None for any other channel."""
    if not channel.startswith(_CONTROLLERS_CHANNEL):
        return None
    _, _, rest = channel.partition("-broker-")
    return int(rest.partition("-")[0])


# ------------------------------------------------------------------------------------------------ channels


def _order(order: AnyMessage) -> RecordValues:
    return _states(order.partition_states)._replace(epoch=order.controller_epoch, broker_epochs=[order.broker_epoch])


def _part(part: AnyMessage) -> RecordValues:
    return _states(part.entries)


def _channel_part(sent: network.ChannelPart) -> RecordValues:
    part: Boxed = sent.part
    values = _inside(part)
    request = None if values.states is None else part.type.replace("Part", "Request")
    return values._replace(request=request, channel=sent.channel, broker=_broker_of(sent.channel))


def _frame_values(message: network.Transmit | network.Received, inside: Boxed) -> RecordValues:
    channel = message.channel
    return _inside(inside, channel=channel, broker=_broker_of(channel), correlation=message.correlation_id)


def _failure_values(failed: network.TransmitFailed) -> RecordValues:
    broker = _broker_of(failed.channel)
    return RecordValues(channel=failed.channel, broker=broker, correlation=failed.correlation_id, error=failed.reason)


# ------------------------------------------------------------------------------------------------ clients


def _request(came: network.ClientRequest) -> ExchangeValues:
    boxed: Boxed = came.request
    return ExchangeValues(came.connection, came.correlation_id, boxed.type)


def _response(replied: network.ClientResponse) -> ExchangeValues:
    boxed: Boxed = replied.response
    return ExchangeValues(replied.connection, replied.correlation_id, boxed.type)


def _client(exchange: ExchangeValues) -> RecordValues:
    connection, correlation, request = exchange
    return RecordValues(connection=connection, correlation=correlation, request=request)


def _single(came: network.ClientRequest) -> RecordValues:
    values, boxed = _client(_request(came)), came.request
    if boxed.type not in _INSIDE:
        return values
    inside = _inside(boxed)
    return values._replace(epoch=inside.epoch, broker_epochs=inside.broker_epochs)


# ------------------------------------------------------------------------------------------------ ZooKeeper


def _brokers(found: zookeeper.Brokers) -> RecordValues:
    epochs = {each.id: each.epoch for each in found.brokers}
    return RecordValues(brokers=sorted(epochs), broker_epochs=[epochs[broker] for broker in sorted(epochs)])


def _read(found: zookeeper.PartitionStates) -> RecordValues:
    states = [_state(partition, state) for partition, state, _ in found.states if state is not None]
    return RecordValues(states=states)


def _results(written: zookeeper.WriteResults) -> RecordValues:
    states = [_state(partition, None) for partition, code, _ in written.results if code == store.OK]
    return RecordValues(states=states)


def _store_write(write: store.StoreWrite) -> RecordValues:
    gone = [found[1] for op in write.ops if op.kind == "delete" and (found := _TOPIC.fullmatch(op.path))]
    return RecordValues(correlation=write.id, items=len(write.ops), topics=gone or None)


def _store_read(read: store.StoreRead) -> RecordValues:
    return RecordValues(correlation=read.id, items=sum(map(len, (read.data, read.children, *read.watches))))


# ------------------------------------------------------------------------------------------------ partitions


def _appends(appends: AppendBatches) -> RecordValues:
    batches = [header for append in appends.batches for header in append.part.records.batches]
    return RecordValues(
        states=[_state(appends.batches[0].part.partition, None)],
        items=sum(header.record_count for header in batches),
        bytes=sum(append.part.records.body.size for append in appends.batches),
        batches=len(appends.batches),
    )


def _log_read(read: LogRead) -> RecordValues:
    return RecordValues(states=[_state(read.result.partition, None)], bytes=read.result.body.size)


# ------------------------------------------------------------------------------------------------ transactions


_ADDING: dict[str, type[AddPartitionsToTxnRequest | AddOffsetsToTxnRequest]] = {
    each.__name__: each for each in (AddPartitionsToTxnRequest, AddOffsetsToTxnRequest)
}


def _verification_values(message: AddToTransaction) -> RecordValues:
    boxed: Boxed = message.forwarded.request.request
    request = decode_outer(_ADDING[boxed.type], boxed.payload)
    return RecordValues(items=len(message.partitions), transactions=[_transaction(request)])


def _transaction(of: AnyMessage, commit: bool | None = None) -> TransactionValues:
    return TransactionValues(of.transactional_id, of.producer_id, of.producer_epoch, commit)


def _markers(sent: SendMarkers) -> RecordValues:
    return RecordValues(
        items=sum(len(each.partitions) for each in sent.markers),
        transactions=[_transaction(each, each.commit) for each in sent.markers],
    )


# ------------------------------------------------------------------------------------------------ metrics


def _samples(samples: Samples) -> RecordValues:
    found = {sample.name: sample for sample in samples.values}
    took = found.get(EVENT_TIME)
    if took is None:
        return NOTHING
    ((_, event),) = took.labels
    waited, requests = found[EVENT_WAIT].value, int(found[EVENT_REQUESTS].value)
    return RecordValues(subject=event, event_ms=took.value, event_queue_ms=waited, items=requests)


_M = TypeVar("_M")
_Readers = dict[str, Callable[[Payload], RecordValues]]
_READERS: _Readers = {}
"""The functions that read the values of delivered messages, by class."""
_INSIDE: _Readers = {}
"""The functions that read the values of messages inside others, by class."""


def _declare_reader(kind: type[_M], read: Callable[[_M], RecordValues], readers: _Readers = _READERS) -> None:
    """Declare the function that reads the values of a class of messages."""
    readers[kind.__name__] = lambda payload: read(decode_outer(kind, payload))


_declare_reader(network.Transmit, lambda sent: _frame_values(sent, sent.request))
_declare_reader(network.ChannelPart, _channel_part)
_declare_reader(network.TransmitFailed, _failure_values)
_declare_reader(network.Received, lambda received: _frame_values(received, received.response))
_declare_reader(StartChannel, lambda start: RecordValues(channel=start.channel, broker=start.broker_id))
_declare_reader(network.ClientRequest, _single)
_declare_reader(network.ClientResponse, lambda replied: _client(_response(replied)))
_declare_reader(Forwarded, lambda forwarded: _client(_request(forwarded.request)))
_declare_reader(network.ClientRequests, lambda came: RecordValues(exchanges=[_request(each) for each in came.requests]))
_declare_reader(
    network.ClientResponses, lambda replied: RecordValues(exchanges=[_response(each) for each in replied.responses])
)
_declare_reader(LeaderAndIsrRequest, lambda order: _states(order.partition_states))
_declare_reader(LeaderAndIsrPart, _part)
_declare_reader(Ask, lambda ask: _inside(ask.question, correlation=ask.id))
_declare_reader(Answer, lambda answer: _inside(answer.result, correlation=answer.id))
_declare_reader(store.StoreRead, _store_read)
_declare_reader(store.StoreWrite, _store_write)
_declare_reader(store.StoreReply, lambda reply: RecordValues(correlation=reply.id))
_declare_reader(store.WatchEvent, lambda event: RecordValues(subject=event.path))
_declare_reader(Samples, _samples)
_declare_reader(network.FaultInjected, lambda hit: RecordValues(subject=f"{hit.fault} of {hit.api}"))
_declare_reader(NodeFaultInjected, lambda fault: RecordValues(subject=fault.fault))
_declare_reader(AppendBatches, _appends)
_declare_reader(LogRead, _log_read)
_declare_reader(ChangeIsr, lambda change: _states([change])._replace(items=1 if change.grows else -1))
_declare_reader(AddToTransaction, _verification_values)
_declare_reader(SendMarkers, _markers)
_declare_reader(
    PartitionsMarked, lambda done: RecordValues(items=len(done.partitions), transactions=[_transaction(done)])
)
_declare_reader(LeaderAndIsrRequest, _order, _INSIDE)
_declare_reader(StopReplicaRequest, _order, _INSIDE)
_declare_reader(UpdateMetadataRequest, _order, _INSIDE)
_declare_reader(LeaderAndIsrPart, _part, _INSIDE)
_declare_reader(StopReplicaPart, _part, _INSIDE)
_declare_reader(UpdateMetadataPart, _part, _INSIDE)
_declare_reader(zookeeper.CreatePartitionStates, _written, _INSIDE)
_declare_reader(zookeeper.UpdatePartitionStates, _written, _INSIDE)
_declare_reader(QueueDeletions, lambda queued: RecordValues(topics=[each.topic for each in queued.topics]), _INSIDE)
_declare_reader(zookeeper.Elected, lambda elected: RecordValues(epoch=elected.epoch), _INSIDE)
_declare_reader(zookeeper.Brokers, _brokers, _INSIDE)
_declare_reader(zookeeper.BrokerRegistered, lambda registered: RecordValues(broker_epochs=[registered.epoch]), _INSIDE)
_declare_reader(zookeeper.PartitionStates, _read, _INSIDE)
_declare_reader(zookeeper.WriteResults, _results, _INSIDE)


def values_of(name: str, payload: Payload) -> RecordValues:
    """Return the values of a message, given by its class and its recorded payload.

    The values are empty if the record omits the payload.

    Raises:
        BadPayload: The payload does not match the class.
    """
    read = _READERS.get(name)
    return NOTHING if read is None or payload == NO_PAYLOAD else read(payload)
