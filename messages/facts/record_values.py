"""Functions that compute the values of the columns in `spark.columns` from recorded messages.

A field of `RecordValues` declares a column. Each message class that has values for columns has one function. The
function returns the values of a message of this class. A message inside another message is decoded only if a column
needs its fields.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

from messages import network, store
from messages.apis.add_offsets_to_txn import AddOffsetsToTxnRequest
from messages.apis.add_partitions_to_txn import AddPartitionsToTxnRequest
from messages.apis.leader_and_isr import LeaderAndIsrPartitionState, LeaderAndIsrRequest
from messages.apis.stop_replica import StopReplicaPartitionState, StopReplicaRequest
from messages.apis.update_metadata import UpdateMetadataPartitionState, UpdateMetadataRequest
from messages.ask import Answer, Ask
from messages.channel import StartChannel
from messages.cluster import LeaderIsrAndControllerEpoch, Leadership, TopicPartition
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
from messages.zookeeper.brokers import BrokerRegistered, Brokers
from messages.zookeeper.controller import Elected
from messages.zookeeper.partition_states import (
    CreatePartitionStates,
    PartitionStates,
    UpdatePartitionStates,
    WriteResults,
)


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
_State = LeaderAndIsrPartitionState | StopReplicaPartitionState | UpdateMetadataPartitionState
_ORDERS: dict[str, type[LeaderAndIsrRequest | StopReplicaRequest | UpdateMetadataRequest]] = {
    each.__name__: each for each in (LeaderAndIsrRequest, StopReplicaRequest, UpdateMetadataRequest)
}
_PARTS: dict[str, tuple[str, type[LeaderAndIsrPart | StopReplicaPart | UpdateMetadataPart]]] = {
    "LeaderAndIsrPart": ("LeaderAndIsrRequest", LeaderAndIsrPart),
    "StopReplicaPart": ("StopReplicaRequest", StopReplicaPart),
    "UpdateMetadataPart": ("UpdateMetadataRequest", UpdateMetadataPart),
}


def _states(states: Iterable[_State]) -> list[PartitionValues]:
    return [_VALUES_OF_STATE[type(each)](each) for each in states]


def _led(state: LeaderAndIsrPartitionState) -> PartitionValues:
    (topic, partition), isr = state.partition, state.isr
    replicas = state.adding_replicas, state.removing_replicas
    return PartitionValues(topic, partition, state.leader, state.leader_epoch, state.controller_epoch, isr, *replicas)


def _cached(state: UpdateMetadataPartitionState) -> PartitionValues:
    topic, partition = state.partition
    return PartitionValues(topic, partition, state.leader, state.leader_epoch, state.controller_epoch, state.isr)


def _stopped(state: StopReplicaPartitionState) -> PartitionValues:
    topic, partition = state.partition
    return PartitionValues(topic, partition, None, state.leader_epoch)


_VALUES_OF_STATE: dict[type, Callable[[AnyMessage], PartitionValues]] = {
    LeaderAndIsrPartitionState: _led,
    UpdateMetadataPartitionState: _cached,
    StopReplicaPartitionState: _stopped,
}


def _leadership(partition: TopicPartition, state: LeaderIsrAndControllerEpoch | None) -> PartitionValues:
    if state is None:
        return PartitionValues(*partition)
    return PartitionValues(*partition, state.leader, state.leader_epoch, state.controller_epoch, state.isr)


def _broker_of(channel: str) -> int | None:
    """Return the broker id in a channel's name, controller-ID-broker-ID-N; None for any other channel."""
    if not channel.startswith(_CONTROLLERS_CHANNEL):
        return None
    _, _, rest = channel.partition("-broker-")
    return int(rest.partition("-")[0])


# ------------------------------------------------------------------------------------------------ channels


def _transmit(sent: network.Transmit) -> RecordValues:
    request: Boxed = sent.request
    name, payload = request.type, request.payload
    channel = sent.channel
    values = RecordValues(name, channel, _broker_of(channel), sent.correlation_id)
    if name not in _ORDERS:
        return values
    order = decode_outer(_ORDERS[name], payload)
    epochs, states = [order.broker_epoch], _states(order.partition_states)
    return values._replace(epoch=order.controller_epoch, states=states, broker_epochs=epochs)


