"""Throttle clients by their quotas (KIP-124, KIP-219): charge each request; return for how long its client is muted.

Rule 1: bytes of a Produce request, and bytes of a fetch's response, are charged to their quotas, and the request time
        to its own. Requests of controllers, brokers and followers are exempt.
Rule 2: a response is sent at once, with the throttle time. Then its connection is muted. A consumer's response that
        exceeds a quota is replaced by an empty one, and its bytes are taken back.
Rule 3: the request time is the time in which the node decodes the request, handles it in its actors, and encodes the
        response; waiting is not included. Actors are timed only while a client has a quota of request time.

Kafka: `KafkaApis`, `ClientRequestQuotaManager`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from actors.core.client_quotas import ClientQuotas
from actors.gateway.paced_reports import PacedReport
from actors.runtime import CallLater, LocalBase
from messages.apis import API_BY_REQUEST, APIS
from messages.apis.fetch import CONSUMER, FetchRequest, FetchResponse
from messages.apis.produce import ProduceRequest
from messages.apis.write_txn_markers import WriteTxnMarkersRequest
from messages.client_quotas import (
    FETCH,
    PRODUCE,
    QUOTAS,
    REQUEST,
    ClientQuota,
    ClientsThrottled,
    FetchThrottled,
    ThrottledClient,
)
from messages.network import ClientRequest, ClientRequests
from messages.node import NodeSettings
from messages.vocabulary import Message, evolve
from messages.wire import RequestHeader

EXEMPT = {api.key for api in APIS if api.control} | {API_BY_REQUEST[WriteTxnMarkersRequest].key}
MOST_NOTED = 100
"""Maximum number of throttled clients that are reported together."""
_PRODUCE = API_BY_REQUEST[ProduceRequest].key


def throttle_fetch(charge: Charge, response: FetchResponse, delay: int) -> tuple[FetchResponse, FetchThrottled | None]:
    """Return the empty response to a throttled client's fetch, and what to undo in its session if it has one (rule 2).

    `delay` is the throttle time in ms.
    """
    session_id = 0 if charge.ends_session else response.session_id
    empty = FetchResponse((), response.error_code, session_id, delay)
    if not (response.session_id and response.partitions):
        return empty, None
    dropped = tuple([each.partition for each in response.partitions])
    return empty, FetchThrottled(response.session_id, charge.ends_session, dropped)


class Charge:
    """What a request in progress has used, and whose quotas it uses."""

    __slots__ = "client_id", "ends_session", "seconds", "user"

    def __init__(self, user: str, client_id: str, seconds: float, ends_session: bool) -> None:
        self.user = user
        self.client_id = client_id
        self.seconds = seconds
        """Request time so far, without the actors."""
        self.ends_session = ends_session
        """Whether a throttled response names no fetch session, because the request is a full fetch."""


class Throttle:
    """The quotas of a listener's clients.

    Args:
        base: The actor system of the node.
        settings: The settings of the node.
        now: Returns the time in seconds.
        call_later: Calls a function after a number of seconds.
        report: Called with the clients that were throttled: the first at once, those that follow once a second.
    """

    def __init__(
        self,
        base: LocalBase,
        settings: NodeSettings,
        now: Callable[[], float],
        call_later: CallLater,
        report: Callable[[ClientsThrottled], None],
    ) -> None:
        self.quotas = ClientQuotas(settings.quota_window_num, settings.quota_window_size_seconds)
        self.has_quotas = False
        """Whether any client has a quota."""
        self.now = now
        self._base = base
        self._report = report
        self._reports = PacedReport(call_later, self._report_throttled)
        self.stop = self._reports.stop
        self._times: RequestTimes | None = None
        self._throttled: dict[tuple[str, str, str], list[int]] = {}
        """(user, client id, quota) -> how often the client was throttled since the last report, and the longest ms."""

    def configure(self, quotas: tuple[ClientQuota, ...]) -> None:
        """Replace quotas of entities; begin or end to time the actors (rule 3)."""
        self.quotas.configure(quotas)
        self.has_quotas = any(map(self.quotas.limits, QUOTAS))
        if self.quotas.limits(REQUEST) != (self._times is not None):
            self._times = RequestTimes() if self._times is None else None
            self._base.watch_deliveries(None if self._times is None else self._times.count_delivery)

    def admit(self, principal: str, header: RequestHeader, request: Message, began: float) -> Charge | None:
        """Begin to charge a request whose decoding began at `began`; None if it is exempt (rule 1)."""
        fetch = request if isinstance(request, FetchRequest) else None
        if header.api_key in EXEMPT or (fetch is not None and fetch.replica_id != CONSUMER):
            return None
        user = principal.partition(":")[2]
        return Charge(user, header.client_id or "", self.now() - began, fetch is not None and fetch.session_epoch <= 0)

    def cap(self, charge: Charge, request: Message) -> Message:
        """Return the request; if it is a fetch, for no more bytes than the quota permits in its window."""
        if not isinstance(request, FetchRequest):
            return request
        most = self.quotas.most_fetched(charge.user, charge.client_id)
        if most is None or most >= request.max_bytes:
            return request
        return evolve(request, max_bytes=most, min_bytes=min(request.min_bytes, most))

    def charge(self, charge: Charge, connection: int, header: RequestHeader, size: int, has_response: bool) -> int:
        """Charge an answered request that is not a fetch, of `size` bytes; return the throttle time in ms.

        A produce request without a response (acks=0) is not charged for its request time.
        """
        used = self._time_used(connection, header.correlation_id)
        delay = self._charge(REQUEST, charge, 100 * (charge.seconds + used)) if has_response else 0
        if header.api_key == _PRODUCE:
            delay = max(delay, self._charge(PRODUCE, charge, size))
        if self._throttled:
            self._reports.send_soon()
        return delay

    def charge_fetch(self, charge: Charge, connection: int, header: RequestHeader, size: int) -> int:
        """Charge a fetch with a response of `size` bytes; return the throttle time in ms.

        If it is not 0, the response's bytes are not charged, because another response is sent (rule 2).
        """
        used = self._time_used(connection, header.correlation_id)
        delay = max(
            self._charge(REQUEST, charge, 100 * (charge.seconds + used)),
            self._charge(FETCH, charge, size),
        )
        if delay:
            self.quotas.take_back(FETCH, charge.user, charge.client_id, size, self.now())
        if self._throttled:
            self._reports.send_soon()
        return delay

    def charge_encoding(self, charge: Charge, seconds: float) -> None:
        """Charge the time in which a response was encoded. The client's next response contains its throttle time."""
        self.quotas.charge(REQUEST, charge.user, charge.client_id, 100 * seconds, self.now())

    def _report_throttled(self) -> bool:
        throttled = self._take_throttled()
        if throttled:
            self._report(ClientsThrottled(throttled))
        return bool(throttled)

    def _take_throttled(self) -> tuple[ThrottledClient, ...]:
        """Return the clients that were throttled since the last call."""
        noted, self._throttled = self._throttled, {}
        found = []
        for (user, client_id, quota), (times, longest_ms) in noted.items():
            applied = self.quotas.quota_of(quota, user, client_id)
            if applied is not None:
                whose = user, client_id, quota, str(applied.owner), applied.bound
                found.append(ThrottledClient(*whose, times, longest_ms))
        return tuple(found)

    def forget_connection(self, connection: int) -> None:
        """Forget the requests of a closed connection."""
        if self._times is not None:
            self._times.forget_connection(connection)

    def _charge(self, quota: str, charge: Charge, amount: float) -> int:
        delay = self.quotas.charge(quota, charge.user, charge.client_id, amount, self.now())
        which = charge.user, charge.client_id, quota
        if delay and (which in self._throttled or len(self._throttled) < MOST_NOTED):
            times, longest = self._throttled.get(which, (0, 0))
            self._throttled[which] = [times + 1, max(longest, delay)]
        return delay

    def _time_used(self, connection: int, correlation_id: int) -> float:
        """Return the actors' time for a request."""
        return 0.0 if self._times is None else self._times.take(connection, correlation_id)


