"""Construction of actors by Thespian's rules, at lower cost.

A constructor may name `capabilities` and `requirements` and gets what it names, nothing else. Which it names, and
whether the class judges systems, is found out once per class; Thespian inspects the signature at each creation, which
is most of the 20 us that one takes there.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from thespian.actors import Actor, NoCompatibleSystemForActor

_CLASSES = 128
"""Maximum number of cached classes: loaded sources may come and go."""
_OFFERED = frozenset({"capabilities", "requirements"})


def construct(actor_class: type[Actor], capabilities: dict[str, Any], requirements: dict[str, Any] | None) -> Actor:
    """A new instance. Raises NoCompatibleSystemForActor where the class refuses these capabilities."""
    check, named = _wishes(actor_class)  # type: ignore[arg-type]  # (a metaclass of Thespian's has no types)
    if check is not None and not check(capabilities, requirements or {}):
        raise NoCompatibleSystemForActor(actor_class, "the capability check rejected this actor system")
    if not named:
        return actor_class()
    offered = {"capabilities": capabilities, "requirements": requirements}
    return actor_class(**{name: offered[name] for name in named})


@lru_cache(_CLASSES)
def _wishes(actor_class: type[Actor]) -> tuple[Callable[..., bool] | None, frozenset[str]]:
    """The class's capability check, if it has one, and what its constructor names."""
    check = getattr(actor_class, "actorSystemCapabilityCheck", None)
    if actor_class.__init__ is Actor.__init__:
        return check, frozenset()
    return check, _OFFERED.intersection(inspect.signature(actor_class.__init__).parameters)
