"""Compare each message in every version, byte for byte, with kio 0.5.0, and decode it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from messages.wire import RequestHeader, decode_request, decode_response, encode_request, encode_response
from tests.wire.oracle import request_frame, response_frame
from tests.wire.samples import EVERY_VERSION, REQUESTS, RESPONSES, as_read, int32, texts


@pytest.mark.parametrize(("key", "version"), EVERY_VERSION)
@settings(max_examples=10)
@given(data=st.data(), correlation_id=int32, client_id=texts)
def test_each_request_is_encoded_and_decoded_as_kio_does(
    key: int, version: int, data: Any, correlation_id: int, client_id: str
) -> None:
    request = data.draw(REQUESTS[key](version))
    header = RequestHeader(key, version, correlation_id, client_id)
    frame = encode_request(request, correlation_id, client_id)
    assert frame == request_frame(header, request)
    nameless = (key, version) == (7, 0)  # ControlledShutdown v0 has no client id in its header
    read = (header._replace(client_id="") if nameless else header, as_read(request, version))
    assert decode_request(frame[4:]) == read
    assert decode_request(frame[4:] + b"more") == read, "trailing bytes are ignored"


@pytest.mark.parametrize(("key", "version"), EVERY_VERSION)
@settings(max_examples=10)
@given(data=st.data(), correlation_id=int32)
def test_each_response_is_encoded_and_decoded_as_kio_does(
    key: int, version: int, data: Any, correlation_id: int
) -> None:
    response = data.draw(RESPONSES[key](version))
    header = RequestHeader(key, version, correlation_id, "")
    frame = encode_response(header, response)
    assert frame == response_frame(header, response)
    read = (correlation_id, as_read(response, version))
    assert decode_response(key, version, frame[4:]) == read
    assert decode_response(key, version, frame[4:] + b"more") == read, "trailing bytes are ignored"
