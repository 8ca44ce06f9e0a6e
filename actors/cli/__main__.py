"""This module runs the command line for `python -P -m actors.cli`, and for `spark-submit`, which has no option `-m`.

Without -P, Python adds the current folder or the script's folder to the start of sys.path. This entry is removed, so
that a `messages.py` or `click.py` in the folder is not imported. `multiprocessing` imports this module in its
processes; their path needs no change.
"""

import sys

if __name__ == "__main__":
    if not sys.flags.safe_path:
        del sys.path[0]
    from actors.cli import main

    main()
