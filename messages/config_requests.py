"""What admin clients ask about configurations: DescribeConfigs, AlterConfigs, IncrementalAlterConfigs (broker.md 6.2).

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
    """Of what the configuration is asked for: the settings of these names (None: all)."""

    resource_type: int
    resource_name: str
    configuration_keys: tuple[str, ...] | None = None


@message
class DescribeConfigsRequest:
    """Client to any broker (of a broker's own: to that one): how is it configured (API key 32)?"""

    version: int
    resources: tuple[DescribeConfigsResource, ...]
    include_synonyms: bool = False
    include_documentation: bool = False


@message
class ConfigSynonym:
    """A place where a value is said; the first one counts."""

    name: str
    value: str | None
    source: int


@message
class DescribedConfig:
    """One setting. `config_type` is the type of its value, as Kafka numbers them."""

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
    """One resource's settings, or why there are none."""

    error_code: int
    error_message: str | None
    resource_type: int
    resource_name: str
    configs: tuple[DescribedConfig, ...] = ()


@message
class DescribeConfigsResponse:
    """The answer to DescribeConfigs."""

    results: tuple[DescribedResource, ...]
    throttle_time_ms: int = 0


@message
class ConfigChange:
    """One override, and what to do to it; AlterConfigs knows only SET."""

    name: str
    value: str | None
    config_operation: int = SET


@message
class ChangedResource:
    """One resource's overrides to be changed."""

    resource_type: int
    resource_name: str
    configs: tuple[ConfigChange, ...]


@message
class AlterConfigsRequest:
    """Client to any broker: these are all the overrides (API key 33)."""

    version: int
    resources: tuple[ChangedResource, ...]
    validate_only: bool = False


@message
class IncrementalAlterConfigsRequest:
    """Client to any broker: change these overrides, and leave the others (API key 44)."""

    version: int
    resources: tuple[ChangedResource, ...]
    validate_only: bool = False


@message
class AlteredResource:
    """What became of one resource's change."""

    error_code: int
    error_message: str | None
    resource_type: int
    resource_name: str


@message
class AlterConfigsResponse:
    """The answer to AlterConfigs, and to IncrementalAlterConfigs."""

    responses: tuple[AlteredResource, ...]
    throttle_time_ms: int = 0
