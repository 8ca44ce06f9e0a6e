"""The orders of the shop, and their form in Kafka."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Order:
    """An order of a number of pieces of an article."""

    article: str
    pieces: int

    def encoded(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def decoded(cls, value: bytes) -> Order:
        return cls(**json.loads(value))
