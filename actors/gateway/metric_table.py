"""The table of the metrics that a node exports: names, kinds, labels and HELP texts.

Names are those that jmx_exporter gives Kafka's metrics. Metrics whose names begin with `kafka_actors_` exist only in
this project.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from messages.events import ControllerState


class MetricDeclaration(NamedTuple):
    """A metric: its kind for Prometheus, its HELP text with the unit, and the labels that its values may have."""

    kind: str
    help: str
    labels: tuple[str, ...]


_TABLE = """
gauge kafka_controller_kafkacontroller_
    activecontrollercount: 1 if this node is the controller, else 0.
    offlinepartitionscount: Number of partitions without a leader.
    preferredreplicaimbalancecount: Number of partitions that are not led by their preferred replica.
    globaltopiccount: Number of topics in the cluster.
    globalpartitioncount: Number of partitions in the cluster.
    topicstodeletecount: Number of topics that are queued for deletion.
    replicastodeletecount: Number of replicas that are queued for deletion.
    topicsineligibletodeletecount: Number of topics whose deletion waits for a broker or a reassignment.
    replicasineligibletodeletecount: Number of replicas whose deletion waits for a broker or a reassignment.
    controllerstate: Number of the controller's state: 0 if it handles no event.
gauge kafka_controller_controllereventmanager_
    eventqueuesize: Number of events that wait for the controller.
gauge kafka_controller_controllerchannelmanager_
    totalqueuesize: Number of requests that wait for all brokers.
gauge kafka_controller_controllerstats_
    uncleanleaderelections_total: Number of leaders elected outside the ISR since the node's start.
gauge kafka_controller_controllerchannelmanager_ broker_id
    queuesize: Number of requests that wait for a broker.
summary kafka_controller_controllerchannelmanager_ broker_id
    requestrateandqueuetimems: Time of a request in the queue to a broker, in ms.
summary kafka_controller_controllereventmanager_
    eventqueuetimems: Time of an event in the controller's queue, in ms.
gauge kafka_server_replicamanager_
    leadercount: Number of partitions that this broker leads.
    partitioncount: Number of partitions that this broker hosts.
    offlinereplicacount: Number of replicas in failed log directories.
    underreplicatedpartitions: Number of led partitions with fewer in-sync replicas than replicas.
    underminisrpartitioncount: Number of led partitions with fewer in-sync replicas than min.insync.replicas.
    atminisrpartitioncount: Number of led partitions with as many in-sync replicas as min.insync.replicas.
    reassigningpartitions: Number of led partitions that are being reassigned.
    produceridcount: Number of producer ids in all logs.
gauge kafka_server_replicamanager_partitionswith
    latetransactionscount: Number of partitions with a transaction that is open for longer than a coordinator permits.
counter kafka_server_replicamanager_
    isrexpands_total: Number of times that a replica joined an ISR.
    isrshrinks_total: Number of times that a replica left an ISR.
    failedisrupdates_total: Number of ISR changes that could not be written.
gauge kafka_server_replicafetchermanager_ leader fetcher
    maxlag: Largest number of records that a followed partition is behind its leader.
gauge kafka_server_
    leaderreplication_byte_rate: Bytes per second to throttled followers.
    followerreplication_byte_rate: Bytes per second from leaders for throttled replicas.
    alterlogdirsreplication_byte_rate: Bytes per second of replicas that move between log directories.
gauge kafka_server_kafkarequesthandlerpool_
    requesthandleravgidle_percent: Share of the last minute in which the node's loop was idle, from 0 to 1.
gauge kafka_network_socketserver_
    networkprocessoravgidle_percent: Share of the last minute in which the node's loop was idle, from 0 to 1.
gauge kafka_server_kafkaserver_
    brokerstate: 1 starting, 2 loading logs, 3 running, 6 waiting for its controlled shutdown, 7 shutting down.
gauge kafka_server_transaction_coordinator_metrics_partition_
    load_time_avg: Average time of loading a partition of __transaction_state, in ms.
    load_time_max: Longest time of loading a partition of __transaction_state, in ms.
gauge kafka_server_socket_server_metrics_ listener
    connection_count: Number of open connections of a listener.
counter kafka_server_socket_server_metrics_ listener
    successful_authentication_total: Number of clients of a listener that have authenticated.
    failed_authentication_total: Number of times that a client of a listener has failed to authenticate.
counter kafka_server_brokertopicmetrics_ topic
    messagesin_total: Number of records received from producers.
    bytesin_total: Bytes of records received from producers.
    bytesout_total: Bytes of records sent to consumers.
    bytesrejected_total: Bytes of records refused because a batch was too large.
    totalproducerequests_total: Number of produced partitions in requests.
    failedproducerequests_total: Number of produced partitions in requests that failed.
    totalfetchrequests_total: Number of fetched partitions in requests.
    failedfetchrequests_total: Number of fetched partitions in requests that failed.
