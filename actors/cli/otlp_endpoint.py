"""Send spans to an OpenTelemetry collector by OTLP/HTTP: each line of an OTLP JSON export is one request."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request

from actors.cli.app import CommandFailed

SCHEMES = ("http://", "https://")
ATTEMPTS = 5
BACK_OFF_SECONDS = 0.5
"""Before the second attempt; it doubles with each."""
TIMEOUT_SECONDS = 30.0
RETRYABLE = frozenset((429, 502, 503, 504))
"""Status codes after which the OTLP specification demands another attempt."""


class OtlpEndpoint:
    """An endpoint such as http://localhost:4318/v1/traces, with the interface of a writable file."""

    def __init__(self, url: str) -> None:
        self._url = url

    def write(self, line: bytes) -> None:
        """Send one ExportTraceServiceRequest in JSON.

        Raises:
            CommandFailed: The endpoint cannot be reached, or it rejects the request or a part of it.
        """
        request = urllib.request.Request(self._url, line, {"Content-Type": "application/json"})
        for attempt in range(ATTEMPTS):
            try:
                with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as response:
                    self._check(response.read())
                return
            except urllib.error.HTTPError as error:
                if error.code not in RETRYABLE or attempt == ATTEMPTS - 1:
                    raise CommandFailed(
                        f"{self._url}: HTTP status {error.code} {error.reason}. Name an OTLP/HTTP endpoint that accepts"
                        " JSON, such as http://localhost:4318/v1/traces."
                    ) from error
                time.sleep(_seconds(error.headers.get("Retry-After"), BACK_OFF_SECONDS * 2**attempt))
            except OSError as error:
                raise CommandFailed(f"{self._url}: {getattr(error, 'reason', error)}") from error

    def _check(self, body: bytes) -> None:
        """Raise CommandFailed if the response says that spans were rejected; other content is ignored."""
        try:
            partial = json.loads(body or b"{}").get("partialSuccess") or {}
        except (ValueError, AttributeError):
            return
        if int(partial.get("rejectedSpans", 0)):
            why = partial.get("errorMessage", "no reason given")
            raise CommandFailed(f"{self._url} rejected {partial['rejectedSpans']} spans: {why}")


def _seconds(retry_after: str | None, otherwise: float) -> float:
    return min(float(retry_after), TIMEOUT_SECONDS) if retry_after and retry_after.isdigit() else otherwise
