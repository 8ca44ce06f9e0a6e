"""Encode the sample messages with kio 0.5.0, an independent codec.

`request_body` and `response_body` return the fields of our messages. kio encodes these fields.
"""

from __future__ import annotations

import base64
import dataclasses
import datetime
import importlib
import io
import re
import struct
import types
import typing
import uuid
from typing import Any

from kio.schema.errors import ErrorCode
from kio.serial import entity_writer
from kio.static.constants import EntityType

from messages.apis import API_BY_KEY
from messages.wire import RequestHeader
from messages.wire.layout import Schema
from tests.wire.samples import fields_of

Body = dict[str, Any]


def request_frame(header: RequestHeader, request: Any) -> bytes:
    """Return the request's complete frame, encoded by kio."""
    kind = kind_of(header.api_key, header.version, EntityType.request)
    named = {
        "request_api_key": header.api_key,
        "request_api_version": header.version,
        "correlation_id": header.correlation_id,
        "client_id": header.client_id,
    }
    return _frame(kind, named, request_body(request))


def response_frame(header: RequestHeader, response: Any) -> bytes:
    """Return the response's complete frame, encoded by kio."""
    kind = kind_of(header.api_key, header.version, EntityType.response)
    return _frame(kind, {"correlation_id": header.correlation_id}, response_body(response, header.version))


def _frame(kind: type, header: Body, body: Body) -> bytes:
    out = io.BytesIO()
    for part in (entity(kind.__header_schema__, header), entity(kind, body)):  # type: ignore[attr-defined]
        entity_writer(type(part))(out, part)
    return struct.pack(">i", len(out.getvalue())) + out.getvalue()


def kind_of(api_key: int, version: int, of: EntityType) -> type:
    name = re.sub("(?<!^)(?=[A-Z])", "_", API_BY_KEY[api_key].name).lower()
    module = importlib.import_module(f"kio.schema.{name}.v{version}.{of.name}")
    return next(
        kind
        for kind in vars(module).values()
        if getattr(kind, "__type__", None) is of and kind.__module__ == module.__name__
    )


def entity(kind: type, values: Body) -> Any:
    """Build kio's dataclass from the fields; kio ends some names with _, and omits the unit of times."""
    hints = typing.get_type_hints(kind)
    given = {}
    for field in dataclasses.fields(kind):
        name = next((each for each in (field.name, field.name.rstrip("_"), f"{field.name}_ms") if each in values), None)
        if name is not None:
            given[field.name] = _value(hints[field.name], field.metadata.get("kafka_type") or "", values[name])
    return kind(**given)


def _value(hint: Any, kafka_type: str, value: Any) -> Any:
    if kafka_type == "error_code":
        return ErrorCode(value)
    if kafka_type.startswith("timedelta"):
        return datetime.timedelta(milliseconds=value)
    if kafka_type.startswith("datetime"):
        return None if value == -1 else datetime.datetime.fromtimestamp(value / 1000, datetime.UTC)
    if kafka_type == "uuid":
        return uuid.UUID(bytes=base64.urlsafe_b64decode(f"{value}==")) if value else None
    choices = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    if isinstance(value, (list, tuple)):
        inner = next(typing.get_args(choice)[0] for choice in choices if typing.get_origin(choice) is tuple)
        return tuple(entity(inner, item) if isinstance(item, dict) else item for item in value)
    return value


def request_body(request: Any) -> Body:
    """Return the fields of `request` by Kafka's names."""
    return fields_of(request, Schema(type(request).__name__).layout(request.version).fields)


def response_body(response: Any, version: int) -> Body:
    """Return the fields of `response` by Kafka's names."""
    return fields_of(response, Schema(type(response).__name__).layout(version).fields)
