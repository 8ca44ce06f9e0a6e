"""Test the group coordinator and its groups as actors, on virtual time and real logs: requests, loading, unloading."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.coordinator.group import GroupActor
from actors.coordinator.group_coordinator import GroupCoordinatorActor
from actors.core.topic.topic_name import GROUP_METADATA
from actors.runtime import restore, state_of
from messages import errors
from messages.apis.delete_groups import DeleteGroupsRequest
from messages.apis.describe_groups import DescribeGroupsRequest
from messages.apis.find_coordinator import FindCoordinatorRequest
from messages.apis.list_groups import ListGroupsRequest
from messages.apis.offset_commit import CommittedPartition, OffsetCommitRequest
from messages.apis.offset_delete import OffsetDeletePartition, OffsetDeleteRequest
from messages.apis.offset_fetch import OffsetFetchGroup, OffsetFetchRequest, OffsetFetchTopic
from messages.broker import InternalTopicLeadership, LedPartition
from messages.cluster import LEADER_DURING_DELETE, ConfigEntry, TopicPartition
from messages.log_cleaner import CLEANED
from messages.probes import collecting
from messages.state import ActorState
from messages.trace.codec import MessageDecoder, encode
from messages.wire.record_batch import whole_batches
from tests.broker.harness import known, order
from tests.coordinator.world import T0, World


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    world.run()
    yield world
    assert world.base.failures == 0
    world.base.shutdown()


def other_group(world: World, than: str = "g") -> str:
    """Return a group that belongs to another partition."""
    return next(name for name in "abcdefgh" if world.partition_of(name) != world.partition_of(than))


# ---------------------------------------------------------------------------------------- finding the coordinator


def test_the_first_request_creates_the_topic(world: World) -> None:
    world.topic_exists = False
    assert world.find("g").error_code == errors.COORDINATOR_NOT_AVAILABLE
    assert world.made() == [(GROUP_METADATA,)]
    world.topic_exists = True
    assert world.find("g").error_code == errors.COORDINATOR_NOT_AVAILABLE, "its partition has no leader yet"
    world.coordinate(world.partition_of("g"))
    found = world.find("g")
    assert (found.error_code, found.node_id, found.host, found.port) == (errors.NONE, 0, "127.0.0.1", 9092)
    assert len(world.made()) == 1


def test_without_zookeeper_no_coordinator_is_known(world: World) -> None:
    world.topic_exists = None
    assert world.find("g").error_code == errors.COORDINATOR_NOT_AVAILABLE
    assert world.made() == []


def test_the_leader_of_the_groups_partition_coordinates(world: World) -> None:
    world.coordinate(world.partition_of("g"))
    group = other_group(world)
    world.coordinate(world.partition_of(group), leader=1)
    assert world.find(group).node_id == 1
    assert world.commit(group) == errors.NOT_COORDINATOR


def test_an_unknown_type_of_key(world: World) -> None:
    response = world.find("g", key_type=7)
    assert response.error_code == errors.INVALID_REQUEST
    assert response.error_message


def test_several_keys_are_answered_in_order(world: World) -> None:
    world.coordinate(world.partition_of("g"))
    group = other_group(world)
    world.coordinate(world.partition_of(group), leader=1)
    wanted = FindCoordinatorRequest(4, coordinator_keys=(group, "g", group))
    found = world.ask(wanted).coordinators
    assert [(each.key, each.error_code, each.node_id) for each in found] == [(group, 0, 1), ("g", 0, 0), (group, 0, 1)]
    for version, kind, code in ((5, 2, errors.INVALID_REQUEST), (6, 2, errors.COORDINATOR_NOT_AVAILABLE)):
        (one,) = world.ask(FindCoordinatorRequest(version, key_type=kind, coordinator_keys=("s:A:0",))).coordinators
        assert (one.error_code, one.error_message, one.node_id, one.host, one.port) == (code, "", -1, "", -1)
    assert world.ask(FindCoordinatorRequest(4)).coordinators == ()


def test_the_offsets_of_several_groups(world: World) -> None:
    world.coordinate(world.partition_of("g"))
    away = other_group(world)
    world.commit("g", 7)
    named = (OffsetFetchTopic("t", (1, 0, 1)),)
    wanted = (OffsetFetchGroup("g", named), OffsetFetchGroup(away, None), OffsetFetchGroup("g", None))
    groups = world.ask(OffsetFetchRequest(8, groups=wanted)).groups
    assert [(each.group_id, each.error_code) for each in groups] == [("g", 0), (away, errors.NOT_COORDINATOR), ("g", 0)]
    offsets = [[(each.partition, each.committed_offset) for each in group.partitions] for group in groups]
    assert offsets == [[(TopicPartition("t", 1), -1), (T0, 7)], [], [(T0, 7)]]
    nameless = world.ask(OffsetFetchRequest(9, groups=(OffsetFetchGroup("g-unknown", None),))).groups
    assert [each.partitions for each in nameless] == [()]


# ------------------------------------------------------------------------------------------------ members and commits


def test_a_member_joins_commits_and_expires(world: World) -> None:
    world.coordinate(*range(4))
    member = world.member()
    assert member == "test-00000000-0000-0000-0000-000000000001"
    assert world.heartbeat(member) == errors.NONE
    assert world.commit(offset=5, member=member, generation=1) == errors.NONE
    assert world.fetch() == {T0: 5}
    world.pass_time(9.9)
    assert world.heartbeat(member) == errors.NONE
    world.pass_time(10.0)
    assert world.heartbeat(member) == errors.UNKNOWN_MEMBER_ID
    assert world.fetch() == {T0: 5}


def test_the_log_is_appended_with_acks_of_all(world: World) -> None:
    """With two in-sync replicas, a commit waits until the other replica has fetched it."""
    number = world.partition_of("g")
    world.coordinate(number)
    world.lead(order(GROUP_METADATA, number, epoch=9, isr=(0, 1), replicas=(0, 1)))
    id = world.post(OffsetCommitRequest(8, "g", -1, "", (CommittedPartition(T0, 3),)))
    assert world.answer(id) is None
    world.pass_time(world.settings.offsets_commit_timeout_ms / 1000)
    assert world.answer(id).partitions[0].error_code == 7
    assert world.fetch() == {}


# ------------------------------------------------------------------------------------------------ loading, unloading


def test_the_next_leader_loads_groups(world: World) -> None:
    world.coordinate(*range(4))
    member = world.member()
    world.commit(offset=5, member=member, generation=1)
    world.commit("alone", offset=6)
    world.coordinate(*range(4), leader=1)
    assert world.fetch() == errors.NOT_COORDINATOR
    assert world.heartbeat(member) == errors.NOT_COORDINATOR
    world.coordinate(*range(4))
    assert world.fetch() == {T0: 5}
    assert world.fetch("alone") == {T0: 6}
    assert world.heartbeat(member) == errors.NONE
    world.pass_time(10.0)
    assert world.heartbeat(member) == errors.UNKNOWN_MEMBER_ID, "its session began with the load"


@pytest.mark.parametrize("at", [16, 17, 80, 23])
def test_a_damaged_batch_costs_its_own_records_and_is_reported(
    world: World, caplog: pytest.LogCaptureFixture, at: int
) -> None:
    """A bit of the format, the checksum, a value, or the last offset of the last of three commits is flipped."""
    world.coordinate(*range(4))
    for offset in range(5, 8):
        assert world.commit(offset=offset) == errors.NONE
    world.coordinate(*range(4), leader=1)
    partition = f"{GROUP_METADATA}-{world.partition_of('g')}"
    [file] = Path(world.settings.log_dirs[0]).glob(f"{partition}/*.log")
    data = bytearray(file.read_bytes())
    data[[position for position, _ in whole_batches(bytes(data))][2] + at] ^= 1
    file.write_bytes(data)
    world.coordinate(*range(4))
    assert world.fetch() == {T0: 6}, "the last readable commit"
    lines = [each.getMessage() for each in caplog.records if each.name == "kafka.coordinator"]
    assert [f"{partition} at offset 2" in line for line in lines] == [True]
    assert world.logs.unreadable_batches == 1
    assert world.commit(offset=9) == errors.NONE
    assert world.fetch() == {T0: 9}


def test_waiting_members_get_not_coordinator(world: World) -> None:
    world.coordinate(*range(4))
    member = world.member()
    joining = world.join()
    assert world.heartbeat(member) == errors.REBALANCE_IN_PROGRESS
    assert world.answer(joining) is None
    world.coordinate(*range(4), leader=1)
    assert world.answer(joining).error_code == errors.NOT_COORDINATOR


def test_more_than_one_read_makes_a_load(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.coordinator.group_loader.READ_BYTES", 300)
    monkeypatch.setattr("actors.coordinator.group_loader.GROUPS_AT_ONCE", 2)
    world.coordinate(*range(4))
    groups = [f"group-{number}" for number in range(12)]
    for number, group in enumerate(groups):
        assert world.commit(group, number) == errors.NONE
    world.coordinate(*range(4), leader=1)
    world.coordinate(*range(4))
    assert [world.fetch(group) for group in groups] == [{T0: number} for number in range(12)]


def test_groups_are_loaded_from_a_cleaned_log(world: World) -> None:
    """A commit replaces the group's earlier one, and the tombstones of a deleted group go after their time."""
    settings = {"cleanup.policy": "compact", "segment.bytes": "1000", "delete.retention.ms": "0"}
    world.configs[GROUP_METADATA] = tuple(ConfigEntry(*entry) for entry in settings.items())
    world.coordinate(*range(4))
    path = f"{world.settings.log_dirs[0]}/{GROUP_METADATA}-{world.partition_of('g')}"
    other = next(f"h{number}" for number in range(99) if world.partition_of(f"h{number}") == world.partition_of("g"))
    assert world.commit(other) == errors.NONE
    world.ask(DeleteGroupsRequest(2, (other,)))
    member = world.member()
    for offset in range(60):
        assert world.commit(offset=offset, member=member, generation=1) == errors.NONE
    size = world.logs.sizes((path,))
    for _ in range(2):
        for offset in range(60, 70):
            assert world.commit(offset=offset, member=member, generation=1) == errors.NONE
        assert world.logs.clean(path, True, 100, 900_000, 1000, 1000)[0] == CLEANED
    assert world.logs.sizes((path,)) < size
    assert not any(other.encode() in file.read_bytes() for file in Path(path).glob("*.log"))
    world.coordinate(*range(4), leader=1)
    world.coordinate(*range(4))
    assert world.fetch() == {T0: 69}
    assert world.heartbeat(member) == errors.NONE
    assert other not in [group.group_id for group in world.ask(ListGroupsRequest(4)).groups]