counter kafka_server_brokertopicmetrics_
    replicationbytesin_total: Bytes of records fetched from leaders.
    replicationbytesout_total: Bytes of records sent to followers.
    reassignmentbytesin_total: Bytes of records fetched for replicas that are being added.
    reassignmentbytesout_total: Bytes of records sent to replicas that are being added.
summary kafka_server_addpartitionstotxnmanager_
    verificationtimems: Time until a transaction is verified before a batch is appended, in ms.
counter kafka_server_addpartitionstotxnmanager_
    verificationfailurerate_total: Number of transactions that could not be verified.
counter kafka_network_requestmetrics_ request version
    requests_total: Number of answered requests.
summary kafka_network_requestmetrics_ request
    totaltimems: Time from a whole request to its response, in ms.
gauge kafka_log_logmanager_
    offlinelogdirectorycount: Number of log directories that have failed.
gauge kafka_log_logcleaner_
    max_buffer_utilization_percent: Largest used part of an offset map in the cleaners' last cleanings, in %.
    cleaner_recopy_percent: Part of the read bytes that the cleaners' last cleanings kept, in %.
    max_clean_time_secs: Longest of the cleaners' last cleanings, in s.
    max_compaction_delay_secs: Longest time for which a record is dirty beyond max.compaction.lag.ms, in s.
    deadthreadcount: Number of log cleaners that have failed.
gauge kafka_log_logcleanermanager_
    max_dirty_percent: Part of the dirtiest compacted log that can be cleaned, in %.
    time_since_last_run_ms: Time since the log cleaner has looked for dirty logs, in ms.
gauge kafka_log_logcleanermanager_ logdirectory
    uncleanable_partitions_count: Number of logs in a log directory that cannot be cleaned because of damage.
    uncleanable_bytes: Bytes of these logs that would be cleaned.
gauge kafka_log_log_ topic partition
    size: Size of a log, in bytes.
    logstartoffset: First offset of a log.
    logendoffset: Log end offset of a log.
    numlogsegments: Number of segments of a log.
gauge kafka_cluster_partition_ topic partition
    laststableoffsetlag: Number of records between the last stable offset and the high watermark of a partition.
    replicascount: Number of replicas of a partition that this broker leads; 0 if it follows.
gauge kafka_cluster_partition_
    underminisr: Number of led partitions with fewer in-sync replicas than min.insync.replicas.
    atminisr: Number of led partitions with as many in-sync replicas as min.insync.replicas.
gauge kafka_coordinator_transaction_transactionmarkerchannelmanager_
    unknowndestinationqueuesize: Number of transaction markers that wait for a leader.
    logappendretryqueuesize: Number of ended transactions whose completion the log refused.
gauge kafka_actors_controller_ event
    failed_events: Number of times that an event raised an unexpected exception.
summary kafka_actors_controller_ event
    event_ms: Time that the controller took for an event, in ms.
    event_queue_ms: Time of an event in the controller's queue, in ms.
    event_zookeeper_requests: Number of requests to ZooKeeper for an event.
gauge kafka_actors_
    damaged_logs: Number of logs that lacked records when they were opened, or have a kept damaged file.
    unreadable_batches: Number of unreadable batches of internal topics whose records coordinators have skipped.
    mailbox_size: Number of messages that wait in the node's queue.
    turns: Number of turns of the actors.
    turns_over_20ms: Number of turns of more than 20 ms of CPU.
    turn_seconds_max: CPU seconds of the longest turn of the actors in the last minute.
    between_turns_seconds_max: Most CPU seconds of the loop between two turns of the actors in the last minute.
gauge kafka_actors_ reason
    trace_failed: 1 if the recording of the trace has ended early, else 0.
"""
"""A line with kind, prefix and labels, then a line for each metric: the rest of its name, and its HELP text."""

_TIMER = MetricDeclaration("summary", "Time that the controller took for events of this state, in ms.", ())


def _declarations() -> Iterator[tuple[str, MetricDeclaration]]:
    kind, prefix, labels = "", "", list[str]()
    for line in _TABLE.strip().splitlines():
        name, colon, text = line.strip().partition(": ")
        if colon:
            yield prefix + name, MetricDeclaration(kind, text, tuple(labels))
        else:
            kind, prefix, *labels = line.split()
    for state in ControllerState:
        if state.timer is not None:
            yield f"kafka_controller_controllerstats_{state.timer.lower()}", _TIMER


METRICS = dict(_declarations())
"""All metrics of a node by name, except those of its process."""

COUNTERS = tuple(name for name, each in METRICS.items() if each.kind == "counter" and each.labels in ((), ("topic",)))
"""Counters of the whole node, which are exported from the start, with value 0."""


def help_of(name: str) -> str:
    """Return the HELP text of a metric; its name if it is not declared."""
    return METRICS[name].help if name in METRICS else name
