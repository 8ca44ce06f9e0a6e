"""Random messages of every API, their fields by Kafka's names, and the messages that receivers decode.

All follow from the message classes, the schemas, and the bindings in `messages.apis`. `tests.wire.oracle` encodes the
fields with kio.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from typing import Any

import attrs
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from messages.apis import API_BY_KEY, APIS, BINDINGS
from messages.apis.declaration import Binding
from messages.apis.fetch import (
    CONSUMER,
    FORMAT_2_SINCE,
    IDS_SINCE,
    FetchedPartition,
    FetchRequest,
    FetchResponse,
)
from messages.apis.leader_and_isr import LeaderAndIsrResponse
from messages.apis.leave_group import LeaveGroupRequest, LeavingMember
from messages.apis.metadata import MetadataRequest
from messages.apis.produce import ProducePartition
from messages.apis.stop_replica import StopReplicaRequest
from messages.apis.update_metadata import SECURITY_PROTOCOLS, UpdateMetadataBroker
from messages.cluster import NO_ID, Endpoint, TopicPartition
from messages.records import EMPTY, Body, Records
from messages.security import Secret
from messages.wire.data_plane import REPLICA_STATE_SINCE
from messages.wire.layout import Field, Schema
from messages.wire.record_batch import body_of, read_records
from tests.storage.batches import batch

LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA = 4, 5, 6

EVERY_VERSION = [(api.key, version) for api in APIS for version in range(api.min_version, api.max_version + 1)]


def _records(records: bytes) -> Records:
    return read_records(records)


def _body(records: bytes) -> Body:
    return body_of(records)


RECORDS: Mapping[type, Binding] = {
    ProducePartition: Binding(written=BINDINGS[ProducePartition].written, read={"records": _records}),
    FetchRequest: Binding(
        gathered={"partitions": ("topics.partitions",), "forgotten": ("forgotten_topics_data.partitions",)}
    ),
    FetchResponse: Binding(gathered={"partitions": ("responses.partitions",)}),
    FetchedPartition: Binding(written={"records": lambda part: bytes(part.body.data)}, read={"body": _body}),
}
"""Bindings of the messages with records, which have a codec of their own."""

TOPICS, PARTITIONS = ("topic_name", "topic", "name"), ("partition_index", "partition", "index")
"""Kafka's names of the two fields of a TopicPartition."""

# ---------------------------------------------------------------------------------------------------- random messages

WIDTHS = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}
int32 = st.integers(-(2**31), 2**31 - 1)
texts = st.text(st.characters(codec="utf-8"), max_size=12)
topics = st.one_of(st.sampled_from(("a", "b", "t" * 249, "")), texts)
error_codes = st.sampled_from([code.value for code in ErrorCode if code is not ErrorCode.unsupported_version])
ids = st.sampled_from((NO_ID, "AAAAAAAAAAAAAAAAAAAAAQ", "-_8AAAAAAAAAAAAAAAAAAA"))
batches = st.lists(st.binary(max_size=5), max_size=3)
OF_TYPES: dict[Any, st.SearchStrategy[Any]] = {
    TopicPartition: st.builds(TopicPartition, topics, int32),
    Records: batches.map(lambda values: read_records(batch(*values))),
    Body: batches.map(lambda values: body_of(batch(*values) if values else b"")),
    bool: st.booleans(),
    bytes: st.binary(max_size=6),
    float: st.floats(allow_nan=False),
    Secret: st.binary(max_size=6).map(Secret),
    str: texts,
}


def _number(field: Field) -> st.SearchStrategy[Any]:
    if field.name.endswith("error_code"):
        return error_codes
    if field.name.endswith("_ms"):
        return st.integers(0, 2**31 - 1 if field.type == "int32" else 2**40)
    return st.integers(-(2 ** WIDTHS[field.type]), 2 ** WIDTHS[field.type] - 1)


