"""Kafka's wire format: convert between bytes and the messages of `messages.apis`.

    encode_request(request, correlation_id, client_id) -> bytes      with size, in request.version
    decode_request(frame) -> (RequestHeader, request)
    encode_response(header, response) -> bytes                       with size, in the version of `header`
    decode_response(request_type, version, frame) -> (correlation_id, response)
    FrameReader().feed(data) -> frames

    decoding_request, decoding_response: the same functions as generators
    encoding_request, encoding_response_pieces: generators that return the frame in pieces; `chunks` joins some of them

Each error is a `WireError`. `messages.apis` lists the supported APIs and versions.
"""

from messages.wire.codec import (
    RequestHeader,
    decode_request,
    decode_response,
    decoding_request,
    decoding_response,
    encode_request,
    encode_response,
    encoding_request,
    encoding_response_pieces,
)
from messages.wire.compiler import LongSteps, Steps
from messages.wire.errors import (
    FrameTooLarge,
    MalformedFrame,
    Unencodable,
    UnknownApi,
    UnsupportedVersion,
    WireError,
)
from messages.wire.frame import MAX_FRAME_BYTES, FrameReader, chunks
