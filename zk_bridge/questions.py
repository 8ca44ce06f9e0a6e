"""Which conversation answers which question of messages.zookeeper."""

from __future__ import annotations

from messages import zookeeper as asked
from messages.conversation import Done
from zk_bridge import brokers, cluster, controller, notifications, partition_states, topic_deletion, topics
from zk_bridge.conversations import Conversation, Forget, Starter


def stop_watching(question: asked.StopWatching) -> Conversation:
    """Drop the asker's watches; those of the server are left to fire unheard."""
    yield Forget(question.event, question.keys)
    return Done()


CONVERSATIONS: dict[type, Starter] = {
    asked.EnsurePaths: cluster.ensure_paths,
    asked.GetClusterId: cluster.get_cluster_id,
    asked.RegisterNode: cluster.register_node,
    asked.GetNodes: cluster.get_nodes,
    asked.GetController: controller.get_controller,
    asked.Elect: controller.elect,
    asked.ResignController: controller.resign_controller,
    asked.StopWatching: stop_watching,
    asked.RegisterBroker: brokers.register_broker,
    asked.GetBrokers: brokers.get_brokers,
    asked.WatchBrokers: brokers.watch_brokers,
    asked.GetBroker: brokers.get_broker,
    asked.GetTopics: topics.get_topics,
    asked.GetAssignments: topics.get_assignments,
    asked.SetAssignments: topics.set_assignments,
    asked.CreateTopic: topics.create_topic,
    asked.GetTopicConfigs: topics.get_topic_configs,
    asked.SetTopicConfig: topics.set_topic_config,
    asked.GetPartitionStates: partition_states.get_partition_states,
    asked.CreatePartitionStates: partition_states.create_partition_states,
    asked.UpdatePartitionStates: partition_states.update_partition_states,
    asked.GetTopicDeletions: topic_deletion.get_topic_deletions,
    asked.RequestTopicDeletion: topic_deletion.request_topic_deletion,
    asked.ForgetTopicDeletions: topic_deletion.forget_topic_deletions,
    asked.DeleteTopics: topic_deletion.delete_topics,
    asked.GetIsrChangeNotifications: notifications.get_isr_change_notifications,
    asked.DeleteIsrChangeNotifications: notifications.delete_isr_change_notifications,
    asked.NotifyLogDirFailure: notifications.notify_log_dir_failure,
    asked.GetLogDirEvents: notifications.get_log_dir_events,
    asked.DeleteLogDirEvents: notifications.delete_log_dir_events,
}
"""Question -> the generator function that answers it."""
