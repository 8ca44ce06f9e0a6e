"""AlterPartition: which changes of an ISR the controller makes, and its answers to the others (KIP-497)."""

from __future__ import annotations

from typing import Any

import pytest

from actors.core.controller.isr_changes import alter_partitions
from messages import errors
from messages.apis.alter_partition import AlterPartitionRequest, IsrOfPartition
from messages.cluster import TopicPartition
from tests.core.controller.driver import Scene, leadership

T = TopicPartition("t", 0)
LEADER, OTHER = 1, 2


def scene() -> Scene:
    made = Scene(LEADER, OTHER, 3)
    made.assign("t", (1, 2, 3))
    made.lead(T, LEADER, 1, 2, epoch=4, version=6)
    return made


def change(of: Scene, **fields: Any) -> Any:
    wanted = {"partition": T, "leader_epoch": 4, "isr": (1, 2, 3), "partition_epoch": 6}
    of_broker = {"broker_id": LEADER, "broker_epoch": 1}
    own = {name: value for name, value in fields.items() if name in of_broker}
    state = {**wanted, **{name: value for name, value in fields.items() if name not in of_broker}}
    request = AlterPartitionRequest(1, **{**of_broker, **own}, partitions=(IsrOfPartition(**state),))
    return of.run(alter_partitions(of.context, request))


def test_a_change_is_written_and_announced() -> None:
    of = scene()
    response = change(of)
    [altered] = response.partitions
    assert (altered.error_code, altered.leader_id, altered.leader_epoch, altered.isr) == (0, LEADER, 4, (1, 2, 3))
    assert of.znodes[T].isr == (1, 2, 3)
    assert altered.partition_epoch == of.znodes[T].zk_version == of.context.leadership[T].zk_version
    assert {broker for broker, _ in of.sent} == {1, 2, 3}, "UpdateMetadata"
    again = change(of)
    assert [each.error_code for each in again.partitions] == [errors.NONE], "a repeated request"
    assert again.partitions[0].partition_epoch == altered.partition_epoch


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"partition": TopicPartition("absent", 0)}, errors.UNKNOWN_TOPIC_OR_PARTITION),
        ({"leader_epoch": 3}, errors.FENCED_LEADER_EPOCH),
        ({"leader_epoch": 5}, errors.NOT_CONTROLLER),
        ({"partition_epoch": 7}, errors.NOT_CONTROLLER),
        ({"partition_epoch": 5}, errors.INVALID_UPDATE_VERSION),
        ({"partition_epoch": 5, "isr": (1, 2)}, errors.NONE),
        ({"broker_id": OTHER}, errors.INVALID_REQUEST),
        ({"isr": (1, 9)}, errors.OPERATION_NOT_ATTEMPTED),
    ],
)
def test_what_is_not_changed(fields: dict[str, Any], code: int) -> None:
    of = scene()
    before = of.znodes[T]
    [altered] = change(of, **fields).partitions
    assert (altered.error_code, of.znodes[T], of.sent) == (code, before, [])


def test_a_broker_of_an_earlier_registration_changes_nothing() -> None:
    of = scene()
    assert change(of, broker_epoch=9).error_code == errors.STALE_BROKER_EPOCH


def test_a_state_that_another_client_has_written_is_not_replaced() -> None:
    of = scene()
    of.znodes[T] = leadership(LEADER, 1, 2, epoch=4, version=7)
    [altered] = change(of).partitions
    assert altered.error_code == errors.INVALID_UPDATE_VERSION
