"""A cluster with an authorizer: ACLs are created, read and deleted by requests, and decide about others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from actors.public.kafka_cluster import KafkaCluster
from messages.acls import Operation, PatternType, Permission, ResourceType
from messages.apis.acls import (
    AclCreation,
    CreateAclsRequest,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DescribeAclsRequest,
)
from messages.apis.metadata import MetadataRequest
from tests.waiting import until
from tests.wire_client import WireClient

EVERY = (ResourceType.ANY, None, None, None, Operation.ANY, Permission.ANY, PatternType.ANY)
ME = "User:ANONYMOUS"


@pytest.fixture(scope="module")
def clients() -> Iterator[tuple[WireClient, WireClient]]:
    """Yield a client of each of two brokers, on which everyone may use what has no ACL."""
    settings = {
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
    }
    with KafkaCluster(2, settings=settings) as cluster:
        cluster.create_topic("orders")
        places = (text.rpartition(":") for text in cluster.bootstrap_servers.split(","))
        one, two = (WireClient(host, int(port)) for host, _, port in places)
        with one, two:
            yield one, two


def codes(client: Any, *names: str) -> list[int]:
    return [topic.error_code for topic in client.call(MetadataRequest(8, names, False)).topics]


def test_an_acl_counts_on_every_broker_until_it_is_deleted(clients: tuple[WireClient, WireClient]) -> None:
    one, two = clients
    assert codes(one, "orders") == codes(two, "orders") == [0]
    denied = AclCreation(ResourceType.TOPIC, "ord", ME, "*", Operation.ALL, Permission.DENY, PatternType.PREFIXED)
    torn = AclCreation(ResourceType.TOPIC, "a/b", ME, "*", Operation.ALL, Permission.DENY)
    created: Any = one.call(CreateAclsRequest(2, (denied, torn)))
    assert [result.error_code for result in created.results] == [0, 42]
    assert codes(one, "orders") == [29], "the own listener knows it before the answer"
    until(lambda: codes(two, "orders") == [29])
    described: Any = two.call(DescribeAclsRequest(2, *EVERY))
    assert [(each.resource_name, each.pattern_type) for each in described.resources] == [("ord", PatternType.PREFIXED)]
    gone: Any = two.call(DeleteAclsRequest(2, (DeleteAclsFilter(*EVERY), DeleteAclsFilter(*EVERY))))
    assert [len(result.matching_acls) for result in gone.filter_results] == [1, 0]
    until(lambda: codes(one, "orders") == [0])
