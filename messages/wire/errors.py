"""What can be wrong with bytes, by name: every refusal of this package is a `WireError`.

Rule: the reader of a socket catches `WireError` and closes the connection (broker.md 6.3); nothing else comes out of
decoding, whatever the bytes are.
"""

from __future__ import annotations


class WireError(Exception):
    """Bytes that cannot be understood, or a message that has no bytes.

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
    """The API is known, this version of it is not."""


class MalformedFrame(WireError):
    """The bytes end too early, or do not say what the API's layout wants."""


class FrameTooLarge(WireError):
    """A frame announces more bytes than the reader takes."""


class Unencodable(WireError, ValueError):
    """The message says something that this version of the API has no bytes for."""
