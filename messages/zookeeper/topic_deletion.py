"""Requests to the ZooKeeper bridge about topic deletion: /admin/delete_topics, and the znodes of a topic."""

from __future__ import annotations

from messages.ask import Done
from messages.vocabulary import Message, message
from messages.zookeeper.question import BridgeQuestion
from messages.zookeeper.topics import TopicNames


@message
class GetTopicDeletions(BridgeQuestion[TopicNames]):
    """A request to list /admin/delete_topics, and to watch it if `watch` is set; the reply is TopicNames."""

    watch: bool = True


@message
class RequestTopicDeletion(BridgeQuestion["Done | TopicAlreadyMarkedForDeletion"]):
    """A request to create /admin/delete_topics/T; the reply is Done or TopicAlreadyMarkedForDeletion.

    If the controller sends the request, the write is fenced by the controller epoch.
    """

    topic: str
    epoch_zk_version: int | None = None


@message
class TopicAlreadyMarkedForDeletion(Message):
    """The reply to RequestTopicDeletion if /admin/delete_topics/T exists already."""

    topic: str


@message
class DeleteTopicDeletionRequests(BridgeQuestion[Done]):
    """The controller's request to delete /admin/delete_topics/T for these topics; the reply is Done.

    The deletion is fenced; absent znodes are no error.
    """

    topics: tuple[str, ...]
    epoch_zk_version: int


@message
class DeleteTopics(BridgeQuestion[Done]):
    """The controller's request to delete the znodes of topics, of their configs and of their deletion requests.

    The reply is Done. The deletions are fenced, and have this order: first /brokers/topics/T recursively, then
    /config/topics/T, then /admin/delete_topics/T.
    """

    topics: tuple[str, ...]
    epoch_zk_version: int
