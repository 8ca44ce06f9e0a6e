"""Inject faults into a test cluster from asyncio code.

await cluster.faults.error("Produce", 6, topic="orders").once()
async with await cluster.faults.slow_disk(1, 0.2) as fault:
    ...
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from types import TracebackType
from typing import Any

from .fault_injection import FaultInjection, FaultKinds, InjectedFault

__all__ = ["AsyncFaultInjection", "AsyncInjectedFault"]


class AsyncInjectedFault:
    """An injected fault. If it is used as an async context manager, it is removed when the `async with` block ends."""

    def __init__(self, fault: InjectedFault) -> None:
        self._fault = fault

    async def hits(self) -> int:
        """The number of affected requests; for a broker fault such as `pause`, the number of affected operations."""
        return await asyncio.to_thread(lambda: self._fault.hits)

    async def calls(self) -> int:
        """The number of requests that matched the API and the filters; equal to `hits` for a broker fault (`pause`)."""
        return await asyncio.to_thread(lambda: self._fault.calls)

    async def remove(self) -> None:
        """End the fault: a paused broker resumes, and a disk or clock works again. A second call does nothing."""
        await asyncio.to_thread(self._fault.remove)

    async def __aenter__(self) -> AsyncInjectedFault:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.remove()

    def __repr__(self) -> str:
        return repr(self._fault)


class AsyncFaultInjection(FaultKinds[Coroutine[Any, Any, AsyncInjectedFault]]):
    """FaultInjection for asyncio: its methods are coroutines and do not block the event loop."""

    def __init__(self, faults: FaultInjection) -> None:
        super().__init__(self._in_thread)
        self._faults = faults

    async def _in_thread(self, fault: Mapping[str, object]) -> AsyncInjectedFault:
        return AsyncInjectedFault(await asyncio.to_thread(self._faults.inject, fault))

    async def clear(self) -> None:
        """Remove all faults."""
        await asyncio.to_thread(self._faults.clear)

    async def never_met(self) -> list[str]:
        """The descriptions of the faults that have not affected any request or operation."""
        return await asyncio.to_thread(self._faults.never_met)