def _channel_part(sent: network.ChannelPart) -> RecordValues:
    part: Boxed = sent.part
    name, payload = part.type, part.payload
    values = RecordValues(channel=sent.channel, broker=_broker_of(sent.channel))
    if name not in _PARTS:
        return values
    request, kind = _PARTS[name]
    return values._replace(request=request, states=_states(decode_outer(kind, payload).entries))


def _returned(back: network.Received | network.TransmitFailed) -> RecordValues:
    return RecordValues(channel=back.channel, broker=_broker_of(back.channel), correlation=back.correlation_id)


# ------------------------------------------------------------------------------------------------ clients


def _name(boxed: Boxed) -> str:
    """Return the class name of a message inside a message."""
    return boxed.type


def _request(came: network.ClientRequest) -> ExchangeValues:
    return ExchangeValues(came.connection, came.correlation_id, _name(came.request))


def _single(came: network.ClientRequest) -> RecordValues:
    values, boxed = _client(_request(came)), came.request
    if boxed.type not in _ORDERS:
        return values
    order = decode_outer(_ORDERS[boxed.type], boxed.payload)
    return values._replace(epoch=order.controller_epoch, broker_epochs=[order.broker_epoch])


def _response(replied: network.ClientResponse) -> ExchangeValues:
    return ExchangeValues(replied.connection, replied.correlation_id, _name(replied.response))


def _client(exchange: ExchangeValues) -> RecordValues:
    connection, correlation, request = exchange
    return RecordValues(connection=connection, correlation=correlation, request=request)


# ------------------------------------------------------------------------------------------------ ZooKeeper


def _question_values(ask: Ask) -> RecordValues:
    question: Boxed = ask.question
    name, payload = question.type, question.payload
    values = RecordValues(request=name, correlation=ask.id)
    if name == QueueDeletions.__name__:
        queued = decode_outer(QueueDeletions, payload)
        return values._replace(topics=[each.topic for each in queued.topics])
    if name in _WRITES:
        return values._replace(states=_written(decode_outer(_WRITES[name], payload).states))
    return values


_WRITES: dict[str, type[CreatePartitionStates | UpdatePartitionStates]] = {
    each.__name__: each for each in (CreatePartitionStates, UpdatePartitionStates)
}


def _written(states: Iterable[Leadership]) -> list[PartitionValues]:
    return [_leadership(*each) for each in states]


def _answered(answer: Answer) -> RecordValues:
    result: Boxed = answer.result
    name, payload = result.type, result.payload
    values = RecordValues(request=name, correlation=answer.id)
    if name == Elected.__name__:
        return values._replace(epoch=decode_outer(Elected, payload).epoch)
    if name == Brokers.__name__:
        epochs = {each.id: each.epoch for each in decode_outer(Brokers, payload).brokers}
        return values._replace(brokers=sorted(epochs), broker_epochs=[epochs[broker] for broker in sorted(epochs)])
    if name == BrokerRegistered.__name__:
        return values._replace(broker_epochs=[decode_outer(BrokerRegistered, payload).epoch])
    if name == PartitionStates.__name__:
        read = decode_outer(PartitionStates, payload).states
        states = [_leadership(partition, state) for partition, state, _ in read if state is not None]
        return values._replace(states=states)
    if name == WriteResults.__name__:
        results = decode_outer(WriteResults, payload).results
        return values._replace(
            states=[PartitionValues(*partition) for partition, code, _ in results if code == store.OK]
        )
    return values


def _store_write(write: store.StoreWrite) -> RecordValues:
    gone = [found[1] for op in write.ops if op.kind == "delete" and (found := _TOPIC.fullmatch(op.path))]
    return RecordValues(correlation=write.id, items=len(write.ops), topics=gone or None)


def _store_read(read: store.StoreRead) -> RecordValues:
    return RecordValues(correlation=read.id, items=sum(map(len, (read.data, read.children, *read.watches))))


# ------------------------------------------------------------------------------------------------ partitions


def _appends(appends: AppendBatches) -> RecordValues:
    batches = [header for append in appends.batches for header in append.part.records.batches]
    return RecordValues(
        states=[PartitionValues(*appends.batches[0].part.partition)],
        items=sum(header.record_count for header in batches),
        bytes=sum(append.part.records.body.size for append in appends.batches),
        batches=len(appends.batches),
    )


