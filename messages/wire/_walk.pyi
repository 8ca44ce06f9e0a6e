from collections.abc import Callable
from typing import Any

def walk(
    data: bytes | memoryview, position: int, done: int, count: int, in_order: bool, /
) -> tuple[int, int, list[int]]: ...
def put(
    table: memoryview,
    slots: int,
    free: int,
    md5: Callable[[bytes], Any],
    data: bytes,
    position: int,
    count: int,
    base: int,
    first: int,
    /,
) -> tuple[int, int, int, int]: ...
def kept(
    table: memoryview,
    slots: int,
    md5: Callable[[bytes], Any],
    data: bytes,
    position: int,
    count: int,
    base: int,
    limit: int,
    is_due: bool,
    /,
) -> tuple[int, int, list[tuple[int, int]], bool]: ...