def test_a_load_ends_when_another_broker_becomes_leader(world: World) -> None:
    world.coordinate(*range(4))
    world.commit()
    coordinator = world.base.actors(GroupCoordinatorActor)[0]
    number = world.partition_of("g")
    led = LedPartition(TopicPartition(GROUP_METADATA, number), 2, coordinator._logs[number])
    reached = Counter[str]()
    with collecting(lambda name: reached.update((name,))):
        for change in (InternalTopicLeadership((led,), ()), InternalTopicLeadership((), (led.partition,))):
            world.base.inject(coordinator.myAddress, change, coordinator.myAddress)
        world.run()
    assert reached["a coordinator gives up a partition that it loads"] == 1
    assert world.fetch() == errors.NOT_COORDINATOR
    assert not coordinator.is_loading and not world.base.actors(GroupActor)


def test_a_deleted_group_is_not_loaded_again(world: World) -> None:
    world.coordinate(*range(4))
    world.commit()
    member = world.member("h")
    response = world.ask(DeleteGroupsRequest(2, ("g", "h", "missing")))
    assert [(each.group_id, each.error_code) for each in response.results] == [
        ("g", errors.NONE),
        ("h", errors.NON_EMPTY_GROUP),
        ("missing", errors.GROUP_ID_NOT_FOUND),
    ]
    world.coordinate(*range(4), leader=1)
    world.coordinate(*range(4))
    assert world.fetch() == {}
    assert [group.group_id for group in world.ask(ListGroupsRequest(4)).groups] == ["h"]
    assert world.heartbeat(member, "h") == errors.NONE


