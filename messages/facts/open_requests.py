"""Find the client requests that a node has not answered, and the sequence numbers that it expects next from producers.

Rule 1: a response has the connection and the correlation id of its request. Requests are kept in their recorded form,
        and decoded only for a response with an error.
Rule 2: the next sequence number of a producer in a partition follows the batches that the broker accepts: those with
        the expected number, and the first batch of each new epoch.
"""

from __future__ import annotations

import re

from messages.apis.produce import ProduceRequest
from messages.cluster import TopicPartition
from messages.facts.declarations import ProducerBatch
from messages.network import ClientRequest, ClientRequests
from messages.records import NO_PRODUCER_ID
from messages.trace.codec import decode
from messages.trace.errors import BadPayload, UnknownType
from messages.trace.schema import OUTSIDE, TraceRecord
from messages.vocabulary import AnyMessage

REQUESTS = frozenset(("ClientRequest", "ClientRequests"))
RESPONSES = frozenset(("ClientResponse", "ClientResponses"))
BATCHES = "AppendBatches"
MOST = 10_000
"""Maximum number of requests without a response that are kept."""

_IDS = re.compile(rb'"connection":(\d+),"correlation_id":(\d+),"(?:listener|response)"')
_BATCH = re.compile(
    rb'"partition":(\["(?:[^"\\]|\\.)*",\d+\]),"records":\[\[\[(?:-?\d+,){9}(\d+),(-?\d+),(-?\d+),(\d+)\]'
)
"""The header of a batch with a producer id: partition, producer id, epoch, base sequence, number of records."""

_Ids = tuple[bytes, bytes]


class OpenClientRequests:
    """The client requests that one node has received and not answered yet."""

    def __init__(self) -> None:
        self._open: dict[_Ids, TraceRecord] = {}
        self._next: dict[tuple[bytes, bytes], tuple[int, int]] = {}
        """Epoch and next sequence number by partition and producer id, as they are recorded."""

    def begin(self, record: TraceRecord) -> None:
        """Read a request, or a message with batches for a partition."""
        if record.type == BATCHES:
            for partition, producer, *numbers in _BATCH.findall(record.payload):
                self._append((partition, producer), *map(int, numbers))
        elif record.kind == OUTSIDE and record.type in REQUESTS:
            for ids in _IDS.findall(record.payload):
                self._open[ids] = record
            while len(self._open) > MOST:
                del self._open[next(iter(self._open))]

    def _append(self, key: tuple[bytes, bytes], epoch: int, sequence: int, count: int) -> None:
        """Update the next sequence number of a producer (rule 2); `key` is (partition, producer id), as recorded."""
        known = self._next.get(key)
        if known is None or (epoch, sequence) == known or (epoch > known[0] and sequence == 0):
            self._next[key] = epoch, (sequence + count) % 2**31

    def end(self, record: TraceRecord) -> None:
        """Forget the requests that a response answers."""
        for ids in _IDS.findall(record.payload):
            self._open.pop(ids, None)

    def request(self, connection: int, correlation_id: int) -> ClientRequest | None:
        """Return the request with these ids; None if it is not recorded."""
        record = self._open.get((b"%d" % connection, b"%d" % correlation_id))
        if record is None:
            return None
        try:
            message: AnyMessage = decode(record.type, record.payload)
        except (BadPayload, UnknownType):
            return None
        together = message.requests if isinstance(message, ClientRequests) else (message,)
        ids = connection, correlation_id
        return next((each for each in together if (each.connection, each.correlation_id) == ids), None)

    def client_of(self, event_id: int) -> str | None:
        """Return the client id of the request whose delivery began this event; None if no open request did."""
        record = next((each for each in self._open.values() if each.n == event_id), None)
        ids = None if record is None else _IDS.search(record.payload)
        request = None if ids is None else self.request(int(ids[1]), int(ids[2]))
        return None if request is None else request.client_id

    def batch(self, request: ProduceRequest, subject: str) -> ProducerBatch | None:
        """Return the first of the request's batches for partition `subject` that has a producer id, or None."""
        for part in request.partitions:
            for header in part.records.batches if str(part.partition) == subject else ():
                if header.producer_id != NO_PRODUCER_ID:
                    expected = self._next_sequence(part.partition, header.producer_id, header.base_sequence)
                    return ProducerBatch(header.producer_id, header.producer_epoch, header.base_sequence, expected)
        return None

    def _next_sequence(self, partition: TopicPartition, producer: int, sequence: int) -> int:
        key = b'["%b",%d]' % (partition.topic.encode(), partition.partition), b"%d" % producer
        _, following = self._next.get(key, (0, -1))
        return -1 if following == sequence else following
