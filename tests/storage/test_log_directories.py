"""Lock, names, meta.properties and placement of logs in log directories.

broker.md 5.1, 2.2, and 9.1 row 20, 9.7 rows 98 and 99.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.storage import log_directories
from actors.storage.disk import DiskAdapter
from tests.broker.harness import CLUSTER_ID, IO_ERROR, FaultyDisk

HEX = "0123456789abcdef" * 2


def directories(*paths: Path, broker_id: int = 0, cluster_id: str = CLUSTER_ID) -> log_directories.LogDirectories:
    return log_directories.LogDirectories(tuple(map(str, paths)), broker_id, cluster_id)


@pytest.mark.parametrize(
    ("name", "parsed"),
    [
        ("a-b-3", ("a-b", 3, "")),
        (f"t-0.{HEX}-delete", ("t", 0, "delete")),
        (f"t.x-0.{HEX}-future", ("t.x", 0, "future")),
        ("t--1", ("t-", 1, "")),
        ("t-2147483647", ("t", 2**31 - 1, "")),
    ],
)
def test_row_99_names_that_are_logs(name: str, parsed: tuple[str, int, str]) -> None:
    assert log_directories.parse_name(name) == parsed


@pytest.mark.parametrize(
    "name", ["", "t", "-0", "t-", "t-x", "lost+found", "t-0-delete", f"t-x.{HEX}-delete", "t-0.a-b", "t-2147483648"]
)
def test_row_99_names_that_are_none(name: str) -> None:
    with pytest.raises(ValueError, match="topic-partition"):
        log_directories.parse_name(name)


@given(st.from_regex(r"[a-zA-Z0-9._-]{1,249}", fullmatch=True), st.integers(0, 2**31 - 1))
def test_a_name_is_read_as_it_was_written_and_stays_a_name_when_deleted(topic: str, partition: int) -> None:
    name = log_directories.log_name(topic, partition)
    assert log_directories.parse_name(name) == (topic, partition, "")
    deleted = log_directories.deleted_name(name, HEX)
    assert len(deleted) <= 255
    cut, number, renamed = log_directories.parse_name(deleted)
    assert (number, renamed) == (partition, "delete")
    assert topic.startswith(cut)


def test_row_98_a_first_start_signs_and_locks_the_directory(tmp_path: Path) -> None:
    disk, data = DiskAdapter(), tmp_path / "a" / "b"
    mine = directories(data)
    assert mine.load(disk) == []
    lines = (data / "meta.properties").read_text().splitlines()
    assert [line for line in lines if not line.startswith("#")] == [
        "version=0",
        "broker.id=0",
        f"cluster.id={CLUSTER_ID}",
    ]
    for _ in range(2):
        with pytest.raises(log_directories.LogDirectoryRefused, match=f"{data} is in use"):
            directories(data).load(DiskAdapter())  # the second refusal shows that the first did not release the lock
    mine.unlock(disk)
    again = directories(data)
    again.load(disk)
    again.unlock(disk)


def test_the_lock_holds_against_another_process(tmp_path: Path) -> None:
    script = (
        "import sys; from actors.storage.disk import DiskAdapter; d = DiskAdapter();"
        "print(d.lock(sys.argv[1]), flush=True); sys.stdin.read()"
    )
    lock = str(tmp_path / ".lock")
    other = subprocess.Popen(
        [sys.executable, "-c", script, lock], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert other.stdout is not None
    assert other.stdout.readline() == "True\n"
    disk = DiskAdapter()
    assert not disk.lock(lock)
    other.communicate("")
    assert disk.lock(lock)
    disk.unlock(lock)


@pytest.mark.parametrize(
    ("meta", "complaint"),
    [
        ("version=0\nbroker.id=7\n", "broker.id=7, but this broker has broker.id=0"),
        (
            "version=0\nbroker.id=0\ncluster.id=other\n",
            f"cluster.id=other, but this broker has cluster.id={CLUSTER_ID}",
        ),
        ("version=1\nnode.id=0\n", "version=1"),
        ("version=0\nbroker.id=\xff\n", "broker.id="),
    ],
)
def test_a_foreign_signature_refuses_and_names_the_file(tmp_path: Path, meta: str, complaint: str) -> None:
    (tmp_path / "meta.properties").write_text(meta)
    disk = DiskAdapter()
    with pytest.raises(log_directories.LogDirectoryRefused) as refused:
        directories(tmp_path).load(disk)
    assert str(tmp_path / "meta.properties") in str(refused.value)
    assert complaint in str(refused.value)
    assert disk.lock(str(tmp_path / ".lock"))
    disk.unlock(str(tmp_path / ".lock"))


def test_apaches_signature_is_accepted_and_left_alone(tmp_path: Path) -> None:
    text = f"#\n#Sat Nov 21 09:00:00 UTC 2026\nbroker.id=0\nversion=0\ncluster.id={CLUSTER_ID}\ndirectory.id=x\n"
    (tmp_path / "meta.properties").write_text(text)
    disk = DiskAdapter()
    mine = directories(tmp_path)
    mine.load(disk)
    mine.unlock(disk)
    assert (tmp_path / "meta.properties").read_text() == text


@pytest.mark.parametrize(
    "text", ["", "version=0\nbroker.id=0\ndirectory.id=x\n", "! by hand\nversion : 0\nbroker.id 0\n"]
)
def test_a_signature_that_is_not_complete_is_completed(tmp_path: Path, text: str) -> None:
    meta = tmp_path / "meta.properties"
    meta.write_text(text)
    disk, mine = DiskAdapter(), directories(tmp_path)
    mine.load(disk)
    mine.unlock(disk)
    signed = log_directories.parse_properties(meta.read_text())
    assert signed.pop("directory.id", "x") == "x", "what others wrote stays"
    assert signed == {"version": "0", "broker.id": "0", "cluster.id": CLUSTER_ID}


@pytest.mark.parametrize("junk", [b"\0" * 86, b"\x80\x00\x7fELF", b"version=0\nbroker.id=\0\n", b"\x1f\x8b\x08\xff=\n"])
def test_a_damaged_signature_refuses_and_stays(tmp_path: Path, junk: bytes) -> None:
    meta = tmp_path / "meta.properties"
    meta.write_bytes(junk)
    with pytest.raises(
        log_directories.LogDirectoryRefused, match=f"{meta} is damaged.* remove that file and start the broker again"
    ):
        directories(tmp_path).load(DiskAdapter())
    assert meta.read_bytes() == junk


def test_a_signature_that_is_completed_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "meta.properties").write_text("# Montag, 21. M\xe4rz\nversion=0\nbroker.id=0\n", encoding="latin-1")
    disk, mine = DiskAdapter(), directories(tmp_path)
    mine.load(disk)
    mine.unlock(disk)
    assert "meta.properties has no cluster.id: adding it" in caplog.text


def test_a_signature_is_not_written_through_a_link(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    data = tmp_path / "data"
    data.mkdir()
    (data / "meta.properties.tmp").symlink_to(victim)
    disk, mine = DiskAdapter(), directories(data)
    mine.load(disk)
    mine.unlock(disk)
    assert victim.read_text() == "precious"
    assert not (data / "meta.properties").is_symlink()
    assert "cluster.id" in (data / "meta.properties").read_text()


def test_a_folder_that_is_not_a_log_is_refused(tmp_path: Path) -> None:
    (tmp_path / "holiday pictures").mkdir()
    with pytest.raises(log_directories.LogDirectoryRefused, match="'holiday pictures' does not have the form"):
        directories(tmp_path).load(DiskAdapter())


def test_a_log_in_two_directories_refuses(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name / "t-0").mkdir(parents=True)
    with pytest.raises(log_directories.LogDirectoryRefused, match="t-0 exists in two log directories"):
        directories(tmp_path / "a", tmp_path / "b").load(DiskAdapter())


def test_a_start_finds_logs_and_leftovers(tmp_path: Path) -> None:
    for name in ("t-0", "u-12", f"v-0.{HEX}-delete", f"w-0.{HEX}-future"):
        (tmp_path / name).mkdir()
    (tmp_path / "replication-offset-checkpoint").write_text("0\n0\n")
    disk = DiskAdapter()
    mine = directories(tmp_path)
    assert mine.load(disk) == [f"{tmp_path}/v-0.{HEX}-delete"]
    assert mine.find(("u", 12)) == f"{tmp_path}/u-12"
    assert mine.find(("v", 0)) is None
    mine.unlock(disk)


def test_a_new_log_is_placed_in_the_directory_with_the_fewest(tmp_path: Path) -> None:
    (tmp_path / "a" / "t-0").mkdir(parents=True)
    disk = DiskAdapter()
    mine = directories(tmp_path / "a", tmp_path / "b")
    mine.load(disk)
    placed = [mine.place(("t", number), True) for number in (1, 2, 3)]
    assert placed == [f"{tmp_path}/b/t-1", f"{tmp_path}/a/t-2", f"{tmp_path}/b/t-3"]
    mine.forget(("t", 1))
    mine.forget(("t", 3))
    assert mine.place(("t", 4), True) == f"{tmp_path}/b/t-4"
    mine.unlock(disk)


def test_with_a_directory_offline_only_new_logs_are_made(tmp_path: Path) -> None:
    disk = FaultyDisk()
    disk.faults[str(tmp_path / "b")] = IO_ERROR
    mine = directories(tmp_path / "a", tmp_path / "b")
    mine.load(disk)
    assert mine.offline == [str(tmp_path / "b")]
    assert mine.place(("t", 0), False) is None
    assert mine.place(("t", 0), True) == f"{tmp_path}/a/t-0"
    assert mine.fail(str(tmp_path / "a")) == [("t", 0)]
    assert mine.place(("t", 1), True) is None
    mine.unlock(disk)


def test_the_port_speaks_only_of_plain_things(tmp_path: Path) -> None:
    disk, path = DiskAdapter(), str(tmp_path / "d")
    assert disk.make_directory(path) is True
    assert disk.make_directory(path) is False
    (tmp_path / "file").write_text("x")
    with pytest.raises(FileExistsError):
        disk.make_directory(str(tmp_path / "file"))
    with pytest.raises(FileNotFoundError):
        disk.make_directory(str(tmp_path / "x" / "y"))
    assert disk.read_text(str(tmp_path / "none")) is None
    disk.write_text(path + "/f", "text\n")
    assert disk.read_text(path + "/f") == "text\n"
    assert disk.list_directories(str(tmp_path)) == ("d",)
    disk.rename(path, path + "2")
    disk.remove_tree(path + "2")
    disk.remove_tree(path + "2")
    assert disk.list_directories(str(tmp_path)) == ()
