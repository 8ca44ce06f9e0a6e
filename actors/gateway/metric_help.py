"""The HELP texts of /metrics: one sentence for each metric, with its unit."""

from __future__ import annotations

HELP = {
    "kafka_controller_kafkacontroller_activecontrollercount": "1 if this node is the controller, else 0.",
    "kafka_controller_kafkacontroller_offlinepartitionscount": "Number of partitions without a leader.",
    "kafka_controller_kafkacontroller_preferredreplicaimbalancecount": (
        "Number of partitions that are not led by their preferred replica."
    ),
    "kafka_controller_kafkacontroller_globaltopiccount": "Number of topics in the cluster.",
    "kafka_controller_kafkacontroller_globalpartitioncount": "Number of partitions in the cluster.",
    "kafka_controller_kafkacontroller_topicstodeletecount": "Number of topics that are queued for deletion.",
    "kafka_controller_kafkacontroller_replicastodeletecount": "Number of replicas that are queued for deletion.",
    "kafka_controller_kafkacontroller_topicsineligibletodeletecount": (
        "Number of topics whose deletion waits for a broker or a reassignment."
    ),
    "kafka_controller_kafkacontroller_replicasineligibletodeletecount": (
        "Number of replicas whose deletion waits for a broker or a reassignment."
    ),
    "kafka_controller_kafkacontroller_controllerstate": "Number of the controller's state: 0 if it handles no event.",
    "kafka_controller_controllereventmanager_eventqueuesize": "Number of events that wait for the controller.",
    "kafka_controller_controllereventmanager_eventqueuetimems": "Time of an event in the controller's queue, in ms.",
    "kafka_controller_controllerchannelmanager_queuesize": "Number of requests that wait for a broker.",
    "kafka_controller_controllerchannelmanager_totalqueuesize": "Number of requests that wait for all brokers.",
    "kafka_controller_controllerchannelmanager_requestrateandqueuetimems": (
        "Time of a request in the queue to a broker, in ms."
    ),
    "kafka_controller_controllerstats_uncleanleaderelections_total": (
        "Number of leaders elected outside the ISR since the node started."
    ),
    "kafka_server_replicamanager_leadercount": "Number of partitions that this broker leads.",
    "kafka_server_replicamanager_partitioncount": "Number of partitions that this broker hosts.",
    "kafka_server_replicamanager_offlinereplicacount": "Number of replicas in failed log directories.",
    "kafka_server_replicamanager_underreplicatedpartitions": (
        "Number of led partitions with fewer in-sync replicas than replicas."
    ),
    "kafka_server_replicamanager_underminisrpartitioncount": (
        "Number of led partitions with fewer in-sync replicas than min.insync.replicas."
    ),
    "kafka_server_replicamanager_atminisrpartitioncount": (
        "Number of led partitions with as many in-sync replicas as min.insync.replicas."
    ),
    "kafka_server_replicamanager_reassigningpartitions": "Number of led partitions that are being reassigned.",
    "kafka_server_replicamanager_isrexpands_total": "Number of times that a replica joined an ISR.",
    "kafka_server_replicamanager_isrshrinks_total": "Number of times that a replica left an ISR.",
    "kafka_server_replicamanager_failedisrupdates_total": "Number of ISR changes that could not be written.",
    "kafka_server_replicafetchermanager_maxlag": (
        "Largest number of records that a followed partition is behind its leader."
    ),
    "kafka_server_leaderreplication_byte_rate": "Bytes per second to throttled followers.",
    "kafka_server_followerreplication_byte_rate": "Bytes per second from leaders for throttled replicas.",
    "kafka_server_socket_server_metrics_connection_count": "Number of open connections of a listener.",
    "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent": (
        "Share of the last minute in which the node's loop was idle, from 0 to 1."
    ),
    "kafka_network_requestmetrics_requests_total": "Number of answered requests.",
    "kafka_network_requestmetrics_totaltimems": "Time from a whole request to its response, in ms.",
    "kafka_log_logmanager_offlinelogdirectorycount": "Number of log directories that have failed.",
    "kafka_log_log_size": "Size of a log, in bytes.",
    "kafka_log_log_logstartoffset": "First offset of a log.",
    "kafka_log_log_logendoffset": "Log end offset of a log.",
    "kafka_log_log_numlogsegments": "Number of segments of a log.",
    "kafka_cluster_partition_laststableoffsetlag": (
        "Number of records between the last stable offset and the high watermark of a partition."
    ),
    "kafka_server_replicamanager_produceridcount": "Number of producer ids in all logs.",
    "kafka_server_replicamanager_partitionswithlatetransactionscount": (
        "Number of partitions with a transaction that is open for longer than a coordinator permits."
    ),
    "kafka_server_addpartitionstotxnmanager_verificationtimems": (
        "Time until a transaction is verified before a batch is appended, in ms."
    ),
    "kafka_server_addpartitionstotxnmanager_verificationfailurerate_total": (
        "Number of transactions that could not be verified."
    ),
    "kafka_coordinator_transaction_transactionmarkerchannelmanager_unknowndestinationqueuesize": (
        "Number of transaction markers that wait for a leader."
    ),
    "kafka_coordinator_transaction_transactionmarkerchannelmanager_logappendretryqueuesize": (
        "Number of ended transactions whose completion the log refused."
    ),
    "kafka_server_transaction_coordinator_metrics_partition_load_time_avg": (
        "Average time of loading a partition of __transaction_state, in ms."
    ),
    "kafka_server_transaction_coordinator_metrics_partition_load_time_max": (
        "Longest time of loading a partition of __transaction_state, in ms."
    ),
    "kafka_actors_controller_failed_events": "Number of times that an event raised an unexpected exception.",
    "kafka_actors_controller_event_ms": "Time that the controller took for an event, in ms.",
    "kafka_actors_controller_event_queue_ms": "Time of an event in the controller's queue, in ms.",
    "kafka_actors_controller_event_zookeeper_requests": "Number of requests to ZooKeeper for an event.",
}
"""Metric -> its HELP text."""

