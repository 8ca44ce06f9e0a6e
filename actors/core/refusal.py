"""Refused: what was asked cannot be done; the text is what Kafka says, the code is Kafka's."""

from __future__ import annotations

from messages.error_codes import INVALID_REQUEST


class Refused(ValueError):
    """Base of everything that is refused by a rule of Kafka's."""

    code = INVALID_REQUEST

    def __init__(self, text: str, code: int | None = None) -> None:
        super().__init__(text)
        if code is not None:
            self.code = code
