from collections.abc import Callable

def check(
    data: bytes | memoryview, position: int, done: int, count: int, in_order: bool, /
) -> tuple[int, int, list[int], int]: ...
def put_keys(
    table: memoryview,
    slots: int,
    free: int,
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
    data: bytes,
    position: int,
    count: int,
    base: int,
    limit: int,
    is_due: bool,
    /,
) -> tuple[int, int, int, list[tuple[int, int]], int, bool]: ...
def put_batches(
    table: memoryview,
    slots: int,
    free: int,
    crc32c: Callable[[memoryview], int],
    data: bytes,
    position: int,
    most: int,
    first: int,
    /,
) -> tuple[int, int, int, int, int]: ...
def kept_batches(
    table: memoryview,
    slots: int,
    crc32c: Callable[[memoryview], int],
    data: bytes,
    position: int,
    most: int,
    limit: int,
    /,
) -> tuple[int, int, int, list[int]]: ...
def move(old: memoryview, table: memoryview, slots: int, /) -> None: ...
def pack_rows(
    entries: tuple[object, ...], kind: type, partition: object, columns: tuple[tuple[str, object], ...], /
) -> list[tuple[str, list[object], bytes]] | None: ...