def _messages(kind: type, fields: tuple[Field, ...], version: int) -> st.SearchStrategy[Any]:
    """Return a strategy for messages of a class that this version can encode; the fields are those of all versions."""
    if kind is Endpoint:
        return st.builds(Endpoint, texts, texts, int32, st.sampled_from(SECURITY_PROTOCOLS))
    values = {}
    for attribute, hint in hints_of(kind).items():
        found = [each for each, _ in _fields_of(kind, attribute, fields)]
        if hint in (TopicPartition, Records, Body):
            values[attribute] = OF_TYPES[hint]
        elif attribute == "version":
            values[attribute] = st.just(version)
        elif found:
            values[attribute] = _values(hint, found, version)
    if kind is MetadataRequest:
        values["topics"] = st.none() | st.lists(texts, max_size=4).map(tuple)
    return st.builds(kind, **values).map(partial(_encodable, version))


def _values(hint: Any, fields: list[Field], version: int) -> st.SearchStrategy[Any]:
    """Return a strategy for values of an attribute, which one of the fields holds in each version."""
    element, choices = element_of(hint), typing.get_args(hint)
    if element is None:
        plain = next((each for each in choices if each is not type(None)), hint)
        made = _number(fields[0]) if plain is int else ids if fields[0].type == "uuid" else OF_TYPES[plain]
    else:
        inner = {each.name: each for field in fields for each in field.fields}
        if attrs.has(element):
            one = _messages(element, tuple(inner.values()), version)
        else:
            one = _number(fields[0]._replace(name="")) if element is int else OF_TYPES[element]
        made = st.lists(one, max_size=4).map(tuple)
    return st.none() | made if type(None) in choices and fields[0].nullable else made


def _encodable(version: int, message: Any) -> Any:
    """Return a message without values that old versions cannot encode."""
    match message:
        case FetchedPartition() if version < FORMAT_2_SINCE:  # its records would be converted
            return attrs.evolve(message, body=EMPTY)
        case StopReplicaRequest() if version < 3 and message.partition_states:
            flag = message.partition_states[0].delete_partition
            states = tuple(attrs.evolve(each, delete_partition=flag) for each in message.partition_states)
            return attrs.evolve(message, partition_states=states)
        case UpdateMetadataBroker() if version == 0:
            return attrs.evolve(message, endpoints=(*message.endpoints, Endpoint("A", "host", 9092)))
        case LeaveGroupRequest() if version < 3:
            return attrs.evolve(message, members=(*message.members, LeavingMember("m"))[:1])
        case FetchRequest() if version >= IDS_SINCE:
            kept = message if version < REPLICA_STATE_SINCE else attrs.evolve(message, replica_id=CONSUMER)
            forgotten = tuple(_by_id(each) for each in message.forgotten)
            return attrs.evolve(kept, partitions=_with_ids(message.partitions), forgotten=forgotten)
        case FetchResponse() if version >= IDS_SINCE:
            return attrs.evolve(message, partitions=_with_ids(message.partitions))
        case LeaderAndIsrResponse() if version >= 5:  # by topic, as the codec adds them to the group without an id
            errors = sorted(message.partition_errors, key=lambda each: each.partition.topic)
            return attrs.evolve(message, partition_errors=tuple(errors))
        case MetadataRequest() if version < 10:
            topics = message.topics or None if version == 0 else message.topics
            return attrs.evolve(message, topics=topics, named_or_ids=())
    return message


def _by_id(place: TopicPartition) -> TopicPartition:
    """Return a partition whose topic is the text of an id."""
    return TopicPartition(
        "AAAAAAAAAAAAAAAAAAAAAQ" if len(place.topic) % 2 else "-_8AAAAAAAAAAAAAAAAAAA", place.partition
    )