class RequestTimes:
    """The seconds that actors have worked on each request in progress: the deliveries that its delivery has caused.

    Requests that are delivered together share their time equally.
    """

    def __init__(self) -> None:
        self._events: dict[int, dict[int, int]] = {}
        """Connection -> correlation id -> event id."""
        self._spent: dict[int, tuple[float, int]] = {}
        """Event id -> seconds, and the number of its unanswered requests."""

    def count_delivery(self, delivery: tuple[Any, ...]) -> None:
        """Count the time of a delivery (`actors.runtime.kernel.delivery.Delivery`)."""
        event_id, message, began, finished = delivery[3], delivery[7], delivery[9], delivery[10]
        if isinstance(message, ClientRequest | ClientRequests):
            requests = (message,) if isinstance(message, ClientRequest) else message.requests
            for request in requests:
                self._events.setdefault(request.connection, {})[request.correlation_id] = event_id
            self._spent[event_id] = 0.0, len(requests)
        if event_id in self._spent:
            seconds, left = self._spent[event_id]
            self._spent[event_id] = seconds + finished - began, left

    def take(self, connection: int, correlation_id: int) -> float:
        """Return the time of an answered request, in seconds, and forget the request."""
        event_id = self._events.get(connection, {}).pop(correlation_id, 0)
        seconds, left = self._spent.pop(event_id, (0.0, 1))
        if left > 1:
            self._spent[event_id] = seconds * (left - 1) / left, left - 1
        return seconds / left

    def forget_connection(self, connection: int) -> None:
        """Forget the requests of a closed connection."""
        for correlation_id in tuple(self._events.get(connection, ())):
            self.take(connection, correlation_id)
        self._events.pop(connection, None)