# ------------------------------------------------------------------------------------------------ admin


def test_groups_are_listed_and_described(world: World) -> None:
    world.coordinate(*range(4))
    member = world.member()
    world.commit("alone")
    listed = world.ask(ListGroupsRequest(4)).groups
    assert {(each.group_id, each.protocol_type, each.group_state) for each in listed} == {
        ("g", "consumer", "Stable"),
        ("alone", "", "Empty"),
    }
    assert [each.group_id for each in world.ask(ListGroupsRequest(4, ("stable",))).groups] == ["g"]
    for types, count in (((), 2), (("CLASSIC",), 2), (("consumer",), 0)):
        assert len(world.ask(ListGroupsRequest(5, types_filter=types)).groups) == count
    described = world.ask(DescribeGroupsRequest(5, ("g", "missing", "alone"), True)).groups
    assert [(each.group_id, each.group_state) for each in described] == [
        ("g", "Stable"),
        ("missing", "Dead"),
        ("alone", "Empty"),
    ]
    [reported] = described[0].members
    assert (reported.member_id, reported.client_id, reported.client_host) == (member, "test", "/127.0.0.1")
    assert (reported.member_assignment, described[0].protocol_data) == (b"all", "range")
    assert described[0].authorized_operations == 328
    assert world.ask(DescribeGroupsRequest(5, ())).groups == ()


