"""Compare the table of message schemas with Apache Kafka's definitions and with the declared APIs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from messages.apis import APIS
from messages.wire.layout import Schema
from messages.wire.schemas import SCHEMAS
from tests.layering import ROOT
from tests.wire.schema_table import JAR, TARGET, table


def test_every_declared_api_has_both_schemas_and_no_other_is_kept() -> None:
    assert set(SCHEMAS) == {f"{api.name}{kind}" for api in APIS for kind in ("Request", "Response")}


def test_a_schema_has_the_fields_of_each_version() -> None:
    """The schema is MetadataRequest of Kafka 3.9.1 (clients/src/main/resources/common/message/MetadataRequest.json)."""
    schema = Schema("MetadataRequest")
    names = {version: [field.name for field in schema.layout(version).fields if field.present] for version in (0, 4, 9)}
    assert names == {
        0: ["topics"],
        4: ["topics", "allow_auto_topic_creation"],
        9: [
            "topics",
            "allow_auto_topic_creation",
            "include_cluster_authorized_operations",
            "include_topic_authorized_operations",
        ],
    }
    topics, auto = schema.layout(1).fields[:2]
    assert (topics.array, topics.type, topics.nullable, auto.default) == (True, "struct", True, True)
    assert not schema.layout(0).fields[0].nullable
    assert [schema.is_flexible(version) for version in (8, 9, 12)] == [False, True, True]


def test_the_codec_needs_no_client_library() -> None:
    program = (
        "import sys; sys.modules['kafka'] = None\n"
        "from messages.apis.metadata import MetadataRequest\n"
        "from messages.wire import decode_request, encode_request\n"
        "print(decode_request(encode_request(MetadataRequest(9, ('t',)), 7, 'c')[4:])[1].topics)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout == "('t',)\n", done.stderr


@pytest.mark.apache
def test_the_table_equals_apaches_definitions(apache_jars: Path, tmp_path: Path) -> None:
    made = tmp_path / "schemas.py"
    made.write_text(table(apache_jars / JAR), encoding="utf-8")
    subprocess.run([sys.executable, "-m", "ruff", "format", "--quiet", str(made)], check=True, cwd=ROOT)
    assert made.read_text(encoding="utf-8") == TARGET.read_text(encoding="utf-8")
