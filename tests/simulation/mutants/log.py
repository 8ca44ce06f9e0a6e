"""Mutants of logs: leader epochs, producers, checkpoints (broker.md 4.6, 5)."""

from __future__ import annotations

from tests.simulation.mutants.mutant import mutant

LOG = "actors.storage.log.log:Log"
EPOCHS = "actors.storage.log.epochs:LeaderEpochs"
PRODUCERS = "actors.storage.log.producers:Producers"
TRANSACTIONS = "actors.storage.log.transactions:Transactions"
LOGS = "actors.storage.log_manager"

LOG_TESTS = "tests/storage/test_log.py"
TRANSACTION_TESTS = "tests/storage/test_transactions.py"
LOGS_TESTS = "tests/storage/test_logs.py"

MUTANTS = (
    mutant(
        "leader epochs are not truncated with the log",
        "broker.md 4.6",
        f"{LOG}.truncate_to",
        "self.epochs.truncate_from_end(self.end)",
        "pass",
        LOG_TESTS,
    ),
    mutant(
        "followers do not note leader epochs",
        "broker.md 4.6",
        f"{LOG}.append_as_follower",
        "if 0 <= header.leader_epoch != latest:",
        "if False:",
        LOG_TESTS,
    ),
    mutant(
        "earlier epoch ends at the log's end",
        "broker.md 4.6, KIP-101",
        f"{EPOCHS}.end_offset_for",
        "earlier[-1] if earlier else epoch, later.start",
        "earlier[-1] if earlier else epoch, log_end_offset",
        LOG_TESTS,
    ),
    mutant(
        "epoch that the leader never had is answered with the next one",
        "broker.md 4.6, KIP-279",
        f"{EPOCHS}.end_offset_for",
        "earlier[-1] if earlier else epoch",
        "epoch",
        LOG_TESTS,
    ),
    mutant(
        "duplicates of idempotent producers are appended",
        "broker.md 5.3, KIP-98",
        f"{PRODUCERS}.check",
        "return batch",
        "return None",
        LOG_TESTS,
    ),
    mutant(
        "gap in a producer's sequence is accepted",
        "broker.md 5.3, KIP-98",
        f"{PRODUCERS}.check",
        "if header.base_sequence != expected:",
        "if header.base_sequence < expected:",
        LOG_TESTS,
    ),
    mutant(
        "older producer epoch is accepted",
        "broker.md 5.3, KIP-98",
        f"{PRODUCERS}.check",
        "if header.producer_epoch < known.epoch:",
        "if False:",
        LOG_TESTS,
    ),
    mutant(
        "followers do not note producers",
        "broker.md 5.3",
        f"{LOG}._write",
        "if header.producer_id != NO_PRODUCER_ID:",
        "if header.producer_id != NO_PRODUCER_ID and len(pieces) > 1:",
        LOG_TESTS,
    ),
    mutant(
        "producers are not loaded after a clean shutdown",
        "broker.md 5.3",
        f"{LOG}.load",
        ("if clean:\n            self._load"),
        ("if False:\n            self._load"),
        LOG_TESTS,
    ),
    mutant(
        "producers are not rebuilt after a kill",
        "broker.md 5.3, 5.4",
        f"{LOG}._recover_segments",
        "self._note_producer(segment, BatchPosition(segment.size - header.size, header))",
        "pass",
        LOG_TESTS,
    ),
    mutant(
        "producers are not truncated with the log",
        "broker.md 5.3",
        f"{LOG}.truncate_to",
        "self._load_producers(self.end, missing_is_none=False)",
        "pass",
        LOG_TESTS,
    ),
    mutant(
        "markers end no transaction",
        "transactions.md 3.1",
        f"{TRANSACTIONS}.end",
        "self._open.pop(producer_id, None)",
        "self._open.get(producer_id)",
        TRANSACTION_TESTS,
    ),
    mutant(
        "markers count before they are replicated",
        "transactions.md 3.1",
        f"{TRANSACTIONS}.end",
        "self._unreplicated.append((first, marker_offset))",
        "pass",
        TRANSACTION_TESTS,
        needs=("seed 130",),
    ),
    mutant(
        "open transactions are lost with a clean shutdown",
        "transactions.md 3.6",
        f"{PRODUCERS}.load_snapshot",
        "if opened:",
        "if False:",
        TRANSACTION_TESTS,
        needs=("seed 112",),
    ),
    mutant(
        "index of aborted transactions stays as it is when the log is truncated",
        "transactions.md 3.3",
        "actors.storage.log.segment:Segment.truncate",
        "self.aborted.truncate(place.header.base_offset)",
        "pass",
        TRANSACTION_TESTS,
    ),
    mutant(
        "aborted transactions end with their segment",
        "transactions.md 3.3",
        f"{LOG}.aborted",
        "self._segments[self._segments.index(segment) :]",
        "[segment]",
        TRANSACTION_TESTS,
        needs=("log_segment_bytes",),
    ),
    mutant(
        "a newer epoch begins in an open transaction",
        "transactions.md 3.2",
        f"{PRODUCERS}.check",
        "if self.first_of_transaction(header.producer_id) >= 0:\n                raise InvalidProducerEpoch",
        "if False:\n                raise InvalidProducerEpoch",
        TRANSACTION_TESTS,
    ),
    mutant(
        "markers of an older coordinator are taken",
        "transactions.md 3.1",
        f"{PRODUCERS}.check_coordinators",
        "marker.coordinator_epoch < known.coordinator_epoch",
        "False",
        TRANSACTION_TESTS,
    ),
    mutant(
        "recovery point is ahead of what is durable",
        "broker.md 5.1",
        f"{LOGS}:LogManager._note_points",
        "directory.recovery_points.set(partition, log.recovery_point)",
        "directory.recovery_points.set(partition, log.end)",
        LOGS_TESTS,
        needs=("crash",),
    ),
    mutant(
        "clean shutdown marker stays while logs are written",
        "broker.md 5.4",
        "actors.storage.directory_checkpoints:DirectoryCheckpoints.take_over",
        "marker.unlink(missing_ok=True)",
        "pass",
        LOGS_TESTS,
    ),
    mutant(
        "log start offset is forgotten at a restart",
        "broker.md 5.1, KIP-107",
        f"{LOGS}:LogManager._note_points",
        "if log.start > log.first_base:",
        "if False:",
        LOGS_TESTS,
        needs=("seed 146",),
    ),
    mutant(
        "truncated log keeps a later start in its checkpoint",
        "broker.md 5.1",
        f"{LOGS}:LogManager._lower_points",
        "for points in (directory.log_starts, directory.high_watermarks):",
        "for points in (directory.high_watermarks,):",
        LOGS_TESTS,
    ),
)
"""Mutants of logs."""
