"""Handle CreateTopics, DeleteTopics and CreatePartitions requests of admin clients (broker.md 6.2, 6.4).

Rule 1: A handler only writes znodes, on the condition that this node is still the controller. The new znodes then fire
        watches and are handled as separate events, like znodes that another program wrote. The response is sent when
        this node's metadata has the topics, or after the request's timeout.
Rule 2: Each topic is handled separately: a refused topic, or a failed ZooKeeper write, does not affect the others.
Rule 3: Kafka chooses a random start broker for a new topic's replicas. Here the number of known partitions determines
        the start broker, so that a replay needs no further input. Topics whose numbers of partitions are multiples of
        the number of brokers begin at the same broker.

Kafka: `AdminManager` (`ZkAdminManager`), topics.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence

from actors.core.config.config_requests import describe_topic
from actors.core.config.topic_config import InvalidConfig, check_config, check_lags
from actors.core.controller.context import ControllerContext
from actors.core.controller.failures import passing
from actors.core.controller.instructions import DelayedResponse
from actors.core.refusal import Refused
from actors.core.topic import topic_admin
from actors.core.topic.replica_assignment import assign, extend
from messages import errors, zookeeper
from messages.apis import API_BY_REQUEST
from messages.apis.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse, GrowingTopic, GrownTopic
from messages.apis.create_topics import (
    BY_DEFAULT,
    CreatableTopic,
    CreatedConfig,
    CreatedTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from messages.apis.delete_topics import (
    DeletableTopic,
    DeletedTopic,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    deletable_topics,
)
from messages.ask import AskFailed
from messages.broker import ExpectedTopicState
from messages.cluster import ConfigEntry
from messages.flow.conversation import SLICE, Flow, ask, for_each
from messages.vocabulary import AnyMessage, Message

log = logging.getLogger("kafka.server.AdminManager")

DELETION_DISABLED_SINCE = 3
"""First DeleteTopics version with a separate error code for disabled topic deletion."""


def create_topics(context: ControllerContext, request: CreateTopicsRequest) -> Flow[Message | DelayedResponse]:
    """Handle CreateTopics: create topics, or only validate the request."""
    made: dict[str, int] = {}

    def create(topic: CreatableTopic) -> Flow[CreatedTopic]:
        topic_id = None
        replicas, configs = yield from _plan_topic(context, topic, made)
        if not request.validate_only:
            topic_id = context.new_topic_id(topic.name)
            assignment = zookeeper.TopicAssignment(topic.name, topic_admin.number_partitions(replicas), topic_id)
            answer = yield from ask(zookeeper.CreateTopic(assignment, configs, context.epoch_zk_version))
            if isinstance(answer, zookeeper.TopicExists):
                raise _exists(topic.name)
            made[topic.name] = len(replicas)
        return CreatedTopic(
            *(topic.name, errors.NONE, None, len(replicas), len(replicas[0]), _created_configs(context, configs)),
            topic_id or "",
        )

    twice = _named_twice([topic.name for topic in request.topics])
    results = []
    for topic in request.topics:
        if topic.name in twice:
            results.append(CreatedTopic(topic.name, errors.INVALID_REQUEST, "Found multiple entries for this topic."))
        else:
            results.append((yield from _result(context, CreatedTopic, topic.name, create(topic))))
    expected = tuple(ExpectedTopicState(name, tuple(range(count))) for name, count in made.items())
    return _await_topics(CreateTopicsResponse(tuple(results)), expected, request.timeout_ms)


def _plan_topic(
    context: ControllerContext, topic: CreatableTopic, made: dict[str, int]
) -> Flow[tuple[tuple[topic_admin.Replicas, ...], tuple[ConfigEntry, ...]]]:
    """Return the replicas of each partition of a new topic, and the topic's config overrides.

    Args:
        made: Topic -> partition count, for the topics that this request has created so far.

    Raises:
        Refused: The topic is invalid. The checks are made in Kafka's order.
    """
    if topic.name in context.topics:
        raise _exists(topic.name)
    without = [config.name for config in topic.configs if config.value is None]
    if without:
        raise InvalidConfig(f"Null value not supported for topic configs: {','.join(without)}")
    if topic.assignments and (topic.num_partitions, topic.replication_factor) != (
        BY_DEFAULT,
        BY_DEFAULT,
    ):
        raise Refused(
            "Both numPartitions or replicationFactor and replicasAssignments were set. Both cannot be used at the same"
            " time."
        )
    replicas = None if topic.assignments else (yield from _spread(context, topic, sum(made.values())))
    topic_admin.check_new_name(topic.name, [*context.topics, *made])
    if replicas is None:
        replicas = topic_admin.requested_replicas(
            [(each.partition_index, each.broker_ids) for each in topic.assignments]
        )
    configs = {config.name: ConfigEntry(config.name, config.value or "") for config in topic.configs}
    for entry in configs.values():
        check_config(entry)
    check_lags(configs.values(), context.settings)
    return replicas, tuple(configs.values())


def _created_configs(context: ControllerContext, configs: tuple[ConfigEntry, ...]) -> tuple[CreatedConfig, ...]:
    """Return all settings of a new topic, as in DescribeConfigs."""
    return tuple(
        CreatedConfig(each.name, each.value, each.read_only, each.config_source, each.is_sensitive)
        for each in describe_topic(context.settings, configs)
    )


def _spread(context: ControllerContext, topic: CreatableTopic, made: int) -> Flow[tuple[topic_admin.Replicas, ...]]:
    """Return the replicas of a new topic's partitions, assigned from the start broker of rule 3.

    At most SLICE partitions are assigned in one turn. Defaults for the partition count and the replication factor come
    from the settings. `made` is the number of partitions that this request has created so far.
    """
    settings = context.settings
    partitions = settings.num_partitions if topic.num_partitions == BY_DEFAULT else topic.num_partitions
    factor = settings.default_replication_factor if topic.replication_factor == BY_DEFAULT else topic.replication_factor
    start = (len(context.assignments) + made) % max(1, len(context.brokers))
    racks = context.racks()
    planned = topic_admin.new_replicas(racks, min(partitions, SLICE), factor, start, start)
    topic_admin.check_size(partitions)

    def more(first: int, count: int) -> Sequence[topic_admin.Replicas]:
        return assign(racks, count, factor, start, start + (first - 1) // len(racks), first)

    return (yield from _extend_plan(planned, partitions, more))


def _extend_plan(
    planned: Sequence[topic_admin.Replicas], partitions: int, more: Callable[[int, int], Sequence[topic_admin.Replicas]]
) -> Flow[tuple[topic_admin.Replicas, ...]]:
    """Return the replicas of `partitions` partitions: use `planned` for the first ones and plan the rest in slices.

    Args:
        planned: Replicas of the first partitions.
        more: Returns the replicas of further partitions. Its arguments are the number of partitions that are already
            planned and the number of partitions to plan.
    """
    replicas = list(planned)
    yield from for_each(
        range(len(planned), partitions), lambda numbers: replicas.extend(more(numbers[0], len(numbers)))
    )
    return tuple(replicas)


def delete_topics(context: ControllerContext, request: DeleteTopicsRequest) -> Flow[Message | DelayedResponse]:
    """Handle DeleteTopics, by the topics' names or ids.

    The error code for a topic that is queued for deletion is UNKNOWN_TOPIC_OR_PARTITION. As in Kafka 3.9.1, the
    response has a topic's id only if the request has it.
    """
    if not context.settings.delete_topic_enable:
        code = errors.TOPIC_DELETION_DISABLED if request.version >= DELETION_DISABLED_SINCE else errors.INVALID_REQUEST
        return API_BY_REQUEST[DeleteTopicsRequest].refusal(request, code)

    def delete(topic: DeletableTopic) -> Flow[DeletedTopic]:
        if (topic.name is None) == (not topic.topic_id):
            return DeletedTopic(topic.name or "", errors.INVALID_REQUEST, topic.topic_id)
        name, named = topic.name or "", context.topics_by_id.get(topic.topic_id, [])
        if not name:
            if len(named) != 1:
                return DeletedTopic("", errors.UNKNOWN_TOPIC_ID, topic.topic_id)
            (name,) = named
        if name not in context.topics or name in context.queued:
            # As in Kafka, a queued topic counts as unknown: Kafka looks the topic up in the broker's metadata cache,
            # and UpdateMetadata with leader -2 has removed it from this cache.
            return DeletedTopic(name, errors.UNKNOWN_TOPIC_OR_PARTITION, topic.topic_id)
        yield from ask(zookeeper.RequestTopicDeletion(name, context.epoch_zk_version))
        return DeletedTopic(name, errors.NONE, topic.topic_id)

    topics = deletable_topics(request)
    results: dict[DeletableTopic, DeletedTopic] = {}
    for topic in dict.fromkeys(topics):
        results[topic] = yield from _result(context, DeletedTopic, topic.name or "", delete(topic))
    deleted = dict.fromkeys([each.name for each in results.values() if each.error_code == errors.NONE])
    expected = tuple([ExpectedTopicState(name) for name in deleted])
    return _await_topics(
        DeleteTopicsResponse(tuple([results[topic] for topic in topics])), expected, request.timeout_ms
    )


def create_partitions(context: ControllerContext, request: CreatePartitionsRequest) -> Flow[Message | DelayedResponse]:
    """Handle CreatePartitions: add partitions to topics, or only validate the request."""
    expected: list[ExpectedTopicState] = []

    def grow(topic: GrowingTopic) -> Flow[GrownTopic]:
        if topic.name in context.queued:
            raise Refused("The topic is queued for deletion.", errors.INVALID_TOPIC)
        found = yield from ask(zookeeper.GetAssignments((topic.name,), watch=False))
        if not found.topics:
            raise Refused(f"The topic '{topic.name}' does not exist.", errors.UNKNOWN_TOPIC_OR_PARTITION)
        (described,) = found.topics
        added = topic_admin.number_partitions(
            (yield from _growth(context, described, topic)), first=len(described.partitions)
        )
        if not request.validate_only:
            known = context.topic_ids.get(topic.name)
            whole = zookeeper.TopicAssignment(topic.name, described.partitions + added, described.topic_id or known)
            yield from ask(zookeeper.SetAssignments((whole,), context.epoch_zk_version))
            expected.append(ExpectedTopicState(topic.name, tuple(number for number, _ in added)))
        return GrownTopic(topic.name, errors.NONE)

    twice = _named_twice([topic.name for topic in request.topics])
    results = [GrownTopic(name, errors.INVALID_REQUEST, "Duplicate topic in request.") for name in twice]
    for topic in request.topics:
        if topic.name not in twice:
            results.append((yield from _result(context, GrownTopic, topic.name, grow(topic))))
    return _await_topics(CreatePartitionsResponse(tuple(results)), tuple(expected), request.timeout_ms)


def _growth(
    context: ControllerContext, described: zookeeper.TopicAssignment, topic: GrowingTopic
) -> Flow[Sequence[topic_admin.Replicas]]:
    """Return the replicas of the added partitions: those that the client chose, or new ones planned in slices."""
    racks, existing = context.racks(), len(described.partitions)
    if topic.assignments is not None:
        return topic_admin.further_replicas(
            described, topic.count, racks, [each.broker_ids for each in topic.assignments]
        )
    topic_admin.check_size(topic.count)
    planned = topic_admin.further_replicas(described, min(topic.count, existing + SLICE), racks, None)
    partition_0 = described.partitions[0].assignment.replicas
    return (
        yield from _extend_plan(
            planned, topic.count - existing, lambda first, count: extend(racks, partition_0, existing, count, first)
        )
    )


# ------------------------------------------------------------------------------------------------------- all requests


def _result(context: ControllerContext, kind: AnyMessage, name: str, work: Flow[AnyMessage]) -> Flow[AnyMessage]:
    """Run the handler of one topic; return its result or its error (rule 2)."""
    try:
        return (yield from work)
    except Refused as refused:
        log.info("%s Rejecting a request for topic %s: %s", context.tag, name, refused)
        fields = {} if kind is DeletedTopic else {"error_message": str(refused)}
        return kind(name, refused.code, **fields)
    except AskFailed as error:
        log.error("%s Failed to handle a client's request about topic %s: %s", context.tag, name, passing(error))
        return kind(name, errors.UNKNOWN_SERVER_ERROR)


def _await_topics(
    response: Message, expected: tuple[ExpectedTopicState, ...], timeout_ms: int
) -> Message | DelayedResponse:
    return DelayedResponse(response, expected, timeout_ms) if expected else response


def _named_twice(names: list[str]) -> list[str]:
    return [name for name, times in Counter(names).items() if times > 1]


def _exists(name: str) -> Refused:
    return Refused(f"Topic '{name}' already exists.", errors.TOPIC_ALREADY_EXISTS)
