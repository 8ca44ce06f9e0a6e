"""DescribeConfigs: the configs of topics and brokers, with their sources (broker.md 6.4)."""

from __future__ import annotations

from messages.acls import Operation
from messages.apis.declaration import CONFIGS, UNAUTHORIZED, Api, Binding, each_resource, on_configs
from messages.vocabulary import Message, message

TOPIC = 2
BROKER = 4
"""Resource types."""
DYNAMIC_TOPIC_CONFIG = 1
DYNAMIC_BROKER_CONFIG = 2
DYNAMIC_DEFAULT_BROKER_CONFIG = 3
STATIC_BROKER_CONFIG = 4
DEFAULT_CONFIG = 5
"""Sources of a config value: topic, broker, default of all brokers, server.properties, Kafka's default."""


@message
class DescribeConfigsResource(Message):
    """A resource to describe, and the names of the configs to return (None: all)."""

    resource_type: int
    resource_name: str
    configuration_keys: tuple[str, ...] | None = None


@message
class DescribeConfigsRequest(Message):
    """A client's request to describe configs (API key 32); a broker's configs are described only by that broker."""

    version: int
    resources: tuple[DescribeConfigsResource, ...]
    include_synonyms: bool = False
    include_documentation: bool = False


@message
class ConfigSynonym(Message):
    """A source of a config's value, such as the default; the first synonym of a config is in effect."""

    name: str
    value: str | None
    source: int


@message
class DescribedConfig(Message):
    """A config in a DescribeConfigs response; `config_type` is the number of its type."""

    name: str
    value: str | None
    read_only: bool
    config_source: int = -1
    is_sensitive: bool = False
    synonyms: tuple[ConfigSynonym, ...] = ()
    config_type: int = 0
    documentation: str | None = None


@message
class DescribedResource(Message):
    """The configs of one resource, or an error."""

    error_code: int
    error_message: str | None
    resource_type: int
    resource_name: str
    configs: tuple[DescribedConfig, ...] = ()


@message
class DescribeConfigsResponse(Message):
    """The response to DescribeConfigs."""

    results: tuple[DescribedResource, ...]
    throttle_time_ms: int = 0


def _is_default(config: DescribedConfig) -> bool:
    return config.config_source == DEFAULT_CONFIG


API = Api(
    key=32,
    versions=(0, 4),
    request=DescribeConfigsRequest,
    response=DescribeConfigsResponse,
    answerer=CONFIGS,
    access=(*on_configs(Operation.DESCRIBE_CONFIGS, "results"),),
    codes="NONE UNKNOWN_TOPIC_OR_PARTITION INVALID_REQUEST INVALID_TOPIC",
    sample=lambda about: DescribeConfigsRequest(
        3, (DescribeConfigsResource(TOPIC, about.partition.topic),), include_synonyms=True
    ),
    odd="resource_name=absent resource_name=bad/name resource_type=4;resource_name= resource_type=4;resource_name=0",
    refuse=each_resource(DescribeConfigsResponse, DescribedResource, UNAUTHORIZED),
    bindings={DescribedConfig: Binding(written={"is_default": _is_default})},
)
