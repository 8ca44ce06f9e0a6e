"""Requests to the ZooKeeper bridge and their results, which contain no paths, JSON or ZooKeeper operations.

The bridge replies to each request with `Answer(id, result)`. The result is of the type that the request's docstring
names, or a `Failure` (messages.ask). If a request sets a watch, the bridge sets it before it reads. After the next
change of the watched znode, the bridge sends the event of this change to the sender of the request. To be notified
again, the sender repeats the request. If the connection or the session may have lost watches, the bridge sets them
again, and sends the events of all changes in the meantime.

`epoch_zk_version` is the version of /controller_epoch that fences a write: every transaction checks it, and the reply
is Failure("ControllerMoved") if the check fails. If `epoch_zk_version` is None, as for admin tools, the write is not
fenced.

Kafka: the methods of `KafkaZkClient`.
"""

from __future__ import annotations

from messages.zookeeper.brokers import (
    BrokerRegistered,
    Brokers,
    GetBroker,
    GetBrokers,
    RegisterBroker,
    RegistrationRefused,
    UpdateBroker,
    WatchBrokers,
)
from messages.zookeeper.cluster import (
    ClusterId,
    EnsurePaths,
    FindClusterId,
    GetClusterId,
    GetNodes,
    NoCluster,
    NodeRegistration,
    Nodes,
    ProducerIds,
    RegisterNode,
    TakeProducerIds,
)
from messages.zookeeper.configs import (
    ALL_BROKERS,
    BrokerConfig,
    BrokerConfigs,
    GetBrokerConfigs,
    GetTopicConfigs,
    SetBrokerConfig,
    SetTopicConfig,
    TopicConfig,
    TopicConfigs,
)
from messages.zookeeper.controller import (
    ControllerEpochRead,
    ControllerRead,
    Elect,
    Elected,
    GetController,
    GetControllerEpoch,
    NotElected,
    ResignController,
)
from messages.zookeeper.leader_elections import (
    DeletePreferredElections,
    GetPreferredElections,
    PreferredElections,
)
from messages.zookeeper.notifications import (
    ConfigChanges,
    DeleteConfigChanges,
    DeleteIsrChangeNotifications,
    DeleteLogDirEvents,
    GetConfigChanges,
    GetIsrChangeNotifications,
    GetLogDirEvents,
    IsrChanges,
    LogDirEvents,
    NotifyIsrChange,
    NotifyLogDirFailure,
)
from messages.zookeeper.partition_states import (
    CreatePartitionStates,
    GetPartitionStates,
    PartitionStateRead,
    PartitionStates,
    UpdatePartitionStates,
    WriteResult,
    WriteResults,
)
from messages.zookeeper.question import BridgeQuestion
from messages.zookeeper.reassignments import (
    GetReassignments,
    Reassignments,
    RemoveReassignments,
    RequestedReassignment,
)
from messages.zookeeper.topic_deletion import (
    DeleteTopicDeletionRequests,
    DeleteTopics,
    GetTopicDeletions,
    RequestTopicDeletion,
    TopicAlreadyMarkedForDeletion,
)
from messages.zookeeper.topics import (
    Assignments,
    CreateTopic,
    GetAssignments,
    GetTopics,
    SetAssignments,
    TopicAssignment,
    TopicExists,
    TopicNames,
)
from messages.zookeeper.watching import StartWatching, StopWatching
