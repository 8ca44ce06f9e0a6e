"""The reports of a listener to the request handler: the first is sent at once, those that follow once a second."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from actors.core.security.access import RefusedAccess
from actors.runtime import CallLater, ScheduledCall
from messages.acls import znode_name
from messages.network import AccessDenied, Denial

SECONDS = 1.0
"""Minimum seconds between two reports."""
MOST_DENIALS = 100
"""Maximum number of different refused operations in a report."""


class PacedReport:
    """A report that is sent again and again.

    Args:
        call_later: Starts a timer.
        send: Sends what there is to report; it returns whether there was anything.
    """

    def __init__(self, call_later: CallLater, send: Callable[[], bool]) -> None:
        self._call_later, self._send = call_later, send
        self._timer: ScheduledCall | None = None

    def send_soon(self) -> None:
        """Send the report now, or a second after the previous one."""
        if self._timer is None:
            self._report()

    def stop(self) -> None:
        """Send no further report."""
        if self._timer is not None:
            self._timer.cancel()

    def _report(self) -> None:
        self._timer = self._call_later(SECONDS, self._report) if self._send() else None


class DenialReport:
    """The operations that a listener's authorizer has refused, with their numbers.

    Args:
        call_later: Starts a timer.
        send: Sends the report.
    """

    def __init__(self, call_later: CallLater, send: Callable[[AccessDenied], None]) -> None:
        self._denials: Counter[Denial] = Counter()
        self._send_to_handler = send
        self._report = PacedReport(call_later, self._send)
        self.stop = self._report.stop

    def add(self, denial: Denial) -> None:
        """Report a refused operation."""
        if denial in self._denials or len(self._denials) < MOST_DENIALS:
            self._denials[denial] += 1
        self._report.send_soon()

    def _send(self) -> bool:
        denials, self._denials = self._denials, Counter()
        if denials:
            found = [denial._replace(times=times) for denial, times in denials.items()]
            self._send_to_handler(AccessDenied(tuple(found)))
        return bool(denials)


def denial_of(principal: str, host: str, client_id: str, api: str, refused: RefusedAccess) -> Denial:
    """Return a refused operation as it is reported."""
    operation, resource, name = znode_name(refused.operation), znode_name(refused.resource), refused.name[:250]
    return Denial(principal, f"/{host}", client_id, api, operation, resource, name, refused.denied_by)
