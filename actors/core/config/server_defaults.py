"""Functions that return the defaults of broker settings. The class NodeSettings declares these defaults."""

from __future__ import annotations

import attrs

from messages.cluster import Endpoint
from messages.node import NodeSettings

FIELDS = attrs.fields_dict(NodeSettings)
"""The fields of NodeSettings by name."""


def field_of(setting: str) -> str:
    """Return the field of NodeSettings for a broker setting."""
    return setting.replace(".", "_")


def text_of(value: object) -> str | None:
    """Return a setting's value in the form used in server.properties; None if the setting has no value."""
    match value:
        case None:
            return None
        case bool():
            return str(value).lower()
        case tuple():
            return ",".join(filter(None, map(text_of, value)))
        case Endpoint(listener, host, port):
            return f"{listener}://{host}:{port}"
    return str(value)


def default_of(field: str) -> str | None:
    """Return the default of a field as text; None if it has no default."""
    default = FIELDS[field].default
    return None if default is attrs.NOTHING else text_of(default)
