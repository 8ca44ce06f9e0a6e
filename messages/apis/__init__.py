"""The Kafka APIs that a node serves, one module for each, and the tables that follow from their declarations.

A module has the messages of its API, with one class for all versions, and declares the API (`declaration.Api`). Fields
that a version lacks have their defaults. Partitions are one flat list; the codec groups them by topic in the versions
that do so. A topic id has the text of its topic znode. Missing offsets are -1; times are in ms.
`unserved` has the APIs of features that a node does not support. `messages.wire.schemas` has the layouts of all APIs.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil

from messages.apis.api_versions import ApiVersionRange
from messages.apis.declaration import Api, Binding
from messages.releases import MAXIMA
from messages.vocabulary import evolve

_MODULES = [importlib.import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__)]

APIS: tuple[Api, ...] = tuple(
    sorted(
        (value for module in _MODULES for value in vars(module).values() if isinstance(value, Api)),
        key=lambda api: api.key,
    )
)

API_BY_KEY: dict[int, Api] = {api.key: api for api in APIS}
API_BY_REQUEST: dict[type, Api] = {api.request: api for api in APIS}

BINDINGS: dict[type, Binding] = {kind: binding for api in APIS for kind, binding in api.bindings.items()}

CARRIERS: frozenset[type] = frozenset(api.request for api in APIS if api.carries_records)
"""The requests that listeners send directly to PartitionRequestsActor: Produce and Fetch."""

ADVERTISED: tuple[ApiVersionRange, ...] = tuple(
    ApiVersionRange(api.key, api.min_version, api.max_version) for api in APIS if api.is_listed
)
"""The APIs that ApiVersions lists."""


@functools.cache
def ranges_of_release(release: str) -> tuple[ApiVersionRange, ...]:
    """Return the APIs that ApiVersions lists if the broker presents itself as an older release."""
    highest = MAXIMA[release]
    return tuple(
        [
            evolve(each, max_version=min(each.max_version, highest[each.api_key]))
            for each in ADVERTISED
            if highest.get(each.api_key, -1) >= each.min_version
        ]
    )
