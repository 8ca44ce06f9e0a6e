"""Inject faults into requests and into brokers.

cluster.faults.error("Produce", "NOT_LEADER_OR_FOLLOWER", topic="orders").once()
cluster.faults.slow_disk(1, 0.2)

With `AsyncKafkaCluster`, await the call that injects the fault:

async with await cluster.faults.slow_disk(1, 0.2) as fault:
    ...
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from types import TracebackType
from typing import Any, Generic, TypedDict, TypeVar, Unpack

from .operations import Asynchronous, Blocking, check, operation, state

__all__ = [
    "AsyncFaultInjection",
    "AsyncInjectedFault",
    "FaultInjection",
    "FaultKinds",
    "InjectedFault",
    "Trigger",
]

_T = TypeVar("_T")


class Filters(TypedDict, total=False):
    """The filters that select which requests a fault affects; a request must match all filters."""

    topic: str | None
    """Only requests that contain this topic."""
    partition: int | None
    """Only requests that contain this partition."""
    broker: int | None
    """Only requests to this broker."""
    client_id: str | None
    """Only requests from this client id."""


class FaultMembers:
    """What `InjectedFault` and `AsyncInjectedFault` have in common."""

    @state
    def hits(self: Blocking) -> int:
        """The number of affected requests; for a broker fault such as `pause`, the number of affected operations."""
        return int(self._ask("fault")["hits"])

    @state
    def calls(self: Blocking) -> int:
        """The number of requests that matched the API and the filters; equal to `hits` for a broker fault (`pause`)."""
        return int(self._ask("fault")["calls"])

    @operation
    def remove(self: Blocking) -> None:
        """End the fault: a paused broker resumes, and a disk or clock works again. A second call does nothing."""
        self._ask("remove_fault")


class InjectedFault(Blocking, FaultMembers):
    """An injected fault. If it is used as a context manager, it is removed when the `with` block ends."""

    def __init__(self, ask: Callable[..., Any], number: int, text: str) -> None:
        self._ask_cluster = ask
        self._number = number
        self._text = text

    def _ask(self, do: str, **arguments: object) -> Any:
        return self._ask_cluster(do, number=self._number, **arguments)

    def __enter__(self) -> InjectedFault:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.remove()

    def __repr__(self) -> str:
        return f"<InjectedFault {self._text}>"


class AsyncInjectedFault(Asynchronous, FaultMembers):
    """An injected fault. If it is used as an async context manager, it is removed when the `async with` block ends."""

    def __init__(self, fault: InjectedFault) -> None:
        self._blocking = fault

    async def __aenter__(self) -> AsyncInjectedFault:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.remove()

    def __repr__(self) -> str:
        return repr(self._blocking)


class Trigger(Generic[_T]):
    """Each method injects a fault; the choice of method determines how many matching requests the fault affects."""

    def __init__(self, inject: Callable[[Mapping[str, object]], _T], fault: Mapping[str, object]) -> None:
        self._inject = inject
        self._fault = fault

    def every_time(self) -> _T:
        """Inject the fault into every matching request."""
        return self._inject_with()

    def once(self) -> _T:
        """Inject the fault into the next matching request."""
        return self.times(1)

    def times(self, n: int) -> _T:
        """Inject the fault into the next `n` matching requests."""
        check("times", n=n)
        return self._inject_with(first=1, last=n)

    def on_call(self, n: int) -> _T:
        """Inject the fault into one request: the `n`-th matching request from now on; 1 is the next one."""
        check("on_call", n=n)
        return self._inject_with(first=n, last=n)

    def with_probability(self, probability: float, seed: int = 0) -> _T:
        """Inject the fault into each matching request with this probability, from 0 to 1.

        The same seed selects the same requests.
        """
        check("with_probability", probability=probability, seed=seed)
        return self._inject_with(probability=probability, seed=seed)

    def _inject_with(self, **trigger: object) -> _T:
        return self._inject({name: value for name, value in {**self._fault, **trigger}.items() if value is not None})


class FaultKinds(Generic[_T]):
    """The methods of FaultInjection and AsyncFaultInjection: one for each kind of request fault and broker fault.

    A request fault applies to one API, named as in Kafka ("Produce", "Fetch", "JoinGroup"). The method for a request
    fault, except `respond`, returns a `Trigger`. Each method of the `Trigger` injects the fault and returns an
    `InjectedFault`, which counts the fault's hits. The optional `filters` (topic, partition, broker, client_id) choose
    requests. A filter by topic or partition can miss a Fetch request of a fetch session, because such a request
    contains only new or changed partitions. If several faults match, the first one whose trigger fires is applied.

    The method for a broker fault injects the fault at once, and returns an `InjectedFault` too. The fault lasts until
    it is removed. Disks and clocks keep their faults when the broker is started again.

    Raises ClusterError for an invalid argument, an unknown API or broker, and if the cluster is not running.
    """

    def __init__(self, inject: Callable[[Mapping[str, object]], _T]) -> None:
        self._inject = inject

    def error(self, api: str, code: int | str, **filters: Unpack[Filters]) -> Trigger[_T]:
        """Do not handle the request; answer it with an error for each of its topics or partitions.

        `code` is the number or the name of Kafka's error, such as 6 or "NOT_LEADER_OR_FOLLOWER".
        """
        return self._trigger("error", api, code, filters)

    def respond(self, api: str, fields: Mapping[str, Any], *, times: int | None = 1, **filters: Unpack[Filters]) -> _T:
        """Do not handle the next `times` matching requests (None: all); answer them with a scripted response.

        The response is one without errors for the topics or partitions of the request. `fields` replaces its fields by
        name, as they are named in the reference of messages, such as {"controller_id": 2}. A mapping in place of a list
        changes the fields of each entry: {"partitions": {"high_watermark": 5}}. Fields that a version of the API lacks
        are not sent. The response is checked now, and again when it is encoded in the version of the request: if a
        value does not fit then, the connection is closed.
        """
        trigger = self._trigger("respond", api, fields, filters)
        return trigger.every_time() if times is None else trigger.times(times)

    def delay(self, api: str, seconds: float, **filters: Unpack[Filters]) -> Trigger[_T]:
        """Handle the request after a delay of `seconds`."""
        return self._trigger("delay", api, seconds, filters)

    def disconnect(self, api: str, **filters: Unpack[Filters]) -> Trigger[_T]:
        """Close the connection without handling the request."""
        return self._trigger("disconnect", api, None, filters)

    def lose_response(self, api: str, **filters: Unpack[Filters]) -> Trigger[_T]:
        """Handle the request, but do not send the response.

        The connection stays open, but later requests on it get no response either.
        """
        return self._trigger("lose_response", api, None, filters)

    def blackhole(self, api: str, **filters: Unpack[Filters]) -> Trigger[_T]:
        """Ignore the request and all later requests on this connection, which stays open."""
        return self._trigger("blackhole", api, None, filters)

    def throttle(self, api: str, milliseconds: int, **filters: Unpack[Filters]) -> Trigger[_T]:
        """Respond with this throttle time, and read no request from the connection during this time (KIP-219)."""
        return self._trigger("throttle", api, milliseconds, filters)

    def pause(self, broker: int) -> _T:
        """Suspend a broker as SIGSTOP does; `remove` of the returned fault resumes the broker."""
        return self._inject_kind("pause", broker)

    def mute(self, broker: int, to: int | None = None) -> _T:
        """Delay all requests and responses that a broker sends to other brokers, but none that it receives from them.

        The delayed messages wait until `remove`, or until the receiver times out. Clients and ZooKeeper are not
        affected.

        Args:
            broker: Id of the broker.
            to: Id of the receiver: only messages to this receiver are delayed. If None, the messages to all brokers
                are delayed.
        """
        return self._inject_kind("mute", broker, to=to)

    def slow_disk(self, broker: int, seconds: float) -> _T:
        """Make each write to a broker's disk take `seconds`; the broker does nothing else meanwhile."""
        return self._inject_kind("slow_disk", broker, value=seconds)

    def full_disk(self, broker: int) -> _T:
        """Fail each write to a broker's disk (ENOSPC); the first failure ends the broker, because it has only one disk.

        After `remove` the broker can be started again.
        """
        return self._inject_kind("full_disk", broker)

    def broken_disk(self, broker: int) -> _T:
        """Fail each operation on a broker's disk (EIO); as with `full_disk`, the first failure ends the broker."""
        return self._inject_kind("broken_disk", broker)

    def clock_jump(self, broker: int, seconds: float) -> _T:
        """Set a broker's wall clock forward by `seconds`, or back if negative; `remove` corrects the clock.

        Timers are not affected.
        """
        return self._inject_kind("clock_jump", broker, value=seconds)

    def session_expiry(self, broker: int) -> _T:
        """Expire a broker's ZooKeeper session once, and wait until the broker has registered again."""
        return self._inject_kind("session_expiry", broker)

    def _inject_kind(self, kind: str, broker: int, **options: object) -> _T:
        given = {"kind": kind, "broker": broker, **options}
        return self._inject({name: value for name, value in given.items() if value is not None})

    def _trigger(self, kind: str, api: str, value: object, filters: Filters) -> Trigger[_T]:
        unknown = filters.keys() - Filters.__annotations__.keys()
        if unknown:
            raise TypeError(
                f"{kind}() has no filter named {', '.join(map(repr, sorted(unknown)))}."
                f" The filters are {', '.join(Filters.__annotations__)}."
            )
        return Trigger(self._inject, {"kind": kind, "api": api, "value": value, **filters})


