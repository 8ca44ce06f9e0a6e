"""The errors of encoding and decoding; each is a `WireError`.

Rule: the reader of a socket catches `WireError` and closes the connection (broker.md 6.3); nothing else comes out of
decoding, whatever the bytes are.
"""

from __future__ import annotations


class WireError(Exception):
    """Bytes that cannot be decoded, or a message that cannot be encoded.

    `api` is the API's name ("LeaderAndIsr", "API 999", "" before it is known), `version` its version or None,
    `what` the complaint alone.
    """

    def __init__(self, what: str, api: str = "", version: int | None = None) -> None:
        self.what = what
        self.api = api
        self.version = version
        place = api if version is None else f"{api} v{version}".lstrip()
        super().__init__(f"{place}: {what}" if place else what)


class UnknownApi(WireError):
    """The request names an API that is not in `SUPPORTED`."""


class UnsupportedVersion(WireError):
    """The API exists, but not in this version."""


class MalformedFrame(WireError):
    """The bytes end too early or do not match the API's schema."""


class FrameTooLarge(WireError):
    """A frame has more bytes than the reader accepts."""


class Unencodable(WireError, ValueError):
    """The message has a value that this version of the API cannot encode."""