def test_offset_delete_removes_the_committed_offsets(world: World) -> None:
    world.coordinate(*range(4))
    world.commit()
    nowhere = T0._replace(topic="nowhere")
    response = world.ask(OffsetDeleteRequest(0, "g", (OffsetDeletePartition(T0), OffsetDeletePartition(nowhere))))
    assert [each.error_code for each in response.partitions] == [errors.NONE, errors.UNKNOWN_TOPIC_OR_PARTITION]
    assert world.fetch() == {}
    assert world.ask(OffsetDeleteRequest(0, "missing", ())).error_code == errors.GROUP_ID_NOT_FOUND


def test_offsets_of_a_deleted_topic_are_forgotten(world: World) -> None:
    world.coordinate(*range(4))
    world.commit()
    world.update(known("t", leader=LEADER_DURING_DELETE))
    assert world.fetch() == {}


def test_tombstones_are_appended_with_too_few_replicas_in_sync(tmp_path: Path) -> None:
    """Kafka appends tombstones with acks=0, so a deleted offset does not reappear at the next coordinator."""
    world = World(tmp_path, min_insync_replicas=2)
    world.coordinate(*range(4))
    number = world.partition_of("g")
    world.lead(order(GROUP_METADATA, number, epoch=2, isr=(0,), replicas=(0,)))
    assert world.commit() == errors.NONE, "one replica of one is enough"
    world.epoch = 3
    world.coordinate(*range(4))
    assert world.commit(offset=8) == errors.COORDINATOR_NOT_AVAILABLE, "one of two is not"
    assert world.fetch() == {T0: 7}
    assert world.ask(OffsetDeleteRequest(0, "g", (OffsetDeletePartition(T0),))).error_code == errors.NONE
    world.coordinate(*range(4), leader=1)
    world.coordinate(*range(4))
    assert world.fetch() == {}
    world.base.shutdown()


def test_the_states_of_coordinator_and_group_travel(world: World) -> None:
    world.coordinate(*range(4))
    world.member()
    world.join()
    world.commit("alone")
    actors = [ref.actor for ref in world.base.register if isinstance(ref.actor, GroupCoordinatorActor | GroupActor)]
    assert len(actors) == 3
    for actor in actors:
        state = state_of(actor)
        back: ActorState = MessageDecoder(world.base.address_of).decode(*encode(state))
        fresh = type(actor)()
        fresh._myRef = actor._myRef
        restore(fresh, back)
        assert state_of(fresh) == state
