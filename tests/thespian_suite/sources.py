"""Load the source code of actors at run time, as Thespian's loadActorSource does.

A source is a zip of Python modules, identified by its MD5. One actor registers as source authority. A source can be
used after this actor has replied to ValidateSource with ValidatedSource. Subscribed actors receive LoadedSource and
UnloadedSource.
"""

from __future__ import annotations

import hashlib
import logging
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from thespian.actors import Actor, LoadedSource, UnloadedSource, ValidatedSource, ValidateSource
from thespian.system.sourceLoader import SourceHashFinder, loadModuleFromHashSource
from thespian.system.utilis import actualActorClass

from actors.runtime.kernel.reference import ActorRef

log = logging.getLogger(__name__)


class Sources:
    """The actor source code (zip files) that an actor system has loaded.

    This object also stores the actor that approves the code (Thespian's source authority), and the subscribers to
    changes.
    """

    def __init__(self, send: Callable[[ActorRef, Any], None]) -> None:
        self._send = send
        self._zips: dict[str, bytes] = {}
        self._subscribers: list[ActorRef] = []
        self.authority: ActorRef | None = None

    def actor_class(self, name: str, source_hash: str | None) -> type[Actor]:
        """Return the class `name` ("module.Class") from a loaded source; without a hash, import it as usual."""
        loader = partial(loadModuleFromHashSource, source_hash, self._zips) if source_hash else None
        found: type[Actor] = actualActorClass(name, loader)
        return found

    def load(self, source: Any) -> str:
        """Read a source (path or binary file), send it to the authority, and return its hash."""
        if hasattr(source, "read"):
            with source:
                data = source.read()
        else:
            data = Path(source).read_bytes()
        source_hash = hashlib.md5(data, usedforsecurity=False).hexdigest()
        if self.authority is not None:
            self._send(self.authority, ValidateSource(source_hash, data))
        return source_hash

    def validated(self, verdict: ValidatedSource) -> None:
        """Store a source that the authority has approved, if it can be read."""
        try:
            names = SourceHashFinder(verdict.sourceHash, lambda data: data, verdict.sourceZip).getZipNames()
        except Exception as error:
            log.error("Failed to load the actors' source code (hash %s): %s", verdict.sourceHash, error)
            return
        log.info("Loaded actor source code with hash %s: %d modules", verdict.sourceHash, len(names))
        self._zips[verdict.sourceHash] = verdict.sourceZip
        for ref in self._subscribers:
            self._send(ref, LoadedSource(verdict.sourceHash, ""))

    def unload(self, source_hash: str) -> None:
        """Unload a source and the modules imported from it."""
        if self._zips.pop(source_hash, None) is not None:
            for ref in self._subscribers:
                self._send(ref, UnloadedSource(source_hash, ""))
        for finder in [finder for finder in sys.meta_path if getattr(finder, "srcHash", None) == source_hash]:
            for module in [name for name in sys.modules if name.startswith(finder.hashRoot())]:  # type: ignore[attr-defined]
                del sys.modules[module]
            sys.meta_path.remove(finder)

    def unload_all(self) -> None:
        """Unload all sources."""
        for source_hash in list(self._zips):
            self.unload(source_hash)

    def notify(self, ref: ActorRef, enable: bool) -> None:
        """Subscribe `ref` to the loading and unloading of sources, or unsubscribe it if not `enable`.

        A new subscriber first receives a LoadedSource for each source that is already loaded.
        """
        if not enable and not self._subscribers:
            return
        self._subscribers = [subscriber for subscriber in self._subscribers if subscriber is not ref]
        if enable:
            self._subscribers.append(ref)
            for source_hash in self._zips:
                self._send(ref, LoadedSource(source_hash, ""))
