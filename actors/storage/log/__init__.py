"""The log of a partition in Kafka's file format, which Apache Kafka's brokers and tools can read (broker.md 5)."""

from actors.storage.log.checkpoint import Checkpoint, DamagedCheckpoint
from actors.storage.log.handles import LIMIT, NO_DESCRIPTORS, Handles, opening
from actors.storage.log.log import Appended, FetchDataInfo, Log, LogConfig, OffsetOutOfRange
from actors.storage.log.producers import (
    InvalidProducerEpoch,
    InvalidTxnState,
    OutOfOrderSequence,
    TransactionCoordinatorFenced,
)
