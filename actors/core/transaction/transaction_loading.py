"""Load transactional ids from a partition of __transaction_state.

Rule 1: The last record of an id applies; a tombstone removes the id.
Rule 2: A key of an unknown version is skipped with a warning. A value that cannot be read makes loading fail.

Kafka: `TransactionStateManager.loadTransactionMetadata`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from actors.core.coordinator.loading import Row
from actors.core.transaction.transaction import Transaction
from actors.core.transaction.transaction_records import read_key, read_value

log = logging.getLogger("kafka.coordinator.transaction.TransactionStateManager")


class TransactionLoading:
    """The transactional ids loaded so far from one partition of __transaction_state."""

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self.records = 0
        self.ids: dict[str, Transaction] = {}

    def take(self, rows: Sequence[Row]) -> None:
        """Process the next records.

        Raises:
            DamagedRecord: A record cannot be decoded (rule 2).
        """
        self.records += len(rows)
        for _, is_marker, key, value, _ in rows:
            if is_marker:
                continue
            name = read_key(key.encode("latin-1"))
            if name is None:
                log.warning(
                    "Skipping a record with an unknown key version in partition %d of __transaction_state: key %s",
                    *(self.partition, key.encode("latin-1").hex()),
                )
            elif value is None:
                self.ids.pop(name, None)
            else:
                self.ids[name] = read_value(name, value.encode("latin-1"))
