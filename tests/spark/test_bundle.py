"""The bundle of code for workers on other machines."""

from __future__ import annotations

from spark.bundle import LIBRARIES
from tests.layering import LAYERS


def test_a_bundle_has_what_the_messages_in_it_import() -> None:
    """The layering rules list the imports, and another test checks these rules. Only long tests submit a job."""
    imported = frozenset().union(*(layer.others for name, layer in LAYERS.items() if name.startswith("messages")))
    packages = {library.partition(".")[0] for library in LIBRARIES}
    assert imported - {"compression"} <= packages  # part of Python 3.14
