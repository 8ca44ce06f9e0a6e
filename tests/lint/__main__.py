"""Apply every rule, and print all offenders: `python -m tests.lint`."""

from __future__ import annotations

import importlib
import sys
import time

from tests.lint.rules import RULES, title

KINDS = ("code", "pages")


def main() -> None:
    """Print the offenders of each rule; exit with 1 if there are any."""
    for kind in KINDS:
        importlib.import_module(f"tests.lint.{kind}")
    begin, broken = time.monotonic(), 0
    for rule in RULES:
        if found := list(rule.offenders()):
            broken += 1
            print(f"{title(rule.check)} ({rule.check.__doc__}):", *found, sep="\n    ")
    print(f"{len(RULES)} rules, {broken} broken, {time.monotonic() - begin:.0f} s")
    sys.exit(bool(broken))


if __name__ == "__main__":
    main()
