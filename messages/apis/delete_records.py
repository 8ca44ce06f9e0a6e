"""DeleteRecords: delete the records before an offset."""

from __future__ import annotations

from messages.acls import Operation
from messages.apis.declaration import BY_TOPIC, LEADERSHIP, PARTITIONS, TIMEOUT_MS, Api, each_partition, on_topics
from messages.cluster import TopicPartition
from messages.records import NO_OFFSET
from messages.vocabulary import Message, message


@message
class TrimmedPartition(Message):
    """A partition whose records before `offset` are to be deleted; -1 means the high watermark."""

    partition: TopicPartition
    offset: int


@message
class DeleteRecordsRequest(Message):
    """A client's request to delete the records before an offset, from partitions that the broker leads (API key 21)."""

    version: int
    partitions: tuple[TrimmedPartition, ...]
    timeout_ms: int


@message
class DeletedRecords(Message):
    """The result of DeleteRecords for one partition: its new log start offset."""

    partition: TopicPartition
    error_code: int
    low_watermark: int = NO_OFFSET


@message
class DeleteRecordsResponse(Message):
    """The response to DeleteRecords."""

    partitions: tuple[DeletedRecords, ...]
    throttle_time_ms: int = 0


API = Api(
    key=21,
    versions=(0, 2),
    request=DeleteRecordsRequest,
    response=DeleteRecordsResponse,
    answerer=PARTITIONS,
    access=(on_topics(Operation.DELETE),),
    codes=f"NONE {LEADERSHIP} OFFSET_OUT_OF_RANGE POLICY_VIOLATION REQUEST_TIMED_OUT",
    sample=lambda about: DeleteRecordsRequest(2, (TrimmedPartition(about.partition, 0),), TIMEOUT_MS),
    odd="partition=absent offset=1099511627776",
    refuse=each_partition(DeleteRecordsResponse, DeletedRecords),
    bindings={DeleteRecordsRequest: BY_TOPIC, DeleteRecordsResponse: BY_TOPIC},
)
