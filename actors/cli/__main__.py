"""`python -P ROOT/actors/cli/__main__.py` is `kafka-actors`, from any location. So is `python -m actors.cli`.

The packages go in front of everything else, and what Python put there by itself, the current folder or a script's, is
taken away: a `messages.py` or `click.py` that lies there is none of ours.
"""

import sys
from pathlib import Path

if not sys.flags.safe_path:
    del sys.path[0]
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from actors.cli import main

if __name__ == "__main__":  # not where this is what a process of `multiprocessing` begins with
    main()
