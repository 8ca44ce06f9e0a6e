"""How an actor is constructed: by Thespian's rules, without Thespian's cost.

A constructor may name `capabilities` and `requirements` and gets what it names, nothing else. Which it names is found
out once per class; Thespian inspects the signature at each creation, which is most of the 20 us that one takes there.
"""

from __future__ import annotations

import inspect
from typing import Any
from weakref import WeakKeyDictionary

from thespian.actors import Actor, NoCompatibleSystemForActor

_named: WeakKeyDictionary[type, frozenset[str]] = WeakKeyDictionary()
_OFFERED = frozenset({"capabilities", "requirements"})


def construct(actor_class: type[Actor], capabilities: dict[str, Any], requirements: dict[str, Any] | None) -> Actor:
    """A new instance. Raises NoCompatibleSystemForActor where the class refuses these capabilities."""
    check = getattr(actor_class, "actorSystemCapabilityCheck", None)
    if check is not None and not check(capabilities, requirements or {}):
        raise NoCompatibleSystemForActor(actor_class, "the capability check refused this system")
    if actor_class.__init__ is Actor.__init__:
        return actor_class()
    named = _named.get(actor_class)
    if named is None:
        named = _named[actor_class] = _OFFERED.intersection(inspect.signature(actor_class.__init__).parameters)
    if not named:
        return actor_class()
    offered = {"capabilities": capabilities, "requirements": requirements}
    return actor_class(**{name: offered[name] for name in named})
