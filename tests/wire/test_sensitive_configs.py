"""A request that creates a topic is read without the values of sensitive settings, because traces store it."""

from __future__ import annotations

from messages.apis.create_topics import CreatableConfig, CreatableTopic, CreateTopicsRequest
from messages.sensitive_configs import MASK
from messages.wire import decode_request, encode_request


def test_a_new_topic_s_sensitive_config_is_not_read() -> None:
    configs = (CreatableConfig("my.password", "hunter2"), CreatableConfig("retention.ms", "5"))
    request = CreateTopicsRequest(5, (CreatableTopic("t", 1, 1, configs=configs),), 1000)
    _, decoded = decode_request(encode_request(request, 1, "client")[4:])
    assert decoded.topics[0].configs == (CreatableConfig("my.password", MASK), CreatableConfig("retention.ms", "5"))
