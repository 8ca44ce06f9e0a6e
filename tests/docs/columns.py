"""Write docs/reference/trace-columns.md from the columns and options of the data source; `make docs` runs it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from spark.columns import COLUMNS, EXCHANGE, FACT_COLUMNS, STATE, TRANSACTION
from spark.selection import OPTIONS
from tests.docs.markdown import wrap

FILE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "trace-columns.md"

HEAD = """\
# Columns and options of the data source

`make docs` generates this page from `spark/columns.py` and `spark/selection.py`; a test checks that
it is up to date. [Traces in Spark](../how-to/traces-in-spark.md) has examples.

Three sources have these columns, with one row for each record of a trace:
`spark.read.format("kafka-actors").load(DIR)`, the Parquet files of `trace pack`, and those of
`summary --follow --keep`. A column is null if the message has no such value.
"""


def document() -> str:
    """Return the whole page."""
    lines = [HEAD, "| column | type | meaning |", "| --- | --- | --- |"]
    lines += [f"| `{name}` | {_type(type)} | {meaning} |" for name, (type, meaning) in COLUMNS.items()]
    lines += ["", "With the option `table`, set to `facts`, the rows are facts:", ""]
    lines += ["| column | type | meaning |", "| --- | --- | --- |"]
    lines += [f"| `{name}` | {_type(type)} | {meaning} |" for name, (type, meaning) in FACT_COLUMNS.items()]
    lines += ["", "## Structs", ""]
    for struct in _STRUCTS:
        text = f"- {_STRUCTS[struct]}: " + ", ".join(f"`{f.name}` {_type(f.type)}" for f in struct)
        lines += wrap(text, "  ")
    lines += ["", "## Options", "", "| option | meaning |", "| --- | --- |"]
    lines += [f"| `{name}` | {meaning} |" for name, meaning in OPTIONS.items()]
    return "\n".join((*lines, ""))


_STRUCTS = {STATE: "state", EXCHANGE: "exchange", TRANSACTION: "transaction"}


def _type(type: pa.DataType) -> str:
    if pa.types.is_list(type):
        return f"array of {_type(type.value_type)}"
    return _STRUCTS.get(type) or {"int32": "int", "int64": "bigint", "bool": "boolean"}.get(str(type), str(type))


if __name__ == "__main__":
    FILE.write_text(document(), encoding="utf-8")
