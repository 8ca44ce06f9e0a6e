"""Build the AddPartitionsToTxn requests that verify transactions, and read the responses (transactions.md 1.3 rule 7).

Rule 1: A request contains up to VERIFICATIONS_AT_ONCE queued verifications. The response has one result per
        transactional id, so a request contains only one producer id and epoch per transactional id. Verifications for
        another producer with the same transactional id wait for the next request.

Kafka: `AddPartitionsToTxnManager`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from actors.core.transaction.request_queue import take_fitting
from messages.apis import API_BY_REQUEST
from messages.apis.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTransaction,
)
from messages.apis.api_versions import ApiVersionsResponse
from messages.cluster import TopicPartition
from messages.transactions import VerificationRequest

VERSION = 4
"""First AddPartitionsToTxn version that brokers send, and the version sent here."""
VERIFICATIONS_AT_ONCE = 1000


def supports_verification(response: ApiVersionsResponse) -> bool:
    """Return whether a broker with these API versions verifies transactions."""
    key = API_BY_REQUEST[AddPartitionsToTxnRequest].key
    return any(each.api_key == key and each.max_version >= VERSION for each in response.api_keys)


def take(queue: deque[VerificationRequest]) -> list[VerificationRequest]:
    """Remove the verifications of the next request from the queue (rule 1) and return them."""
    producers: dict[str, tuple[int, int]] = {}

    def is_of_first_producer(each: VerificationRequest) -> bool:
        producer = each.producer_id, each.producer_epoch
        return producers.setdefault(each.transactional_id, producer) == producer

    return take_fitting(queue, VERIFICATIONS_AT_ONCE, is_of_first_producer)


def request_of(verifications: Iterable[VerificationRequest]) -> AddPartitionsToTxnRequest:
    """Return the request that contains these verifications."""
    transactions: dict[tuple[str, int, int], dict[TopicPartition, None]] = {}
    for each in verifications:
        producer = each.transactional_id, each.producer_id, each.producer_epoch
        transactions.setdefault(producer, {})[each.partition] = None
    return AddPartitionsToTxnRequest(
        VERSION,
        transactions=tuple(
            [
                AddPartitionsToTxnTransaction(*producer, verify_only=True, partitions=tuple(partitions))
                for producer, partitions in transactions.items()
            ]
        ),
    )


def error_codes(response: AddPartitionsToTxnResponse) -> dict[tuple[str, TopicPartition], int]:
    """Return the error codes by transactional id and partition."""
    return {
        (result.transactional_id, each.partition): each.error_code
        for result in response.transactions
        for each in result.partitions
    }
