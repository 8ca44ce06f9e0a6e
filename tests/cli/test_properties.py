"""Java's properties syntax: the cases in the documentation of Properties.load, and rules for any text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.node.properties import format_properties, parse_properties


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Truth = Beauty\n  Truth:Beauty\nTruth\t\t\t:Beauty", {"Truth": "Beauty"}),
        (
            "fruits   apple, banana, pear, \\\n         cantaloupe, \\\n  kiwi",
            {"fruits": "apple, banana, pear, cantaloupe, kiwi"},
        ),
        ("cheeses", {"cheeses": ""}),
        ("# a comment \\\na=1\n  ! another\r\n\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        (r"a\=b\:c\ d = e", {"a=b:c d": "e"}),
        (r"path=c:\\kafka\tx", {"path": "c:\\kafka\tx"}),
        ("a=b=c:d", {"a": "b=c:d"}),
        ("a = = b", {"a": "= b"}),
        (r"a=\u00e9\q", {"a": "éq"}),
        ("a=1 \nb=2", {"a": "1 ", "b": "2"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        ("a=1\\", {"a": "1"}),
        ("a=1\\\n\nb=2", {"a": "1", "b": "2"}),
        ("a=1\\\n# part of it", {"a": "1# part of it"}),
        ("", {}),
    ],
)
def test_properties_are_parsed_as_java_parses_them(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected


def test_a_torn_escape_names_its_line() -> None:
    with pytest.raises(ValueError, match=r"line 2: \\u00 is no"):
        parse_properties("a=1\nb=\\u00")


@given(st.dictionaries(st.text(min_size=1), st.text()))
def test_what_is_written_is_read_back(properties: dict[str, str]) -> None:
    assert parse_properties(format_properties(properties)) == properties


@given(st.text(alphabet="ab=: \t\f\\\n\r#!u0é"))
def test_any_text_is_read_or_refused_with_a_line(text: str) -> None:
    try:
        parse_properties(text)
    except ValueError as error:
        assert str(error).startswith("line ")
