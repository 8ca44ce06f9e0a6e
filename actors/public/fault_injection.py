"""Inject faults into requests, for example `cluster.faults.error("Produce", 6, topic="orders").once()`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, TypedDict, Unpack

__all__ = ["FaultInjection", "InjectedFault"]


class Filters(TypedDict, total=False):
    """The filters that select the requests for a fault; a request must match all of them."""

    topic: str | None
    """Requests that name this topic."""
    partition: int | None
    """Requests that name this partition."""
    broker: int | None
    """Requests that this broker receives."""
    client_id: str | None
    """Requests from this client id."""


class InjectedFault:
    """A fault that has been injected; as a context manager it is removed when the `with` block ends."""

    def __init__(self, ask: Callable[..., Any], number: int, text: str) -> None:
        self._ask = ask
        self._number = number
        self._text = text

    @property
    def hits(self) -> int:
        """The number of requests that met the fault."""
        return int(self._ask("fault", number=self._number)["hits"])

    @property
    def calls(self) -> int:
        """The number of requests that matched the API and the filters, including those that did not meet the fault."""
        return int(self._ask("fault", number=self._number)["calls"])

    def remove(self) -> None:
        """Remove the fault. A second call does nothing."""
        self._ask("remove_fault", number=self._number)

    def __enter__(self) -> InjectedFault:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.remove()

    def __repr__(self) -> str:
        return f"<InjectedFault {self._text}>"


class Trigger:
    """Decides how many of the matching requests meet a fault; call one of its methods to inject the fault."""

    def __init__(self, ask: Callable[..., Any], fault: Mapping[str, object]) -> None:
        self._ask = ask
        self._fault = fault

    def every_time(self) -> InjectedFault:
        """Inject the fault into every matching request."""
        return self._injected()

    def once(self) -> InjectedFault:
        """Inject the fault into the next matching request."""
        return self.times(1)

    def times(self, n: int) -> InjectedFault:
        """Inject the fault into the next `n` matching requests."""
        return self._injected(first=1, last=n)

    def on_call(self, n: int) -> InjectedFault:
        """Inject the fault into the `n`-th matching request from now on, counted from 1."""
        return self._injected(first=n, last=n)

    def with_probability(self, probability: float, seed: int = 0) -> InjectedFault:
        """Inject the fault into each matching request with this probability, from 0 to 1.

        The same seed selects the same requests.
        """
        return self._injected(probability=probability, seed=seed)

    def _injected(self, **trigger: object) -> InjectedFault:
        options = {name: value for name, value in {**self._fault, **trigger}.items() if value is not None}
        number = self._ask("inject_fault", **options)
        return InjectedFault(self._ask, int(number), " ".join(f"{name}={value}" for name, value in options.items()))


class FaultInjection:
    """Injects faults into the requests of clients and of other brokers.

    Every method takes the name of an API as Kafka has it ("Produce", "Fetch", "JoinGroup") and returns a `Trigger`. The
    methods of the trigger inject the fault and return an `InjectedFault`, which counts its hits; they raise
    ClusterError if the API is unknown or the cluster is not running.

    The optional `filters` (topic, partition, broker, client_id) select requests. A fetch session names a partition only
    if the partition is new or has changed. If several faults match a request, it meets the first whose trigger fires.
    """

    def __init__(self, ask: Callable[..., Any]) -> None:
        self._ask = ask

    def error(self, api: str, code: int, **filters: Unpack[Filters]) -> Trigger:
        """Answer the request with Kafka's error `code` for each topic or partition in it, and do not handle it."""
        return self._trigger("error", api, code, filters)

    def delay(self, api: str, seconds: float, **filters: Unpack[Filters]) -> Trigger:
        """Handle the request after a delay in seconds."""
        return self._trigger("delay", api, seconds, filters)

    def disconnect(self, api: str, **filters: Unpack[Filters]) -> Trigger:
        """Close the connection instead of handling the request."""
        return self._trigger("disconnect", api, None, filters)

    def lose_response(self, api: str, **filters: Unpack[Filters]) -> Trigger:
        """Handle the request without a response, also later requests on this connection, which stays open."""
        return self._trigger("lose_response", api, None, filters)

    def blackhole(self, api: str, **filters: Unpack[Filters]) -> Trigger:
        """Ignore the request and all later ones on this connection, which stays open."""
        return self._trigger("blackhole", api, None, filters)

    def throttle(self, api: str, milliseconds: int, **filters: Unpack[Filters]) -> Trigger:
        """Respond with this throttle time, and read no request from the connection until it has passed (KIP-219)."""
        return self._trigger("throttle", api, milliseconds, filters)

    def clear(self) -> None:
        """Remove all faults."""
        self._ask("clear_faults")

    def never_met(self) -> list[str]:
        """Describe the faults that no request has met."""
        return [str(each) for each in self._ask("faults_never_met")]

    def _trigger(self, kind: str, api: str, value: float | None, filters: Filters) -> Trigger:
        unknown = filters.keys() - Filters.__annotations__.keys()
        if unknown:
            raise TypeError(
                f"{kind}() has no filter {', '.join(sorted(unknown))}: {', '.join(Filters.__annotations__)}"
            )
        return Trigger(self._ask, {"kind": kind, "api": api, "value": value, **filters})
