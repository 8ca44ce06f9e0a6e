"""Convert the deliveries of traces to Arrow record batches; this needs pyarrow."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

from messages.trace.errors import TraceError
from messages.trace.files.runs import Run


class MissingExtra(TraceError, ImportError):
    """A library of an optional extra is not installed; the text names the command that installs it."""


def reader_of(runs: Sequence[Run]) -> Any:
    """Return the deliveries of the runs as a `pyarrow.RecordBatchReader`.

    Raises:
        MissingExtra: pyarrow is not installed.
    """
    if find_spec("pyarrow") is None:
        raise MissingExtra(
            "arrow() needs pyarrow, of the extra 'spark' of kafka-actors. Install it: python -m pip install pyarrow"
        )
    import pyarrow as pa

    from spark.columns import ARROW, batches, plan_slices

    return pa.RecordBatchReader.from_batches(ARROW, (batch for slice in plan_slices(runs) for batch in batches(slice)))
