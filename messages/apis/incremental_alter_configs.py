"""IncrementalAlterConfigs: change some config overrides of resources (broker.md 6.4)."""

from __future__ import annotations

from messages.acls import Operation
from messages.apis.alter_configs import AlterConfigsResponse, AlteredResource, ChangedResource, ConfigChange
from messages.apis.declaration import CONFIGS, Api, each_resource, on_configs
from messages.apis.describe_configs import TOPIC
from messages.vocabulary import Message, message


@message
class IncrementalAlterConfigsRequest(Message):
    """A client's request to change some config overrides of resources (API key 44)."""

    version: int
    resources: tuple[ChangedResource, ...]
    validate_only: bool = False


API = Api(
    key=44,
    versions=(0, 1),
    request=IncrementalAlterConfigsRequest,
    response=AlterConfigsResponse,
    answerer=CONFIGS,
    access=(*on_configs(Operation.ALTER_CONFIGS, "responses"),),
    codes="NONE UNKNOWN_TOPIC_OR_PARTITION INVALID_REQUEST INVALID_CONFIG",
    sample=lambda about: IncrementalAlterConfigsRequest(
        1, (ChangedResource(TOPIC, about.partition.topic, (ConfigChange("retention.ms", "900000000"),)),), True
    ),
    odd="resource_name=absent value=soon resource_type=4;resource_name=1;name=num.replica.fetchers;value=1",
    refuse=each_resource(AlterConfigsResponse, AlteredResource),
)
