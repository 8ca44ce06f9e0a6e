"""A pytest plugin that runs Thespian's own test suite on LocalBase.

The suite imports system bases by module name, and skips tests by the literal 'simpleSystemBase'. So the plugin replaces
that module with LocalBase. It deselects the tests of the `multiproc` bases, and of what LocalBase does not have.
"""

from __future__ import annotations

import sys
import traceback
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from thespian.actors import ActorAddress, ChildActorExited, PoisonMessage

from actors.runtime import LocalBase
from actors.runtime.kernel.reference import ActorRef

ABSENT = ("TestFuncLoadSource", "TestFuncStats", "testLoadable")
"""Parts of the names of tests that load actors' sources at run time or request an actor's status: no node does so."""

EXCEPTIONS: dict[str, str] = {
    "test_multiple_threads_private_context_ask[simpleSystemBase-100]": (
        "100 threads at a time ask for up to 70 ms of serial sleeping each: 7 s against the test's own timeout of 5 s."
        " Thespian's simple base passes only because it ignores the timeout of ask(); with that mended it fails too."
    )
}
"""Tests that are not run, by the end of their name, with the reason: whether they fail is undefined."""


class ActorSystemBase(LocalBase):
    """LocalBase with the interface that the suite expects.

    ActorSystem calls the constructor. `actorRegistry` returns actors.
    """

    def __init__(self, system: Any, logDefs: Any = None) -> None:
        super().__init__(capabilities=system.capabilities)

    def handler_failed(self, to: ActorRef, message: Any, sender: ActorRef, error: Exception) -> None:
        """Handle a message a second time if its handler raised, and then return it to its sender."""
        try:
            to.actor.receiveMessage(message, sender)  # type: ignore[union-attr]
        except Exception as again:
            super().handler_failed(to, message, sender, again)
            if not isinstance(message, PoisonMessage | ChildActorExited):
                self.send_as_system(sender, PoisonMessage(message, "".join(traceback.format_exception(again))), to)

    @property
    def actorRegistry(self) -> Any:
        """Return the registry in which ActorSystemTestCase.actualActorObject finds an actor."""
        return _Registry(self)


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


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests of `multiproc` bases and of what is absent; expect those in EXCEPTIONS to fail."""
    ours = [item for item in items if not any(part in item.nodeid for part in ("multiproc", *ABSENT))]
    for item in ours:
        for name, reason in EXCEPTIONS.items():
            if item.name.endswith(name):
                item.add_marker(pytest.mark.xfail(reason=reason, run=False))
    items[:] = ours
