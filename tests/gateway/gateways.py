"""A listener gateway without a node, on its own asyncio loop."""

from __future__ import annotations

import asyncio

from actors.gateway.listener import ListenerGateway
from actors.runtime import LocalBase, RealClock
from messages.network import ClientRequest, ClientRequests
from tests.broker.harness import settings


def run_with_gateway(scenario: object, **fields: object) -> None:
    """Run `scenario(gateway, base, handler, seen)` on a loop.

    `seen` collects the requests that the gateway sends to the endpoint `handler`.
    """

    async def main() -> None:
        base = LocalBase(clock=RealClock())
        seen: list[ClientRequest] = []

        def take(message: object, sender: object) -> None:
            seen.extend(message.requests if isinstance(message, ClientRequests) else (message,))

        handler = base.external_endpoint("handler", take)
        gateway = ListenerGateway(base, settings("/nowhere", **fields))
        base.attach(asyncio.get_running_loop())
        await gateway.bind()
        try:
            await asyncio.wait_for(scenario(gateway, base, handler, seen), 20)  # type: ignore[operator]
        finally:
            await gateway.stop()
            base.detach()

    asyncio.run(main())


async def turns(count: int = 50) -> None:
    """Let the loop turn `count` times, after which the gateway has done all that it can do without further input.

    Bytes sent over the loopback are in the peer's socket when `send` returns; a few turns take them to the actors.
    """
    for _ in range(count):
        await asyncio.sleep(0)


async def eventually(look: object) -> None:
    """Wait on the loop until the condition is true, for at most 10 s."""
    for _ in range(2000):
        if look():  # type: ignore[operator]
            return
        await asyncio.sleep(0.005)
    raise AssertionError("condition not met within 10 s")
