"""The legal transitions between the states of a client connection."""

from __future__ import annotations

import pytest

from actors.core.illegal_transition import IllegalTransition, enter
from actors.gateway.connection import DECODING, PREVIOUS, READY, REFUSING, ConnectionState


def test_one_request_is_decoded_at_a_time() -> None:
    assert enter("127.0.0.1:5", READY, DECODING, PREVIOUS) is DECODING
    with pytest.raises(IllegalTransition, match=r"127\.0\.0\.1:5 cannot move from Decoding to Decoding"):
        enter("127.0.0.1:5", DECODING, DECODING, PREVIOUS)
    assert enter("127.0.0.1:5", DECODING, READY, PREVIOUS) is READY


@pytest.mark.parametrize("state", ConnectionState)
def test_a_refused_connection_begins_no_request_any_more(state: ConnectionState) -> None:
    assert enter("127.0.0.1:5", state, REFUSING, PREVIOUS) is REFUSING
    if state is not REFUSING:
        with pytest.raises(IllegalTransition):
            enter("127.0.0.1:5", REFUSING, state, PREVIOUS)
