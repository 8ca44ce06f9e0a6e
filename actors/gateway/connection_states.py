"""The states of a client connection, and the reasons (`Hold`) to delay its next request.

Rule 1: A state is entered only from the states that `PREVIOUS` contains. There is no state for a closed connection,
        because the stream stores whether the connection is closed.
Rule 2: A request begins only in state READY, and only while there is no hold. With a hold, or in state REFUSING, the
        socket is not read.

Kafka: `KafkaChannel.ChannelMuteState`.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping


class ConnectionState(enum.Enum):
    """The state of a connection that is not closed."""

    READY = "Ready"
    DECODING = "Decoding"
    REFUSING = "Refusing"

    __hash__ = object.__hash__  # Enum's own hash is a Python function, which each request would call twice


READY, DECODING, REFUSING = ConnectionState

PREVIOUS: Mapping[ConnectionState, tuple[ConnectionState, ...]] = {
    READY: (DECODING,),
    DECODING: (READY,),
    REFUSING: tuple(ConnectionState),
}
"""State -> states from which it can be entered."""


class Hold(enum.Enum):
    """A reason to delay the next request of a connection; the value of each enum member describes it."""

    THROTTLED = "the client has exceeded trace.client.bytes.per.second"
    DRAINING = "the client does not read its responses"
    MEMORY = "a large request waits for memory"
    TURN = "the client has sent further requests already, and other clients are served first"
