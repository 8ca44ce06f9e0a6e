"""Admin requests about configs: DescribeConfigs, AlterConfigs, IncrementalAlterConfigs (broker.md 6.2).

As in `messages.requests`: one class for all versions.
"""

from __future__ import annotations

from messages.vocabulary import message

TOPIC = 2
BROKER = 4
"""Types of resources."""

DYNAMIC_TOPIC_CONFIG = 1
DYNAMIC_BROKER_CONFIG = 2
DYNAMIC_DEFAULT_BROKER_CONFIG = 3
STATIC_BROKER_CONFIG = 4
DEFAULT_CONFIG = 5
"""Where a value comes from: the override of the topic, the broker, all brokers; server.properties; Kafka's default."""

SET, DELETE, APPEND, SUBTRACT = range(4)
"""What is done to one override."""


@message
class DescribeConfigsResource:
    """A resource to describe, and the names of its configs (None: all)."""

    resource_type: int
    resource_name: str
    configuration_keys: tuple[str, ...] | None = None


@message
class DescribeConfigsRequest:
    """Client to any broker, or to the described broker: describe configs (API key 32)."""

    version: int
    resources: tuple[DescribeConfigsResource, ...]
    include_synonyms: bool = False
    include_documentation: bool = False


@message
class ConfigSynonym:
    """A source of a config value; the first synonym is in effect."""

    name: str
    value: str | None
    source: int


@message
class DescribedConfig:
    """One config; `config_type` is Kafka's number of its type."""

    name: str
    value: str | None
    read_only: bool
    config_source: int = -1
    is_sensitive: bool = False
    synonyms: tuple[ConfigSynonym, ...] = ()
    config_type: int = 0
    documentation: str | None = None


@message
class DescribedResource:
    """The configs of a resource, or an error."""

    error_code: int
    error_message: str | None
    resource_type: int
    resource_name: str
    configs: tuple[DescribedConfig, ...] = ()


@message
class DescribeConfigsResponse:
    """The response to DescribeConfigs."""

    results: tuple[DescribedResource, ...]
    throttle_time_ms: int = 0


@message
class ConfigChange:
    """A config and its operation; AlterConfigs uses only SET."""

    name: str
    value: str | None
    config_operation: int = SET


@message
class ChangedResource:
    """The config changes of a resource."""

    resource_type: int
    resource_name: str
    configs: tuple[ConfigChange, ...]


@message
class AlterConfigsRequest:
    """Client to any broker: replace all overrides of resources (API key 33)."""

    version: int
    resources: tuple[ChangedResource, ...]
    validate_only: bool = False


@message
class IncrementalAlterConfigsRequest:
    """Client to any broker: change some overrides of resources (API key 44)."""

    version: int
    resources: tuple[ChangedResource, ...]
    validate_only: bool = False


@message
class AlteredResource:
    """The result for one resource."""

    error_code: int
    error_message: str | None
    resource_type: int
    resource_name: str


@message
class AlterConfigsResponse:
    """The response to AlterConfigs and IncrementalAlterConfigs."""

    responses: tuple[AlteredResource, ...]
    throttle_time_ms: int = 0
