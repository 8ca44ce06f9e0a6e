"""Check that texts for users have no word that docs/contributing/style.md replaces, and that all are collected."""

from __future__ import annotations

import re
from collections import Counter

from tests.docs import prose, surface
from tests.docs.example_values import CONTEXTS
from tests.docs.surface import SAMPLED, Text, example, found, sample, texts


def test_no_surface_has_replaced_words() -> None:
    assert not [f"{text.surface}: {hit.word!r} in {text}" for text, hit in found()]


def test_each_surface_is_collected() -> None:
    """A smaller number means that the code declares texts in a way that `tests.docs.surface` does not find."""
    counts = Counter(text.surface for text in texts())
    expected = {"help texts": 150, "log lines": 140, "errors": 300, "output": 200, "metrics": 50, "JSON keys": 100}
    expected |= {"names": 1200, "public API": 60}
    assert {name: counts[name] for name in expected if counts[name] < expected[name]} == {}


def test_a_sample_is_the_same_for_the_same_seed() -> None:
    lines = list(sample(7))
    assert lines == list(sample(7)) != list(sample(8))
    assert [line for line in lines if line.startswith("# ")] == [f"# {name}" for name in SAMPLED]
    assert len(lines) == sum(SAMPLED.values()) + 2 * len(SAMPLED)


def test_placeholders_get_example_values() -> None:
    assert example("broker {message.broker_id} at {name(error)} of {x}") == "broker 2 at Connection refused of <x>"


def test_every_placeholder_of_a_sample_has_an_example_value() -> None:
    sampled = [example(text.text) for text in texts() if text.surface in ("log lines", "errors")]
    assert [text for text in sampled if re.search(r"<[a-z ]+>", text)] == []


def test_every_example_value_is_used() -> None:
    """An unused value usually means that a text was changed, and that its sample no longer makes sense."""
    formats = [surface.without_repr(text.text) for text in texts()]
    unused = [
        (part, name)
        for part, values in CONTEXTS.items()
        for name in values
        if not any(part in text and (f"{{{name}}}" in text or f"{{{name}:d}}" in text) for text in formats)
    ]
    assert unused == []


def test_names_in_identifiers_are_found() -> None:
    text = Text("names", "a.py:1", "class LastTold: The last state.")
    assert [hit.word for hit in surface.hits("text.py", text.text)] == ["Told"]


def test_a_sample_of_prose_has_each_kind_and_is_the_same_for_the_same_seed() -> None:
    lines = list(prose.sample(7))
    assert lines == list(prose.sample(7)) != list(prose.sample(8))
    kinds = Counter(line.split()[1] for line in lines if line.startswith("---- "))
    assert kinds == prose.SAMPLED
