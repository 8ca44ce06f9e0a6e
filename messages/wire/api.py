"""What the codec knows of one API: key, versions, messages, their layouts, and how one becomes the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, NamedTuple, TypeVar

from messages.wire.schema import Schema, Wire

Request = TypeVar("Request")
Response = TypeVar("Response")

Fields = Mapping[str, object]
"""What `Schema.encode` takes: values by field name."""


class Api(NamedTuple, Generic[Request, Response]):
    """One API. The four conversions raise ValueError for what cannot be converted."""

    key: int
    name: str
    min_version: int
    max_version: int
    request_type: type[Request]
    response_type: type[Response]
    request_schema: Schema
    response_schema: Schema
    request_fields: Callable[[Request, int], Fields]
    read_request: Callable[[Wire, int], Request]
    response_fields: Callable[[Response, int], Fields]
    read_response: Callable[[Wire, int], Response]