FAMILIES = {
    "kafka_controller_controllerstats_": "Time that the controller took for events of this state, in ms.",
    "kafka_server_brokertopicmetrics_messagesin_": "Number of records received from producers.",
    "kafka_server_brokertopicmetrics_bytesin_": "Bytes of records received from producers.",
    "kafka_server_brokertopicmetrics_bytesout_": "Bytes of records sent to consumers.",
    "kafka_server_brokertopicmetrics_bytesrejected_": "Bytes of records refused because a batch was too large.",
    "kafka_server_brokertopicmetrics_total": "Number of requests, counted for each partition in them.",
    "kafka_server_brokertopicmetrics_failed": "Number of requests that failed, counted for each partition in them.",
    "kafka_server_brokertopicmetrics_replicationbytes": "Bytes of records between leaders and followers.",
    "kafka_server_brokertopicmetrics_reassignmentbytes": "Bytes of records for replicas that are being added.",
    "kafka_cluster_partition_": "Number of led partitions in this state.",
}
"""Prefix of a metric's name -> the HELP text of all such metrics."""

COUNTERS = (
    *(
        f"kafka_server_brokertopicmetrics_{what}_total"
        for what in (
            *("messagesin", "bytesin", "bytesout", "bytesrejected"),
            *("totalproducerequests", "failedproducerequests", "totalfetchrequests", "failedfetchrequests"),
            *("replicationbytesin", "replicationbytesout", "reassignmentbytesin", "reassignmentbytesout"),
        )
    ),
    *(f"kafka_server_replicamanager_{what}_total" for what in ("isrexpands", "isrshrinks", "failedisrupdates")),
    "kafka_server_addpartitionstotxnmanager_verificationfailurerate_total",
)
"""Counters without labels, which are exported from the start, with value 0."""


def help_of(name: str) -> str:
    """Return the HELP text of a metric; its name if it has none."""
    return HELP.get(name) or next((text for start, text in FAMILIES.items() if name.startswith(start)), name)
