"""AutoTopicCreationActor creates a missing topic (in ZooKeeper) when it is first used; each broker has such an actor.

Rule 1: requests are served one at a time, so that a topic that many clients name is created once.
Rule 2: a topic that another broker has created meanwhile is treated as if this broker had created it.
Rule 3: topics are independent: a refused topic does not affect the others. While ZooKeeper is unavailable, only the
        clients that name missing topics wait.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence

from thespian.actors import ActorAddress

from actors.core.broker.auto_topic_creation import plan_topic
from actors.core.refusal import Refused
from actors.core.topic.topic_admin import number_partitions
from actors.core.topic.topic_name import InvalidTopic
from actors.runtime import FlowActor
from messages import errors
from messages.ask import AskFailed
from messages.broker import CreateMissingTopics, Creation, GetAliveBrokers, MissingTopicsCreated
from messages.flow.conversation import Flow, ask
from messages.node import StartAutoTopicCreation
from messages.vocabulary import Message
from messages.zookeeper import CreateTopic, GetTopics, TopicAssignment

log = logging.getLogger("kafka.server.AutoTopicCreationManager")


class AutoTopicCreationActor(FlowActor):
    """Each broker has one such actor; it creates a missing topic when a client first uses the topic."""

    def receiveMsg_StartAutoTopicCreation(self, message: StartAutoTopicCreation, sender: ActorAddress) -> None:
        """Set the broker's settings, and the actors that this actor sends requests to."""
        self._settings = message.settings
        self.peers = {"bridge": message.bridge, "metadata_cache": message.metadata_cache}

    def flow(self, message: Message) -> Flow[None] | None:
        """Create the missing topics that the message names."""
        return self._create_all(message) if isinstance(message, CreateMissingTopics) else super().flow(message)

    def event_failed(self, event: Message, error: Exception) -> None:
        """Respond to the client with UNKNOWN_SERVER_ERROR for each topic of a failed request."""
        if isinstance(event, CreateMissingTopics):
            self._send_result(event, [Creation(topic, errors.UNKNOWN_SERVER_ERROR) for topic in event.topics])

    def _create_all(self, wanted: CreateMissingTopics) -> Flow[None]:
        brokers = (yield from ask(GetAliveBrokers())).ids
        existing = set((yield from ask(GetTopics(watch=False))).topics)
        made: list[Creation] = []
        for topic in wanted.topics:
            code = yield from self._create(topic, existing, brokers)
            made.append(Creation(topic, code))
            if code == errors.LEADER_NOT_AVAILABLE:
                existing.add(topic)
        self._send_result(wanted, made)

    def _create(self, topic: str, existing: Collection[str], brokers: Sequence[int]) -> Flow[int]:
        """Create one topic (rules 2 and 3).

        Returns:
            The error code of this topic in the client's Metadata response.
        """
        tag = f"[Broker id={self._settings.node_id}]"
        try:
            if topic not in existing:
                replicas, overrides = plan_topic(self._settings, topic, existing, brokers)
                yield from ask(CreateTopic(TopicAssignment(topic, number_partitions(replicas)), overrides))
                log.info(
                    "%s Auto creation of topic %s with %d partitions and replication factor %d is successful",
                    *(tag, topic, len(replicas), len(replicas[0])),
                )
        except InvalidTopic as refused:  # the client's fault, which Kafka does not log
            return refused.code
        except Refused as refused:
            log.error("%s Failed to create topic %s: %s", tag, topic, refused)
            return refused.code
        except AskFailed as error:
            log.error("%s Failed to create topic %s: %s", tag, topic, error)
            return errors.UNKNOWN_SERVER_ERROR
        return errors.LEADER_NOT_AVAILABLE

    def _send_result(self, wanted: CreateMissingTopics, made: Sequence[Creation]) -> None:
        if wanted.forwarded is not None:
            self.send(self.peers["metadata_cache"], MissingTopicsCreated(wanted.forwarded, tuple(made)))
