"""AlterConfigs: replace all config overrides of resources (broker.md 6.4)."""

from __future__ import annotations

from messages.acls import Operation
from messages.apis.declaration import CONFIGS, Api, each_resource, on_configs
from messages.apis.describe_configs import TOPIC
from messages.vocabulary import Message, message

SET, DELETE, APPEND, SUBTRACT = range(4)
"""Operations on one config override."""


@message
class ConfigChange(Message):
    """A change of one config: the operation and the value; AlterConfigs only uses the operation SET.

    The listener that receives a secret puts a seal in its place, because traces store requests.
    """

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


API = Api(
    key=33,
    versions=(0, 2),
    request=AlterConfigsRequest,
    response=AlterConfigsResponse,
    answerer=CONFIGS,
    access=(*on_configs(Operation.ALTER_CONFIGS, "responses"),),
    codes="NONE UNKNOWN_TOPIC_OR_PARTITION INVALID_REQUEST INVALID_CONFIG",
    sample=lambda about: AlterConfigsRequest(
        1, (ChangedResource(TOPIC, about.partition.topic, (ConfigChange("retention.ms", "900000000"),)),), True
    ),
    odd="resource_name=absent value=soon resource_type=4;resource_name=unknown;name=num.replica.fetchers;value=1",
    refuse=each_resource(AlterConfigsResponse, AlteredResource),
)
