"""What an authorizer makes of each API's requests: refused, handled in part, and shown in part."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from actors.core.security.access import Authorizer
from messages.acls import Acl, AclResource, AclsChanged, Operation, Permission, ResourceAcls, ResourceType
from messages.apis import API_BY_REQUEST, APIS
from messages.apis.declaration import OPEN, Api, Target
from messages.apis.fetch import CONSUMER, FetchPartition, FetchRequest
from messages.apis.metadata import MetadataRequest, MetadataResponse, MetadataTopic
from messages.apis.offset_fetch import FetchedOffset, OffsetFetchRequest, OffsetFetchResponse
from messages.apis.update_metadata import UpdateMetadataRequest
from messages.apis.write_txn_markers import WriteTxnMarkersRequest
from messages.cluster import TopicPartition
from tests.broker.harness import settings

SECURED = settings(
    "/nowhere", authorizer_class_name="kafka.security.authorizer.AclAuthorizer", super_users=("User:admin",)
)
HOST = "127.0.0.1"


def authorizer(*granted: tuple[int, str, int], **fields: Any) -> Authorizer:
    """Return an authorizer in which alice has these permissions: resource type, name, operation."""
    judging = Authorizer(attrs.evolve(SECURED, **fields))
    acls = (
        ResourceAcls(AclResource(kind, name), (Acl("User:alice", "*", op, Permission.ALLOW),))
        for kind, name, op in granted
    )
    judging.change(AclsChanged(tuple(acls), all=True))
    return judging


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
def test_no_api_is_forgotten_and_none_lets_a_stranger_in(api: Api) -> None:
    assert api.access is not None, "each API declares what it needs, or OPEN"
    request = api.sample(Target())
    judged = authorizer().judge(request, "User:alice", HOST, True)
    if api.access == OPEN:
        assert judged.request == request and judged.refused is None
        return
    assert judged.refused is not None
    entries = [access.entries for access in api.access if access.entries]
    if judged.request is None:
        assert type(judged.refusal) is api.response
    else:
        assert not any(getattr(judged.request, field) for field in entries), "what is left has nothing refused"
    assert authorizer().judge(request, "User:admin", HOST, True).request == request


def test_the_allowed_part_is_handled_and_the_rest_is_added_to_the_response() -> None:
    judging = authorizer((ResourceType.TOPIC, "mine", Operation.READ))
    judged = judging.judge(MetadataRequest(8, ("mine", "other"), True), "User:alice", HOST, True)
    assert judged.request == MetadataRequest(8, ("mine",), False), "a topic without Create is not created"
    assert judged.edit is not None
    found = MetadataResponse((), "c", 1, (MetadataTopic(0, "mine", False, ()),))
    response, _ = judged.edit(found, ())
    assert [(topic.name, topic.error_code) for topic in response.topics] == [("mine", 0), ("other", 29)]
    nothing = judging.judge(MetadataRequest(8, ("other",), False), "User:alice", HOST, True)
    assert nothing.request == MetadataRequest(8, (), False), "everyone gets the brokers"


def test_names_are_hidden_from_a_client_that_asks_for_all() -> None:
    judging = authorizer((ResourceType.TOPIC, "mine", Operation.READ), (ResourceType.GROUP, "g", Operation.READ))
    judged = judging.judge(MetadataRequest(8, None, False), "User:alice", HOST, True)
    all_topics = tuple(MetadataTopic(0, name, False, ()) for name in ("mine", "other"))
    assert judged.edit is not None
    response, _ = judged.edit(MetadataResponse((), "c", 1, all_topics), ())
    assert [topic.name for topic in response.topics] == ["mine"]
    judged = judging.judge(OffsetFetchRequest(7, "g", None), "User:alice", HOST, True)
    assert judged.edit is not None
    offsets = tuple(FetchedOffset(TopicPartition(name, 0), 5) for name in ("mine", "other"))
    response, _ = judged.edit(OffsetFetchResponse(0, offsets), ())
    assert [each.partition.topic for each in response.partitions] == ["mine"]


def test_only_an_acl_or_a_super_user_may_control_on_a_listener_of_clients() -> None:
    request = UpdateMetadataRequest(6, 0, 1, -1, (), ())
    everyone = authorizer(allow_everyone_if_no_acl_found=True)
    for each in (request, API_BY_REQUEST[WriteTxnMarkersRequest].sample(Target())):
        assert everyone.judge(each, "User:alice", HOST, True).request is not None
        assert everyone.judge(each, "User:alice", HOST, False).request is None
    acting = authorizer((ResourceType.CLUSTER, "kafka-cluster", Operation.CLUSTER_ACTION))
    assert acting.judge(request, "User:alice", HOST, False).request is not None
    assert API_BY_REQUEST[UpdateMetadataRequest].control


def test_a_topic_id_does_not_get_past_a_denial() -> None:
    judging = authorizer((ResourceType.TOPIC, "*", Operation.READ))
    partition = FetchPartition(TopicPartition("Hb0mVVjhSMeZ4Ah4Wc3JqA", 0), 0, 100)
    by_name = judging.judge(FetchRequest(12, CONSUMER, 0, 0, (partition,)), "User:alice", HOST, True)
    by_id = judging.judge(FetchRequest(13, CONSUMER, 0, 0, (partition,)), "User:alice", HOST, True)
    assert (by_name.refused, by_id.request) == (None, None)
