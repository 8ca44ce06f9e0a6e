"""What workers on other machines get of us."""

from __future__ import annotations

from spark.bundle import LIBRARIES
from tests.layering import LAYERS


def test_a_bundle_has_what_the_messages_in_it_import() -> None:
    """Taken from the layering rules, which their own test checks: a submitted job runs in long tests only."""
    imported = frozenset().union(*(layer.others for name, layer in LAYERS.items() if name.startswith("messages")))
    packages = {library.partition(".")[0] for library in LIBRARIES}
    assert imported - {"compression"} <= packages  # Python 3.14's own
