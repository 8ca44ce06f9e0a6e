"""`python -m actors.cli` is `kafka-actors`.

Python puts the current folder in front of everything else then: unless that is the house itself, it is taken away
again, for a `messages.py` or `click.py` that lies there is none of ours.
"""

import sys
from pathlib import Path

from actors.cli import main

if not sys.flags.safe_path and Path(sys.path[0]).resolve() != Path(__file__).resolve().parents[2]:
    del sys.path[0]
main()