class AllFaults:
    """What `FaultInjection` and `AsyncFaultInjection` have in common, besides the kinds of faults."""

    @operation
    def clear(self: Blocking) -> None:
        """Remove all faults."""
        self._ask("clear_faults")

    @operation
    def never_met(self: Blocking) -> list[str]:
        """The descriptions of the faults that have not affected any request or operation."""
        return [str(each) for each in self._ask("faults_never_met")]


class FaultInjection(Blocking, FaultKinds[InjectedFault], AllFaults):
    """Injects faults into requests and brokers; each call returns when the fault is in effect."""

    def __init__(self, ask: Callable[..., Any]) -> None:
        super().__init__(self.inject)
        self._ask_cluster = ask

    def _ask(self, do: str, **arguments: object) -> Any:
        return self._ask_cluster(do, **arguments)

    def inject(self, fault: Mapping[str, object]) -> InjectedFault:
        """Inject a fault, given by the fields of an `inject_fault` request of `kafka-actors fixture`."""
        number = self._ask("inject_fault", **fault)
        text = " ".join(f"{name}={value}" for name, value in fault.items())
        return InjectedFault(self._ask_cluster, int(number), text)


class AsyncFaultInjection(Asynchronous, FaultKinds[Coroutine[Any, Any, AsyncInjectedFault]], AllFaults):
    """FaultInjection for asyncio: its methods are coroutines and do not block the event loop."""

    def __init__(self, faults: FaultInjection) -> None:
        super().__init__(self._in_thread)
        self._blocking = self._faults = faults

    async def _in_thread(self, fault: Mapping[str, object]) -> AsyncInjectedFault:
        import asyncio  # imported here, to keep the import of this module fast

        return AsyncInjectedFault(await asyncio.to_thread(self._faults.inject, fault))
