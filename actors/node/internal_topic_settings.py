"""Settings of the internal topics for a local cluster of few brokers."""

from __future__ import annotations


def internal_topic_settings(brokers: int) -> dict[str, str]:
    """Return settings for __consumer_offsets and __transaction_state that fit the number of brokers.

    Kafka's defaults need three brokers. In a cluster of two brokers with these settings, transactions still work while
    one broker is stopped.
    """
    factor = str(min(3, brokers))
    return {
        "offsets.topic.replication.factor": factor,
        "transaction.state.log.replication.factor": factor,
        "transaction.state.log.min.isr": str(max(1, min(2, brokers - 1))),
    }
