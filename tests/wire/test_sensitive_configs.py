"""Requests that change configs are read without the values of sensitive settings, because traces store them."""

from __future__ import annotations

import pytest

from messages.apis.alter_configs import AlterConfigsRequest, ChangedResource, ConfigChange
from messages.apis.create_topics import CreatableConfig, CreatableTopic, CreateTopicsRequest
from messages.apis.incremental_alter_configs import IncrementalAlterConfigsRequest
from messages.sensitive_configs import MASK
from messages.wire import decode_request, encode_request

BROKER = 4


@pytest.mark.parametrize("kind", [AlterConfigsRequest, IncrementalAlterConfigsRequest])
@pytest.mark.parametrize(
    ("name", "value", "read"),
    [
        ("ssl.key.password", "hunter2", MASK),
        ("listener.name.x.ssl.keystore.key", "PEM", MASK),
        ("sasl.jaas.config", "module required;", MASK),
        ("delegation.token.master.key", "key", MASK),
        ("ssl.key.password", "", ""),
        ("ssl.key.password", None, None),
        ("log.retention.ms", "1000", "1000"),
    ],
)
def test_the_value_of_a_sensitive_config_is_not_read(
    kind: type[AlterConfigsRequest | IncrementalAlterConfigsRequest], name: str, value: str | None, read: str | None
) -> None:
    for version in (0, 1):
        request = kind(version, (ChangedResource(BROKER, "0", (ConfigChange(name, value),)),))
        _, decoded = decode_request(encode_request(request, 1, "client")[4:])
        assert decoded.resources[0].configs == (ConfigChange(name, read),)


def test_a_new_topic_s_sensitive_config_is_not_read() -> None:
    configs = (CreatableConfig("my.password", "hunter2"), CreatableConfig("retention.ms", "5"))
    request = CreateTopicsRequest(5, (CreatableTopic("t", 1, 1, configs=configs),), 1000)
    _, decoded = decode_request(encode_request(request, 1, "client")[4:])
    assert decoded.topics[0].configs == (CreatableConfig("my.password", MASK), CreatableConfig("retention.ms", "5"))
