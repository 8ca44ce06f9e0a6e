"""Test the watch table: the declarations of the events, and the event of each watch (controller.md 1.2)."""

from __future__ import annotations

import pytest

from messages.ask import AskFailed
from messages.events import ControllerChange, Event, Reelect, Watch
from messages.store import CHILDREN_CHANGED, NODE_CHANGED, NODE_CREATED, NODE_DELETED, Watches
from zk_bridge.watches import CHILD, NODE, WATCHES, Notification, WatchTable, rows


def test_the_watches_of_kafkas_controller_are_in_the_table() -> None:
    notified = [(r.path, r.kind, {change: event.__name__ for change, event in r.events.items()}) for r in WATCHES]
    for row in (
        (
            "/controller",
            NODE,
            {NODE_CREATED: "ControllerChange", NODE_CHANGED: "ControllerChange", NODE_DELETED: "Reelect"},
        ),
        ("/brokers/ids", CHILD, {CHILDREN_CHANGED: "BrokerChange"}),
        ("/brokers/ids/*", NODE, {NODE_CHANGED: "BrokerModifications"}),
        ("/brokers/topics", CHILD, {CHILDREN_CHANGED: "TopicChange"}),
        ("/brokers/topics/*", NODE, {NODE_CHANGED: "PartitionModifications"}),
        ("/admin/delete_topics", CHILD, {CHILDREN_CHANGED: "TopicDeletion"}),
        ("/admin/reassign_partitions", NODE, {NODE_CREATED: "ZkPartitionReassignment"}),
        ("/brokers/topics/*/partitions/*/state", NODE, {NODE_CHANGED: "PartitionReassignmentIsrChange"}),
        ("/admin/preferred_replica_election", NODE, {NODE_CREATED: "PreferredReplicaLeaderElection"}),
        ("/config/changes", CHILD, {CHILDREN_CHANGED: "ConfigChangeNotification"}),
        ("/isr_change_notification", CHILD, {CHILDREN_CHANGED: "IsrChangeNotification"}),
        ("/log_dir_event_notification", CHILD, {CHILDREN_CHANGED: "LogDirEventNotification"}),
    ):
        assert row in notified


class StateChange(Event):
    """A made-up event whose path has two keys."""

    watch = Watch("/brokers/topics/*/partitions/*/state", (NODE_CHANGED,))
    __match_args__ = ("topic", "partition", "generation")
    topic: str
    partition: int

    def __init__(self, topic: str, partition: int, generation: int) -> None:
        self.notified = (topic, partition, generation)


class Requested(Event):
    """A made-up event for the creation of a znode."""

    watch = Watch("/admin/made_up", (NODE_CREATED,))
    __match_args__ = ("generation",)

    def __init__(self, generation: int) -> None:
        self.notified = (generation,)


STATES = tuple(f"/brokers/topics/{topic}/partitions/{n}/state" for topic in ("t", "1") for n in (0, 1))


def table() -> WatchTable:
    made = WatchTable(rows((StateChange, Requested)))
    made.arm("me", Watches(data=STATES))
    return made


def notified(news: list[Notification]) -> list[tuple[object, ...]]:
    return [each.event.notified for each in news]


def test_a_path_with_two_keys_has_both_in_the_event() -> None:
    assert notified(list(table().handle_change(STATES[1], NODE_CHANGED, 3))) == [("t", 1, 3)]


def test_only_the_keys_named_are_forgotten() -> None:
    made = table()
    made.forget("me", ("StateChange",), ("t/1", "1/0", "unknown/7", "1"))
    assert made.watches_to_set().data == (STATES[0], STATES[3])
    made.forget("me", ("StateChange",), None)
    assert made.watches_to_set() == Watches()


def test_a_path_without_an_event_is_refused_by_name() -> None:
    with pytest.raises(AskFailed, match=r"/brokers/seqid"):
        table().arm("me", Watches(exists=("/brokers/seqid",)))
    with pytest.raises(AskFailed, match=r"znode /brokers/topics/t/partitions/0/state cannot be watched for 'child'"):
        table().arm("me", Watches(children=(STATES[0],)))


def test_only_what_belongs_to_no_term_is_looked_for_after_an_interruption() -> None:
    made = table()
    assert (made.watches_to_set(), made.looked_for()) == (Watches(data=STATES), Watches())
    kept = WatchTable()
    kept.arm("me", Watches(exists=("/controller", "/admin/reassign_partitions"), children=("/brokers/topics",)))
    kept.store_existence(Watches(exists=("/admin/reassign_partitions",)), (False,))
    assert kept.looked_for() == Watches(exists=("/controller",))
    assert kept.watches_to_set() == Watches(exists=("/admin/reassign_partitions",), children=("/brokers/topics",))
    for there, event in ((True, ControllerChange(1)), (False, Reelect(1))):
        kept.arm("me", Watches(exists=("/controller",)))
        assert list(kept.handle_interruption(kept.looked_for(), (there,), 1)) == [Notification("me", event)]


def test_an_unread_node_is_left_to_its_reader() -> None:
    made = table()
    request = Watches(exists=("/admin/made_up",))
    made.arm("me", request)
    assert made.watches_to_set() == Watches(data=STATES)
    made.store_existence(request, (False,))
    assert made.watches_to_set() == Watches(data=STATES, exists=request.exists)
    assert notified(list(made.handle_change("/admin/made_up", NODE_CREATED, 2))) == [(2,)]
    assert made.watches_to_set().data == (*STATES, "/admin/made_up"), "it is there now"
