"""Refused is the exception for requests that violate a rule of Kafka; it has Kafka's error code and message."""

from __future__ import annotations

from messages import errors


class Refused(ValueError):
    """The base class of exceptions for requests that violate a rule of Kafka."""

    code = errors.INVALID_REQUEST

    def __init__(self, text: str, code: int | None = None) -> None:
        super().__init__(text)
        if code is not None:
            self.code = code
