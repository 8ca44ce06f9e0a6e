"""`make run` checks its ports before it installs anything.

    python .ci/ports.py FIRST COUNT

Exit code 1, with a line on standard error, if a port is in use. What is no number, `kafka-actors up` refuses itself.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

PORTS = Path(__file__).resolve().parents[1] / "actors" / "node" / "free_ports.py"

if __name__ == "__main__":
    first, count = (int(each) if each.isascii() and each.isdigit() else 0 for each in sys.argv[1:])
    last = first + count
    if first and last <= 1 << 16 and (reason := runpy.run_path(str(PORTS))["refusal"](range(first, last))):
        sys.exit(f"{reason}; choose others: make run PORT={19092 if first == 9092 else first + 10000}")
