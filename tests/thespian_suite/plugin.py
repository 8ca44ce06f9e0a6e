"""A pytest plugin that runs Thespian's own test suite on LocalBase.

The suite imports system bases by module name, and skips tests by the literal 'simpleSystemBase'. So the plugin replaces
that module with LocalBase. It deselects the tests of the `multiproc` bases. It adds what only the suite uses: loaded
sources, and status requests.
"""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from thespian.actors import Actor, ActorAddress, Thespian_ActorStatus, ValidatedSource
from thespian.system.messages.status import Thespian_StatusReq
from thespian.system.timing import ExpirationTimer

from actors.runtime import LocalBase
from actors.runtime.kernel.reference import ActorRef
from tests.thespian_suite.sources import Sources

EXCEPTIONS: dict[str, str] = {
    "test_multiple_threads_private_context_ask[simpleSystemBase-100]": (
        "100 threads at a time ask for up to 70 ms of serial sleeping each: 7 s against the test's own timeout of 5 s."
        " Thespian's simple base passes only because it ignores the timeout of ask(); with that mended it fails too."
    )
}
"""Tests that are not run, by the end of their name, with the reason: whether they fail is undefined."""


class ActorSystemBase(LocalBase):
    """LocalBase with the interface that the suite expects.

    ActorSystem calls the constructor. A message whose handler raises is handled a second time. `actorRegistry` returns
    actors.
    """

    def __init__(self, system: Any, logDefs: Any = None) -> None:
        super().__init__(attempts=2, capabilities=system.capabilities)
        self.sources = Sources(self.send_as_system)
        self._source_hashes: dict[str, str] = {}

    @property
    def actorRegistry(self) -> Any:
        """Return the registry in which ActorSystemTestCase.actualActorObject finds an actor."""
        return _Registry(self)

    def create_child(self, parent: ActorRef, *arguments: Any) -> ActorRef:
        """Create an actor, by default from the source of its parent."""
        *others, source_hash = arguments
        return super().create_child(parent, *others, source_hash or self._source_hashes.get(parent.actorAddressString))

    def _construct(self, ref: ActorRef, *arguments: Any) -> None:
        super()._construct(ref, *arguments)
        if arguments[-1]:
            self._source_hashes[ref.actorAddressString] = arguments[-1]

    def _forget(self, ref: ActorRef) -> None:
        super()._forget(ref)
        self._source_hashes.pop(ref.actorAddressString, None)
        self.sources.notify(ref, False)

    def class_of(self, name: str, source_hash: str | None) -> type[Actor]:
        """Return a class from a loaded source."""
        return self.sources.actor_class(name, source_hash)

    def loadActorSource(self, source: Any) -> str:
        """Load a zip of actor sources (path or binary file) after the source authority's approval; return its hash."""
        source_hash = self.sources.load(source)
        if self._running is None:
            self.inline.drive()
        return source_hash

    def unloadActorSource(self, source_hash: str) -> None:
        """Unload a source."""
        self.sources.unload(source_hash)

    def shutdown(self) -> None:
        """Shut down the system, and unload all sources."""
        super().shutdown()
        if self._closed:
            self.sources.unload_all()

    def receive_as_system(self, message: Any, sender: ActorAddress) -> None:
        """Handle a validated source."""
        if isinstance(message, ValidatedSource):
            self.sources.validated(message)
        else:
            super().receive_as_system(message, sender)

    def deliver_system_message(self, to: ActorRef, actor: Any, message: Any, sender: ActorRef) -> None:
        """Reply to a status request: the children, pending wake-ups and queued messages of an actor."""
        if not isinstance(message, Thespian_StatusReq):
            super().deliver_system_message(to, actor, message, sender)
            return
        status = Thespian_ActorStatus(to, to.class_name, self.system_address, to.parent)
        for child in self.register.children(to):
            status.addChild(child)
        timers = (timer for timer in self.timers if timer.receiver is to)
        status.addWakeups([(to, ExpirationTimer(timer.message.delayPeriod)) for timer in timers])
        for receiver, queued, source, *_ in self.queue:
            if receiver is to:
                status.addPendingMessage(source, receiver, type(queued).__name__)
        self.send_as_system(sender, status, to)


class _Registry:
    def __init__(self, base: LocalBase) -> None:
        self._base = base

    def __getitem__(self, text: str) -> SimpleNamespace:
        return SimpleNamespace(instance=self._base.instance_of(ActorAddress(text)))


def pytest_configure(config: pytest.Config) -> None:
    """Replace the module of Thespian's in-process base by one with LocalBase."""
    module = ModuleType("thespian.system.simpleSystemBase")
    module.ActorSystemBase = ActorSystemBase  # type: ignore[attr-defined]
    sys.modules[module.__name__] = module
    reference: Any = ActorRef
    reference.registerSourceAuthority = lambda ref, address: setattr(ref.base.sources, "authority", ref)
    reference.notifyOnSourceAvailability = lambda ref, address, enable: ref.base.sources.notify(ref, enable)
    reference.loadActorSource = lambda ref, source: ref.base.loadActorSource(source)
    reference.unloadActorSource = lambda ref, source_hash: ref.base.unloadActorSource(source_hash)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests of `multiproc` bases, and mark the tests in EXCEPTIONS as expected failures."""
    ours = [item for item in items if "multiproc" not in item.name]
    for item in ours:
        for name, reason in EXCEPTIONS.items():
            if item.name.endswith(name):
                item.add_marker(pytest.mark.xfail(reason=reason, run=False))
    items[:] = ours