def _log_read(read: LogRead) -> RecordValues:
    return RecordValues(states=[PartitionValues(*read.result.partition)], bytes=read.result.body.size)


def _isr(change: ChangeIsr) -> RecordValues:
    topic, partition = change.partition
    state = PartitionValues(topic, partition, change.leader, change.leader_epoch, change.controller_epoch, change.isr)
    return RecordValues(states=[state], items=1 if change.grows else -1)


# ------------------------------------------------------------------------------------------------ transactions


_ADDING: dict[str, type[AddPartitionsToTxnRequest | AddOffsetsToTxnRequest]] = {
    each.__name__: each for each in (AddPartitionsToTxnRequest, AddOffsetsToTxnRequest)
}


def _added(message: AddToTransaction) -> RecordValues:
    boxed: Boxed = message.forwarded.request.request
    request = decode_outer(_ADDING[boxed.type], boxed.payload)
    txn = TransactionValues(request.transactional_id, request.producer_id, request.producer_epoch)
    return RecordValues(items=len(message.partitions), transactions=[txn])


def _markers(sent: SendMarkers) -> RecordValues:
    return RecordValues(
        items=sum(len(each.partitions) for each in sent.markers),
        transactions=[
            TransactionValues(each.transactional_id, each.producer_id, each.producer_epoch, each.commit)
            for each in sent.markers
        ],
    )


def _marked(marked: PartitionsMarked) -> RecordValues:
    txn = TransactionValues(marked.transactional_id, marked.producer_id, marked.producer_epoch)
    return RecordValues(items=len(marked.partitions), transactions=[txn])


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
_READERS: dict[str, Callable[[Payload], RecordValues]] = {}


def _of(kind: type[_M], read: Callable[[_M], RecordValues]) -> None:
    """Declare the function that reads the values of a class of messages."""
    _READERS[kind.__name__] = lambda payload: read(decode_outer(kind, payload))


_of(network.Transmit, _transmit)
_of(network.ChannelPart, _channel_part)
_of(network.TransmitFailed, lambda failed: _returned(failed)._replace(error=failed.reason))
_of(network.Received, lambda received: _returned(received)._replace(request=_name(received.response)))
_of(StartChannel, lambda start: RecordValues(channel=start.channel, broker=start.broker_id))
_of(network.ClientRequest, _single)
_of(network.ClientResponse, lambda replied: _client(_response(replied)))
_of(Forwarded, lambda forwarded: _client(_request(forwarded.request)))
_of(network.ClientRequests, lambda came: RecordValues(exchanges=[_request(each) for each in came.requests]))
_of(network.ClientResponses, lambda replied: RecordValues(exchanges=[_response(each) for each in replied.responses]))
_of(LeaderAndIsrRequest, lambda order: RecordValues(states=_states(order.partition_states)))
_of(LeaderAndIsrPart, lambda part: RecordValues(states=_states(part.entries)))
_of(Ask, _question_values)
_of(Answer, _answered)
_of(store.StoreRead, _store_read)
_of(store.StoreWrite, _store_write)
_of(store.StoreReply, lambda reply: RecordValues(correlation=reply.id))
_of(store.WatchEvent, lambda event: RecordValues(subject=event.path))
_of(Samples, _samples)
_of(network.FaultInjected, lambda hit: RecordValues(subject=f"{hit.fault} of {hit.api}"))
_of(
    network.AccessDenied,
    lambda denied: RecordValues(
        subject=", ".join(f"{each.operation} {each.resource}:{each.name}" for each in denied.denials)
    ),
)
_of(NodeFaultInjected, lambda fault: RecordValues(subject=fault.fault))
_of(AppendBatches, _appends)
_of(LogRead, _log_read)
_of(ChangeIsr, _isr)
_of(AddToTransaction, _added)
_of(SendMarkers, _markers)
_of(PartitionsMarked, _marked)


def values_of(name: str, payload: Payload) -> RecordValues:
    """Return the values of a message, given by its class and its recorded payload.

    The values are empty if the record omits the payload.

    Raises:
        BadPayload: The payload does not match the class.
    """
    read = _READERS.get(name)
    return NOTHING if read is None or payload == NO_PAYLOAD else read(payload)
