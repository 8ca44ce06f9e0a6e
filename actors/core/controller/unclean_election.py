"""Handle config changes that permit unclean leader elections (controller.md 1.4.20, 1.4.21).

Rule: The handler does not find out which config changed. Each change makes it read the broker default and the configs
      of leaderless topics. A superfluous election attempt has no effect.

Kafka: `KafkaController.processTopicUncleanLeaderElectionEnable`, `processUncleanLeaderElectionEnable`, which
`TopicConfigHandler` and `DynamicLogConfig` call.
"""

from __future__ import annotations

from actors.core.controller.context import ControllerContext, Handler
from actors.core.controller.instructions import Enqueue
from actors.core.controller.partition_state_machine import UNCLEAN_ELECTION, is_true, trigger_online
from messages.events import ConfigChangeNotification, UncleanLeaderElectionEnable
from messages.flow.conversation import Flow, ask
from messages.zookeeper import (
    ALL_BROKERS,
    GetBrokerConfigs,
    GetTopicConfigs,
    StartWatching,
)


def handle_config_change(context: ControllerContext, event: ConfigChangeNotification) -> Flow[None]:
    """Handle a config change: elect leaders for leaderless topics that allow unclean elections."""
    yield from ask(StartWatching((ConfigChangeNotification.__name__,)))
    before = context.unclean_by_default
    yield from learn_default(context)
    if context.unclean_by_default and not before:
        yield Enqueue(UncleanLeaderElectionEnable())
    waiting = tuple(dict.fromkeys(tp.topic for tp in context.leaderless if tp.topic not in context.queued))
    if waiting:
        answer = yield from ask(GetTopicConfigs(waiting))
        for topic, entries, _ in answer.topics:
            if is_true(dict(entries).get(UNCLEAN_ELECTION, "")):
                yield from trigger_online(context, topic)


def elect_all_leaderless(context: ControllerContext, event: UncleanLeaderElectionEnable) -> Flow[None]:
    """Elect leaders for all leaderless partitions: unclean elections are now the default."""
    yield from trigger_online(context)


def learn_default(context: ControllerContext) -> Flow[None]:
    """Read and store the default for unclean elections.

    The override of this broker takes precedence over the cluster-wide override, which takes precedence over
    server.properties.
    """
    answer = yield from ask(GetBrokerConfigs((str(context.broker_id), ALL_BROKERS)))
    overrides = [dict(config.entries).get(UNCLEAN_ELECTION) for config in answer.brokers]
    context.set_unclean_default(next((is_true(each) for each in overrides if each is not None), None))


EVENTS: dict[type, Handler] = {
    ConfigChangeNotification: handle_config_change,
    UncleanLeaderElectionEnable: elect_all_leaderless,
}
