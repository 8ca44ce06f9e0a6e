"""Python's collector of cyclic garbage, so that no turn of the loop waits for it (actors.md 3 row 7).

Rule 1: reference counting frees nearly everything here at once. The collector is for the cycles that remain, errors
        with their tracebacks mostly, which are young when they become garbage.
Rule 2: a collection looks at some thousand objects: it waits for YOUNG of them, and what survived one is looked at once
        more, by the next (OFTEN). So few, because one tuple of a hundred thousand partitions among them takes ten
        milliseconds, and no two such should come together.
Rule 3: what survives that as well is not looked at again (`gc.freeze`). Looking through a hundred thousand partitions
        takes half a second, and finds nothing. A cycle that becomes garbage when it is that old stays in memory.
"""

from __future__ import annotations

import gc

YOUNG = 2_000
OFTEN = 0
NEVER = 1_000_000_000


def tame() -> None:
    """Let the collector of this process work by the module's rules, once."""
    gc.set_threshold(YOUNG, OFTEN, NEVER)
    if _keep_survivors not in gc.callbacks:
        gc.callbacks.append(_keep_survivors)


def release() -> None:
    """Let it look at everything again, as in any other process."""
    if _keep_survivors in gc.callbacks:
        gc.callbacks.remove(_keep_survivors)
    gc.unfreeze()


def _keep_survivors(phase: str, info: dict[str, int]) -> None:
    """Rule 3, after each collection of the second generation or of all."""
    if phase == "stop" and info["generation"] > 0:
        gc.freeze()
