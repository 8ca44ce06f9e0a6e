"""Topic deletion requests: /admin/delete_topics, and the znodes of a topic."""

from __future__ import annotations

from messages.conversation import Done
from messages.vocabulary import message
from messages.zookeeper.question import BridgeQuestion
from messages.zookeeper.topics import TopicNames


@message
class GetTopicDeletions(BridgeQuestion[TopicNames]):
    """Children of /admin/delete_topics; arms TopicDeletion if `watch`. -> TopicNames"""

    watch: bool = True


@message
class RequestTopicDeletion(BridgeQuestion["Done | TopicAlreadyMarkedForDeletion"]):
    """Create /admin/delete_topics/T; fenced if the controller asks. -> Done | TopicAlreadyMarkedForDeletion"""

    topic: str
    epoch_zk_version: int | None = None


@message
class TopicAlreadyMarkedForDeletion:
    """/admin/delete_topics/T already exists."""

    topic: str


@message
class ForgetTopicDeletions(BridgeQuestion[Done]):
    """Delete /admin/delete_topics/T of each, fenced; absent ones are no error. -> Done"""

    topics: tuple[str, ...]
    epoch_zk_version: int


@message
class DeleteTopics(BridgeQuestion[Done]):
    """Delete, fenced, /brokers/topics/T recursively, then /config/topics/T, then /admin/delete_topics/T. -> Done"""

    topics: tuple[str, ...]
    epoch_zk_version: int
