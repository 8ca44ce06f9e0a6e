"""The requests that describe and alter configs: DescribeConfigs, AlterConfigs, IncrementalAlterConfigs (broker.md 6.2).

As in `messages.requests`, one class covers all versions.
"""

from __future__ import annotations

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

SET, DELETE, APPEND, SUBTRACT = range(4)
"""Operations on one config override."""


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


@message
class ConfigChange(Message):
    """A change of one config: the operation and the value; AlterConfigs only uses the operation SET."""

    name: str
    value: str | None
    config_operation: int = SET


@message
class ChangedResource(Message):
    """The config changes that a client requests for one resource."""

    resource_type: int
    resource_name: str
    configs: tuple[ConfigChange, ...]


@message
class AlterConfigsRequest(Message):
    """A client's request to replace all config overrides of resources (API key 33)."""

    version: int
    resources: tuple[ChangedResource, ...]
    validate_only: bool = False


@message
class IncrementalAlterConfigsRequest(Message):
    """A client's request to change some config overrides of resources (API key 44)."""

    version: int
    resources: tuple[ChangedResource, ...]
    validate_only: bool = False


@message
class AlteredResource(Message):
    """The result of changing the configs of one resource."""

    error_code: int
    error_message: str | None
    resource_type: int
    resource_name: str


@message
class AlterConfigsResponse(Message):
    """The response to AlterConfigs and IncrementalAlterConfigs."""

    responses: tuple[AlteredResource, ...]
    throttle_time_ms: int = 0
