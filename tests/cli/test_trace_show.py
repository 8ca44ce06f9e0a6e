"""`kafka-actors trace show`: filters compared with the deliveries themselves, output formats, usage errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from actors.cli import trace_show
from actors.cli.trace import command
from actors.trace.following import TraceFollower
from actors.trace.reader import TraceDelivery, open_trace
from messages.cluster import TopicPartition
from messages.trace.files.frames import read_frames
from messages.trace.files.segments import hold
from tests.spark import failover


def run(*arguments: object) -> Result:
    return CliRunner().invoke(command, ["show", *map(str, arguments)])


def shown(folder: Path, *arguments: object) -> set[tuple[str, int]]:
    result = run(folder, "--json", *arguments)
    assert result.exit_code == 0, result.output
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert [row["at"] for row in rows] == sorted(row["at"] for row in rows)
    return {(row["run"], row["seq"]) for row in rows}


def those(folder: Path, test: object) -> set[tuple[str, int]]:
    return {(each.run.name, each.seq) for each in open_trace(folder).deliveries() if test(each)}  # type: ignore[operator]


def test_slower_than_shows_only_deliveries_above_the_limit(tmp_path: Path) -> None:
    """Each delivery waits 0.5 s, and is handled in 0.25 s."""
    failover.record(tmp_path)
    assert len(shown(tmp_path, "--slower-than", 0.7)) == 37 and not shown(tmp_path, "--slower-than", 0.8)


def test_without_filters_every_delivery_is_a_line(lived: Path) -> None:
    result = run(lived)
    lines = result.stdout.splitlines()
    assert len(lines) == len(list(open_trace(lived).deliveries()))
    assert all(line.startswith("node ") and len(line) < 500 for line in lines)
    assert "node 0 22:13:20.000000 1 outside:process -> NodeActor.1: StartNode" in lines[0]
    assert shown(lived) == those(lived, lambda each: True)


@pytest.mark.parametrize(
    ("arguments", "test"),
    [
        (("--node", 1), lambda each: each.node == 1),
        (("--actor", "ControllerActor"), lambda each: "ControllerActor." in each.sender + " " + each.receiver),
        (("--actor", "ZkBridgeActor.2"), lambda each: "ZkBridgeActor.2" in (each.sender, each.receiver)),
        (("--actor", "outside:store"), lambda each: "outside:store" in (each.sender, each.receiver)),
        (("--message", "BrokerChange"), lambda each: each.message == "BrokerChange"),
        (
            ("--from", "2023-11-14T22:13:25", "--to", "1700000010.5"),
            lambda each: 1700000005.0 <= each.at < 1700000010.5,
        ),
        (("--node", 2, "--message", "Ask"), lambda each: each.node == 2 and each.message == "Ask"),
    ],
)
def test_each_filter_selects_its_deliveries(lived: Path, arguments: tuple[object, ...], test: object) -> None:
    assert shown(lived, *arguments) == those(lived, test) != set()


def test_a_partition_is_found_in_fields_paths_and_its_actor(lived: Path) -> None:
    found = shown(lived, "--partition", "pair-0")
    about = [each for each in open_trace(lived).deliveries() if (each.run.name, each.seq) in found]
    types = {each.message for each in about}
    assert {"LeaderAndIsrRequest", "StoreWrite", "ClientRequest", "Transmit"} <= types
    assert any(
        each.receiver.startswith("PartitionActor") and b"pair" not in bytes(each.record.payload) for each in about
    )
    named = [each for each in about if each.message == "LeaderAndIsrRequest"]
    assert all(["pair", 0] in [state["partition"] for state in _states(each)] for each in named)
    assert found <= shown(lived, "--topic", "pair")
    assert shown(lived, "--topic", "absent") == set()


def _states(delivery: TraceDelivery) -> list[dict[str, object]]:
    return delivery.payload.get("partition_states") or delivery.payload.get("states") or []


def test_a_broker_is_found_by_its_channel(lived: Path) -> None:
    found = shown(lived, "--broker", 1, "--node", 2)
    channels = {
        (each.run.name, each.receiver)
        for each in open_trace(lived).deliveries()
        if each.message == "StartChannel" and each.payload["broker_id"] == 1
    }
    sent = those(lived, lambda each: each.node == 2 and (each.run.name, each.receiver) in channels)
    assert sent and sent <= found


def test_causes_and_effects_are_each_other_s_reverse(lived: Path) -> None:
    start = next(each for each in open_trace(lived).deliveries() if each.message == "BrokerChange")
    origin = ("--run", start.run.name)
    led_to = shown(lived, "--effects-of", start.seq, *origin)
    assert len({run for run, _ in led_to}) > 1
    for run_name, seq in sorted(led_to)[:: len(led_to) // 5]:
        assert (start.run.name, start.seq) in shown(lived, "--cause-of", seq, "--run", run_name)
    assert led_to == shown(lived, "--effects-of", start.seq, "--node", start.node)
    everything = shown(lived, "--event", "BrokerChange")
    assert (start.run.name, start.seq) in everything
    of_node = shown(lived, "--event", "BrokerChange", "--node", 0)
    assert of_node == {each for each in everything if each[0].startswith("node0-")} != set()


def test_a_table_has_the_same_deliveries(lived: Path) -> None:
    result = run(lived, "--table", "--message", "BrokerChange", "--limit", 2)
    assert result.exit_code == 0
    assert result.stdout.count("BrokerChange(generation=1)") == 2
    assert "waited ms" in result.stdout


def test_large_messages_are_named_not_printed(lived: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.trace.delivery_text.PAYLOAD_BYTES", 1000)
    lines = run(lived, "--message", "StartNode", "--node", 1).stdout.splitlines()
    assert lines[0].endswith(" bytes>") and "StartNode <" in lines[0]
    row = json.loads(run(lived, "--message", "StartNode", "--node", 1, "--json").stdout)
    assert row["payload"] is None and row["payload_bytes"] > 3000


def test_following_reads_each_delivery_once(lived: Path, tmp_path: Path) -> None:
    """The trace grows in steps while a process locks its manifest."""
    (manifest,) = (lived / "node-2").rglob("*.manifest.zst")
    (segment,) = (lived / "node-2").rglob("*.trace.zst")
    content = segment.read_bytes()
    (tmp_path / manifest.name).write_bytes(manifest.read_bytes())
    growing = tmp_path / segment.name
    first = next(iter(read_frames(segment.open("rb"), segment))).end
    growing.write_bytes(content[:first])
    follower = TraceFollower(tmp_path)
    read = []
    with (tmp_path / manifest.name).open("rb+") as held:
        hold(held)
        for size in range(first, len(content), len(content) // 9):
            growing.write_bytes(content[:size])
            read += [(each.run.name, each.seq) for each in follower.poll()]
            assert follower.running
    growing.write_bytes(content)
    read += [(each.run.name, each.seq) for each in follower.poll()]
    assert not follower.running
    assert len(read) == len(set(read))
    assert set(read) == those(lived, lambda each: each.node == 2)


def test_follow_ends_with_the_last_recording(lived: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_show, "POLL_S", 0)
    result = run(lived, "--follow", "--message", "BrokerChange", "--json")
    assert result.exit_code == 0
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert {(row["run"], row["seq"]) for row in rows} == shown(lived, "--message", "BrokerChange")
    assert len(run(lived, "--follow", "--limit", 7).stdout.splitlines()) == 7


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--cause-of", 3), 1, "holds 5 runs. Select one by its id (--run) or its node"),
        (("--node", 9), 1, "no recorded run of node 9"),
        (("--node", 1, "--cause-of", 99999), 1, "has no delivery 99999"),
        (("--node", 1, "--effects-of", 99999), 1, "has no delivery 99999"),
        (("--event", "Storm"), 1, "Storm is not a controller event. The events are AutoPreferred"),
        (("--partition", "pair"), 2, "'pair' is not a partition such as orders-0"),
        (("--from", "noon"), 2, "'noon' is not a time such as"),
        (("--table", "--json"), 2, "--table cannot be combined"),
        (("--follow", "--event", "BrokerChange"), 2, "--follow cannot be combined"),
    ],
)
def test_wrong_use_is_named(lived: Path, arguments: tuple[object, ...], code: int, words: str) -> None:
    result = run(lived, *arguments)
    assert (result.exit_code, words in result.output) == (code, True), result.output
    assert "Traceback" not in result.output


def test_a_folder_without_traces_is_named(tmp_path: Path) -> None:
    result = run(tmp_path)
    assert (result.exit_code, result.stderr) == (1, f"Error: {tmp_path} contains no recorded run\n")


def test_payloads_are_searched_for_names_in_every_form() -> None:
    from actors.trace.filters import names_broker, names_partition, names_topic

    partition = TopicPartition("t", 3)
    assert names_partition([["t", 3, "x"]], partition)
    assert names_partition({"name": "t", "partitions": [{"partition": 3}]}, partition)
    assert names_partition({"path": "/brokers/topics/t/partitions/3/state"}, partition)
    assert not names_partition({"path": "/brokers/topics/t/partitions/33/state"}, partition)
    assert not names_partition({"name": "t", "partitions": [{"partition": 4, "leader": 3}]}, partition)
    assert names_topic({"path": "/config/topics/t"}, "t") and not names_topic({"path": "/config/topics/tt"}, "t")
    assert names_topic({"topics": ["a", "t"]}, "t") and not names_topic({"client_id": "t"}, "t")
    assert names_broker({"isr": [1, 2]}, 2) and not names_broker({"epoch": 2}, 2)
    assert names_broker({"live_brokers": [{"id": 2}]}, 2) and names_broker(["/brokers/ids/2"], 2)
