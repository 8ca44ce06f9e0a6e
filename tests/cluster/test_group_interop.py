"""Our broker and Apache's give the same responses to group requests, and Kafka's tools print the same for both."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from messages.apis.create_topics import CreatableTopic, CreateTopicsRequest
from messages.apis.delete_groups import DeleteGroupsRequest
from messages.apis.describe_groups import DescribeGroupsRequest
from messages.apis.find_coordinator import FindCoordinatorRequest
from messages.apis.heartbeat import HeartbeatRequest
from messages.apis.join_group import JoinGroupRequest, JoinProtocol
from messages.apis.leave_group import LeaveGroupRequest, LeavingMember
from messages.apis.list_groups import ListGroupsRequest
from messages.apis.offset_commit import CommittedPartition, OffsetCommitRequest
from messages.apis.offset_delete import OffsetDeletePartition, OffsetDeleteRequest
from messages.apis.offset_fetch import OffsetFetchRequest, OffsetFetchTopic
from messages.apis.sync_group import MemberAssignment, SyncGroupRequest
from messages.cluster import TopicPartition
from tests.cluster.both import SERVER, Both, both_running
from tests.waiting import until
from tests.wire_client import WireClient

pytestmark = pytest.mark.apache

SETTINGS = {
    "offsets__topic__num__partitions": 3,
    "offsets__topic__replication__factor": 1,
    "group__initial__rebalance__delay__ms": 0,
}

T0, T1 = TopicPartition("grouped", 0), TopicPartition("grouped", 1)
NOWHERE = TopicPartition("nowhere", 0)
RANGE = (JoinProtocol("range", b"\0\1\0\0\0\1\0\7grouped\xff\xff\xff\xff"),)
OTHER = (JoinProtocol("other", b""),)


class Talk:
    """Sends requests to one broker and records the responses, with member ids numbered by their first occurrence."""

    def __init__(self, client: WireClient) -> None:
        self.said: list[Any] = []
        self._client = client
        self._names: dict[str, str] = {}

    def call(self, request: Any) -> Any:
        response = self._client.call(request)
        self.said.append((type(request).__name__, request.version, self._named(response)))
        return response

    def _named(self, response: Any) -> str:
        def name(found: re.Match[str]) -> str:
            return self._names.setdefault(found[0], f"member-{len(self._names)}")

        # ports differ between the brokers, and the order of a hash map is undefined
        reported = response
        if hasattr(reported, "port"):
            reported = attrs.evolve(reported, port=0, host="")
        for field in ("partitions", "groups", "members", "results"):
            if hasattr(reported, field):
                reported = attrs.evolve(reported, **{field: tuple(sorted(getattr(reported, field), key=repr))})
        return re.sub(r"[\w.]+-[0-9a-f]{8}-[0-9a-f-]{27}", name, repr(reported))

    def join(self, group: str, member: str = "", version: int = 7, **fields: Any) -> Any:
        defaults: dict[str, Any] = {
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 10_000,
            "protocol_type": "consumer",
            "protocols": RANGE,
        }
        return self.call(JoinGroupRequest(version, group, member_id=member, **{**defaults, **fields}))


def a_groups_life(talk: Talk) -> None:
    """Let one member join, commit and leave, describe the group, and delete it."""
    group = "lone"
    for version in range(4):
        talk.call(FindCoordinatorRequest(version, group))
    given = talk.join(group)
    joined = talk.join(group, given.member_id)
    me = joined.member_id
    talk.call(HeartbeatRequest(4, group, 1, me))
    talk.call(OffsetCommitRequest(8, group, 1, me, (CommittedPartition(T0, 1),)))
    talk.join(group, me)
    part = (MemberAssignment(me, b"mine"),)
    for version, generation, name in ((5, 9, "range"), (5, 2, "other"), (0, 1, None), (5, 1, "range"), (3, 1, None)):
        talk.call(SyncGroupRequest(version, group, generation, me, part, None, "consumer", name))
    talk.call(SyncGroupRequest(5, group, 1, "missing"))
    talk.call(SyncGroupRequest(5, group, 1, "missing", (), None, "consumer", "range"))
    talk.join(group, me, protocols=OTHER)
    talk.join(group, "missing")
    for generation, member in ((1, me), (9, me), (1, "missing"), (-1, "")):
        talk.call(HeartbeatRequest(4, group, generation, member))
        note = CommittedPartition(T1, 7, 0, "n" * 5000)
        parts = (CommittedPartition(T0, 5, 0, "note"), note, CommittedPartition(NOWHERE, 1))
        for version in (2, 5, 8):
            talk.call(OffsetCommitRequest(version, group, generation, member, parts))
    for version in (0, 3, 5):
        talk.call(DescribeGroupsRequest(version, (group, "missing", ""), include_authorized_operations=False))
    talk.call(OffsetDeleteRequest(0, group, (OffsetDeletePartition(T0), OffsetDeletePartition(NOWHERE))))
    talk.call(DeleteGroupsRequest(2, (group, "missing", "")))
    talk.call(LeaveGroupRequest(4, group, (LeavingMember("missing"), LeavingMember(me), LeavingMember("", "i"))))
    talk.call(HeartbeatRequest(4, group, 1, me))
    asked = (OffsetFetchTopic("grouped", (0, 1)), OffsetFetchTopic("nowhere", (0,)))
    for version in (1, 2, 5, 7):
        talk.call(OffsetFetchRequest(version, group, asked))
    talk.call(OffsetFetchRequest(7, group, None))
    talk.call(DescribeGroupsRequest(5, (group,)))
    talk.call(OffsetCommitRequest(8, group, -1, "", (CommittedPartition(T0, 9),)))
    talk.call(OffsetDeleteRequest(0, group, (OffsetDeletePartition(T0), OffsetDeletePartition(T1))))
    talk.call(DeleteGroupsRequest(2, (group,)))
    talk.call(DescribeGroupsRequest(5, (group,)))


def static_members(talk: Talk) -> None:
    """Let a static member join again, be fenced, and be removed by its instance id."""
    group = "static"
    first = talk.join(group, group_instance_id="i", version=5).member_id
    talk.call(SyncGroupRequest(5, group, 1, first, (MemberAssignment(first, b"mine"),), "i", "consumer", "range"))
    talk.join(group, group_instance_id="i")
    talk.call(HeartbeatRequest(4, group, 1, first, "i"))
    talk.call(OffsetCommitRequest(8, group, 1, first, (CommittedPartition(T0, 1),), "i"))
    talk.join(group, first, group_instance_id="i")
    talk.join(group, first, group_instance_id="unknown")
    talk.call(DescribeGroupsRequest(5, (group,)))
    talk.call(LeaveGroupRequest(4, group, (LeavingMember(first, "i"), LeavingMember("", "i"))))
    talk.call(DescribeGroupsRequest(5, (group,)))
    talk.call(DeleteGroupsRequest(2, (group,)))


def what_is_refused(talk: Talk) -> None:
    """Send requests that the broker refuses, or that find no group."""
    for version in (0, 4, 7):
        talk.join("", version=version)
        talk.join("x", version=version, session_timeout_ms=1)
        talk.join("x", "stranger", version=version)
        talk.join("y", version=version, protocols=())
        talk.join("y", version=version, protocol_type="")
    for name in (None, "range"):
        talk.call(SyncGroupRequest(5, "x", 1, "stranger", (), None, name, name))
        talk.call(SyncGroupRequest(5, "", 1, "stranger", (), None, name, name))
    talk.call(HeartbeatRequest(4, "x", 1, "stranger"))
    for version in (0, 2, 4):
        talk.call(LeaveGroupRequest(version, "x", (LeavingMember("stranger"),)))
        talk.call(LeaveGroupRequest(version, "", (LeavingMember("stranger"),)))
    talk.call(OffsetCommitRequest(8, "x", 3, "stranger", (CommittedPartition(T0, 1),)))
    talk.call(OffsetFetchRequest(7, "x", None))
    talk.call(OffsetFetchRequest(1, "x", (OffsetFetchTopic("grouped", (0,)),)))
    talk.call(OffsetDeleteRequest(0, "x", (OffsetDeletePartition(T0),)))
    talk.call(DeleteGroupsRequest(0, ()))
    talk.call(DescribeGroupsRequest(3, ("x",), True))
    talk.call(ListGroupsRequest(4, ("Dead",)))


@pytest.fixture(scope="module")
def coordinated(tmp_path_factory: pytest.TempPathFactory, apache_jars: Path) -> Iterator[Both]:
    """Run both brokers with the topics and loaded coordinators."""
    with both_running(tmp_path_factory.mktemp("groups"), apache_jars, **SETTINGS) as both:
        prepare(both)
        yield both


def prepare(both: Both) -> None:
    both.answers(
        CreateTopicsRequest(5, (CreatableTopic("grouped", 2, 1), CreatableTopic("tooled", 1, 1)), 20_000, False)
    )
    for port in both.ports:
        with WireClient("127.0.0.1", port) as client:
            until(lambda client=client: client.call(FindCoordinatorRequest(2, "x")).error_code == 0, what="coordinated")
            until(
                lambda client=client: client.call(OffsetFetchRequest(7, "x", None)).error_code == 0, what="it is loaded"
            )


@pytest.mark.parametrize("conversation", [a_groups_life, static_members, what_is_refused])
def test_the_responses_are_the_same(coordinated: Both, conversation: Any) -> None:
    said = []
    for port in coordinated.ports:
        with WireClient("127.0.0.1", port) as client:
            talk = Talk(client)
            conversation(talk)
            said.append(talk.said)
    theirs, ours = said
    different = [(place, *pair) for place, pair in enumerate(zip(theirs, ours, strict=True)) if pair[0] != pair[1]]
    assert not different


TOOLS = "org.apache.kafka.tools."


def test_kafkas_own_tools_print_the_same(coordinated: Both, tmp_path: Path) -> None:
    """Kafka's tools produce, consume in a group, list offsets, delete records and describe log directories.

    Times, sizes and addresses may differ.
    """
    deletion = tmp_path / "delete.json"
    deletion.write_text('{"version":1,"partitions":[{"topic":"tooled","partition":0,"offset":3}]}')
    verified = ("--topic", "tooled", "--max-messages", "20")
    for tool, arguments in (
        ("VerifiableProducer", (*verified, "--value-prefix", "7")),
        ("GetOffsetShell", ("--topic", "tooled")),
        ("VerifiableConsumer", (*verified, "--group-id", "tools", "--reset-policy", "earliest")),
        ("consumer.group.ConsumerGroupCommand", ("--timeout", "60000", "--describe", "--group", "tools")),
        ("DeleteRecordsCommand", ("--offset-json-file", str(deletion))),
        ("GetOffsetShell", ("--topic", "tooled", "--time", "earliest")),
        ("LogDirsCommand", ("--describe", "--topic-list", "grouped,nowhere")),
        ("LogDirsCommand", ("--describe", "--broker-list", "0,7")),
    ):
        (their_code, theirs), (our_code, ours) = coordinated.say(TOOLS + tool, *arguments)
        assert (our_code, _steady(ours)) == (their_code, _steady(theirs)), (tool, arguments)


def _steady(said: str) -> list[str]:
    """Return the sorted lines without times, throughputs, sizes, directories and addresses, which may differ."""
    said = re.sub(r'"(timestamp|avg_throughput|target_throughput|size)":[\d.]+', "", said)
    said = re.sub(r'"logDir":"[^"]*"', "", said)
    return sorted(re.sub(r"127.0.0.1:\d+", "", said).splitlines())


def test_kafkas_tools_of_performance_count_the_same(coordinated: Both) -> None:
    written = ("--topic", "grouped", "--num-records", "2000", "--record-size", "100", "--throughput", "-1")
    said = coordinated.say(TOOLS + "ProducerPerformance", *written, "--producer-props", f"bootstrap.servers={SERVER}")
    theirs, ours = (
        (code, re.sub(r"\d+\.?\d* (?!records sent)", "N ", words).splitlines()[-1:]) for code, words in said
    )
    assert ours == theirs
    assert ours[1][0].startswith("2000 records sent, N ")
    read = ("--topic", "grouped", "--messages", "2000", "--timeout", "60000", "--group", "performance")
    said = coordinated.say(TOOLS + "ConsumerPerformance", *read)
    tables = [(code, [line.split(", ") for line in words.splitlines()]) for code, words in said]
    for code, (head, row) in tables:
        assert code == 0
        assert [row[head.index(name)] for name in ("data.consumed.in.MB", "data.consumed.in.nMsg")] == [
            "0.1907",
            "2000",
        ]
    assert tables[0][1][0] == tables[1][1][0]
