"""The exceptions of encoding and decoding; each is a `WireError`.

Rule: the reader of a socket catches `WireError` and closes the connection (broker.md 6.3). Decoding raises no other
exception, for any bytes.
"""

from __future__ import annotations


class WireError(Exception):
    """The base class of the codec's exceptions: bytes cannot be decoded, or a message cannot be encoded.

    `api` is the API's name, for example "LeaderAndIsr". It is "API 999" for the unknown key 999, and "" if the error
    names no API. `version` is the API's version, or None. `what` describes the error without the API and the version.
    """

    def __init__(self, what: str, api: str = "", version: int | None = None) -> None:
        self.what = what
        self.api = api
        self.version = version
        place = api if version is None else f"{api} v{version}".lstrip()
        super().__init__(f"{place}: {what}" if place else what)


class UnknownApi(WireError):
    """The API key of a request is unknown."""


class UnsupportedVersion(WireError):
    """The API of a request is known, but not this version of it."""


class MalformedFrame(WireError):
    """The bytes of a frame end too early, or do not match the schema of the API."""


class FrameTooLarge(WireError):
    """A frame has more bytes than the receiver permits."""


class Unencodable(WireError, ValueError):
    """The message has a value that cannot be encoded in this version of the API."""