def _with_ids(partitions: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(attrs.evolve(each, partition=_by_id(each.partition)) for each in partitions)


def _of_api(key: int, of: str) -> Callable[[int], st.SearchStrategy[Any]]:
    api = API_BY_KEY[key]
    schema, kind = Schema(f"{api.name}{of}"), api.request if of == "Request" else api.response
    return cache(lambda version: _messages(kind, schema.layout(version).fields, version))


REQUESTS: dict[int, Callable[[int], st.SearchStrategy[Any]]] = {api.key: _of_api(api.key, "Request") for api in APIS}
RESPONSES: dict[int, Callable[[int], st.SearchStrategy[Any]]] = {api.key: _of_api(api.key, "Response") for api in APIS}

# ---------------------------------------------------------------------------------------------------- names


@cache
def hints_of(kind: Any) -> dict[str, Any]:
    hints = typing.get_type_hints(kind)
    return {field.name: hints[field.name] for field in attrs.fields(kind)} if attrs.has(kind) else {}


def element_of(hint: Any) -> Any:
    """Return the type of a tuple's elements; None for other types."""
    found = [each for each in (hint, *typing.get_args(hint)) if typing.get_origin(each) is tuple]
    return typing.get_args(found[0])[0] if found else None


@cache
def binding_of(kind: type) -> Binding:
    return RECORDS.get(kind) or BINDINGS.get(kind) or Binding()


@cache
def _names_of(kind: type, attribute: str) -> tuple[str, ...]:
    """Return the names of the fields that hold an attribute, except arrays that are grouped by topic."""
    flat = (path for path in binding_of(kind).gathered.get(attribute, ()) if "." not in path)
    return (*binding_of(kind).renamed.get(attribute, (attribute,)), *flat)


def _fields_of(kind: type, attribute: str, fields: tuple[Field, ...]) -> Iterator[tuple[Field, Field | None]]:
    """Yield each field that holds an attribute, with the array of topics around it."""
    paths = [path.partition(".") for path in binding_of(kind).gathered.get(attribute, ())]
    names = _names_of(kind, attribute)
    for field in fields:
        if field.name in names:
            yield field, None
        for outer, _, inner in paths:
            if inner and outer == field.name:
                yield next(each for each in field.fields if each.name == inner), field


# ---------------------------------------------------------------------------------------------------- fields


def fields_of(message: Any, fields: tuple[Field, ...]) -> dict[str, Any]:
    """Return the fields of a message that the version has, by Kafka's names."""
    kind, found = type(message), {field.name: field.default for field in fields if field.present}
    place = _place(message)
    if kind is str:
        return {**found, "name": message}
    for field in fields:
        if place is not None and field.name in (*TOPICS, *PARTITIONS):
            found[field.name] = place[field.name in PARTITIONS]
    for attribute, hint in hints_of(kind).items():
        value = getattr(message, attribute)
        value = value.value if hint is Secret else value
        for field, outer in _fields_of(kind, attribute, fields) if hint is not TopicPartition else ():
            if outer is not None:
                found[outer.name] = _groups(value, outer, field)
            else:
                found[field.name] = [_item(each, field) for each in value] if isinstance(value, tuple) else value
    for field in fields:
        if field.present and field.name in binding_of(kind).written:
            make = binding_of(kind).written[field.name]
            value = make(message, field.nullable) if "nullable" in typing.get_type_hints(make) else make(message)
            found[field.name] = [_item(each, field) for each in value] if isinstance(value, tuple) else value
    return {field.name: found[field.name] for field in fields if field.present}


def _place(value: Any) -> TopicPartition | None:
    place = value if isinstance(value, TopicPartition) else attrs.has(type(value)) and getattr(value, "partition", None)
    return place if isinstance(place, TopicPartition) else None


def _item(value: Any, field: Field) -> Any:
    if field.type == "struct":
        return fields_of(value, field.fields)
    place = _place(value)
    return value if place is None else place.partition


def _groups(values: tuple[Any, ...], outer: Field, inner: Field) -> list[dict[str, Any]]:
    """Return the values in an array of topics; without names of topics, all of them are in one group."""
    defaults = {field.name: field.default for field in outer.fields if field.present}
    by_id = ("topic_id",) if any(field.name == "topic" for field in outer.fields) else ()
    topic = next((name for name in (*TOPICS, *by_id) if name in defaults), "")
    groups: dict[str, list[Any]] = {}
    for value in values:
        place = _place(value)
        groups.setdefault(place.topic if topic and place else "", []).append(_item(value, inner))
    return [defaults | ({topic: name} if topic else {}) | {inner.name: items} for name, items in groups.items()]


def with_extremes(message: Any, fields: tuple[Field, ...]) -> Iterator[tuple[str, Any]]:
    """Yield (field, message with the smallest or largest value of its type in this field) for each number."""
    for attribute in hints_of(type(message)):
        value = getattr(message, attribute)
        found = [each for each, outer in _fields_of(type(message), attribute, fields) if (outer or each).present]
        if found and type(value) is int:
            width = WIDTHS[found[0].type]
            for extreme in (-(2**width), 2**width - 1):
                yield attribute, attrs.evolve(message, **{attribute: extreme})
        elif found and type(value) is tuple:
            for place, each in enumerate(value):
                for name, other in with_extremes(each, found[0].fields):
                    yield name, attrs.evolve(message, **{attribute: (*value[:place], other, *value[place + 1 :])})
        elif isinstance(value, TopicPartition):
            for extreme in (-(2**31), 2**31 - 1):
                yield attribute, attrs.evolve(message, **{attribute: value._replace(partition=extreme)})


# ---------------------------------------------------------------------------------------------------- as decoded


def as_read(message: Any, version: int) -> Any:
    """Return a message as its receiver decodes it: without the fields that the version lacks, partitions by topic."""
    fields = Schema(type(message).__name__).layout(version).fields
    return _read(type(message), fields_of(message, fields), fields, version, {})


def _read(kind: Any, values: Any, fields: tuple[Field, ...], version: int, around: Mapping[str, Any]) -> Any:
    """Return the message of a class; `around` are the values of the structs around it."""
    if kind is TopicPartition and not isinstance(values, dict):
        values = {"partition": values}
    if kind is TopicPartition:
        topic = next((each[name] for each in (values, around) for name in (*TOPICS, "topic_id") if name in each), "")
        return TopicPartition(topic, next(values[name] for name in PARTITIONS if name in values))
    if kind is str and isinstance(values, dict):
        return values["name"]
    if not attrs.has(kind):
        return values
    if not isinstance(values, dict):
        values = {"partition": values}
    made = {}
    for attribute in attrs.fields(kind):
        read = binding_of(kind).read.get(attribute.name)
        value = partial(_attribute, kind, values=values, fields=fields, version=version, around=around)
        if read is None:
            made[attribute.name] = version if attribute.name == "version" else value(attribute)
            continue
        own = {name: each for each in attrs.fields(kind) for name in _names_of(kind, each.name)}
        arguments = {
            name: version if name == "version" else value(own[name]) if name in own else values[name]
            for name in inspect.signature(read).parameters
            if name == "version" or name in values
        }
        made[attribute.name] = read(**arguments)
    return kind(**made)


def _attribute(
    kind: type, attribute: Any, values: dict[str, Any], fields: tuple[Field, ...], version: int, around: Any
) -> Any:
    hint = hints_of(kind)[attribute.name]
    if hint is TopicPartition:
        return _read(hint, values, (), version, around)
    lacks = attribute.default
    for field, outer in _fields_of(kind, attribute.name, fields):
        if lacks is attrs.NOTHING:
            lacks = field.default
        groups = [values] if outer is None else values.get(outer.name, ())
        if field.name in values or (outer is not None and outer.name in values):
            found = [group[field.name] for group in groups]
            if not isinstance(found[0] if found else [], list):
                return Secret(found[0]) if hint is Secret else found[0]
            return tuple(
                _read(element_of(hint), each, field.fields, version, {**values, **group})
                for group in groups
                for each in group[field.name]
            )
    return next((around[name] for name in _names_of(kind, attribute.name)[1:] if name in around), lacks)
