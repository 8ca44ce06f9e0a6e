"""Refused: a request violates a rule; message and error code are Kafka's."""

from __future__ import annotations

from messages.error_codes import INVALID_REQUEST


class Refused(ValueError):
    """Base class of requests that a rule of Kafka rejects."""

    code = INVALID_REQUEST

    def __init__(self, text: str, code: int | None = None) -> None:
        super().__init__(text)
        if code is not None:
            self.code = code
