"""What an authorizer makes of each API's requests: refused, handled in part, and shown in part."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from actors.core.security.access import Authorizer
from messages.acls import Acl, AclResource, AclsChanged, Operation, Permission, ResourceAcls, ResourceType
from messages.apis import API_BY_REQUEST, APIS
from messages.apis.create_topics import (
    CreatableTopic,
    CreatedConfig,
    CreatedTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from messages.apis.declaration import OPEN, Api, PartitionError, Target
from messages.apis.delegation_tokens import (
    CreateDelegationTokenRequest,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
    DescribedToken,
    TokenPrincipal,
)
from messages.apis.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from messages.apis.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from messages.apis.fetch import CONSUMER, FetchPartition, FetchRequest, FetchResponse
from messages.apis.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse, FoundCoordinator
from messages.apis.metadata import MetadataRequest, MetadataResponse, MetadataTopic
from messages.apis.offset_delete import OffsetDeletePartition, OffsetDeleteRequest, OffsetDeleteResponse
from messages.apis.offset_fetch import (
    FetchedOffset,
    OffsetFetchedGroup,
    OffsetFetchGroup,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from messages.apis.update_metadata import UpdateMetadataPartitionState, UpdateMetadataRequest
from messages.apis.write_txn_markers import WriteTxnMarkersRequest
from messages.cluster import LEADER_DURING_DELETE, TopicId, TopicPartition
from messages.response_codes import codes_of
from messages.wire import RequestHeader, decode_response, encode_response
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
    if api.access == OPEN or isinstance(request, CreateDelegationTokenRequest):  # a token of its own needs nothing
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


G, T, C = ResourceType.GROUP, ResourceType.TOPIC, ResourceType.CLUSTER


@pytest.mark.parametrize(
    ("request_", "left", "answer", "codes"),
    [
        (
            OffsetFetchRequest(8, groups=(OffsetFetchGroup("mine", None), OffsetFetchGroup("other", None))),
            OffsetFetchRequest(8, groups=(OffsetFetchGroup("mine", None),)),
            OffsetFetchResponse(0, groups=(OffsetFetchedGroup("mine"),)),
            lambda response: {each.group_id: each.error_code for each in response.groups},
        ),
        (
            FindCoordinatorRequest(4, key_type=0, coordinator_keys=("mine", "other")),
            FindCoordinatorRequest(4, key_type=0, coordinator_keys=("mine",)),
            FindCoordinatorResponse(0, coordinators=(FoundCoordinator("mine"),)),
            lambda response: {each.key: each.error_code for each in response.coordinators},
        ),
    ],
    ids=lambda each: type(each).__name__,
)
def test_of_several_groups_each_is_judged(request_: Any, left: Any, answer: Any, codes: Any) -> None:
    judged = authorizer((G, "mine", Operation.READ)).judge(request_, "User:alice", HOST, True)
    assert judged.request == left and judged.edit is not None
    assert codes(judged.edit(answer, ())[0]) == {"mine": 0, "other": 30}
    assert set(codes(authorizer().judge(request_, "User:alice", HOST, True).refusal).values()) == {30}


def test_of_several_topics_whose_offsets_are_deleted_each_is_judged() -> None:
    request = OffsetDeleteRequest(0, "g", tuple(OffsetDeletePartition(TopicPartition(name, 0)) for name in "ab"))
    judged = authorizer((G, "g", Operation.DELETE), (T, "a", Operation.READ)).judge(request, "User:alice", HOST, True)
    assert judged.edit is not None
    response, _ = judged.edit(OffsetDeleteResponse(0, (PartitionError(TopicPartition("a", 0), 0),)), ())
    assert [(each.partition.topic, each.error_code) for each in response.partitions] == [("a", 0), ("b", 29)]
    refusal = authorizer((T, "a", Operation.READ)).judge(request, "User:alice", HOST, True).refusal
    assert refusal == OffsetDeleteResponse(30)


@pytest.mark.parametrize(
    ("granted", "seen"), [(Operation.CREATE, (-1, ())), (Operation.ALL, (3, (CreatedConfig("a", "1"),)))]
)
def test_a_created_topic_shows_its_configs_to_a_client_that_may_describe_them(granted: int, seen: Any) -> None:
    request = CreateTopicsRequest(5, (CreatableTopic("t", 3, 1),), 1000)
    judged = authorizer((T, "t", granted)).judge(request, "User:alice", HOST, True)
    found = CreateTopicsResponse((CreatedTopic("t", 0, None, 3, 1, (CreatedConfig("a", "1"),)),))
    (topic,) = (found if judged.edit is None else judged.edit(found, ())[0]).topics
    assert (topic.error_code, topic.num_partitions, topic.configs) == (0, *seen)
    assert topic.topic_config_error_code == (29 if seen[0] < 0 else 0)


@pytest.mark.parametrize("version", [4, 5, 7])
def test_a_client_that_may_not_describe_the_configs_of_a_new_topic_gets_the_code(version: int) -> None:
    request = CreateTopicsRequest(version, tuple(CreatableTopic(name, 1, 1) for name in ("t", "there", "other")), 1000)
    judged = authorizer((T, "t", Operation.CREATE), (T, "there", Operation.CREATE)).judge(
        request, "User:alice", HOST, True
    )
    assert judged.edit is not None
    answered = CreateTopicsResponse((CreatedTopic("t", 0, None, 1, 1), CreatedTopic("there", 36, "it exists")))
    sent = encode_response(RequestHeader(19, version, 1, ""), judged.edit(answered, ())[0])
    seen: Any = decode_response(CreateTopicsRequest, version, sent[4:])[1]
    codes = [(each.name, each.error_code, each.topic_config_error_code) for each in seen.topics]
    hidden = 29 if version >= 5 else 0
    assert codes == [("t", 0, hidden), ("there", 36, 0), ("other", 29, hidden)]
    allowed = authorizer((T, "other", Operation.DESCRIBE_CONFIGS)).judge(request, "User:alice", HOST, True).refusal
    assert [each.topic_config_error_code for each in allowed.topics] == [29, 29, 0]


def test_a_client_learns_its_operations_if_it_asks() -> None:
    judging = authorizer((T, "t", Operation.READ), (C, "kafka-cluster", Operation.ALTER), (G, "g", Operation.ALL))
    for asked in (True, False):
        every, none = (3576, 8096, 328) if asked else (-(2**31),) * 3, -(2**31)
        flags = {f"include_{of}_authorized_operations": asked for of in ("cluster", "topic")}
        request = MetadataRequest(8, ("t",), False, **flags)
        found = MetadataResponse(
            (), "c", 1, (MetadataTopic(0, "t", False, (), topic_authorized_operations=every[0]),), every[1]
        )
        edit = judging.judge(request, "User:alice", HOST, True).edit
        response = found if edit is None else edit(found, ())[0]
        read_and_describe, alter_and_describe = 1 << 3 | 1 << 8, 1 << 7 | 1 << 8
        assert response.topics[0].topic_authorized_operations == (read_and_describe if asked else none)
        assert response.cluster_authorized_operations == (alter_and_describe if asked else none)
        groups = DescribeGroupsResponse((DescribedGroup(0, "g", authorized_operations=every[2]),))
        edit = judging.judge(DescribeGroupsRequest(3, ("g",), asked), "User:alice", HOST, True).edit
        assert (groups if edit is None else edit(groups, ())[0]) == groups
    stranger = judging.judge(DescribeClusterRequest(0, True), "User:bob", HOST, True)
    assert stranger.edit is not None
    assert (
        stranger.edit(DescribeClusterResponse(0, cluster_authorized_operations=8096), ())[
            0
        ].cluster_authorized_operations
        == 0
    )


def test_a_client_sees_tokens_that_it_owns_or_renews_and_those_it_may_describe() -> None:
    bob = TokenPrincipal("User", "bob")
    tokens = tuple(
        DescribedToken("User", owner, "User", owner, 0, 1, 2, id, renewers)
        for id, owner, renewers in (
            ("own", "alice", ()),
            ("renewed", "bob", (bob, TokenPrincipal("User", "alice"))),
            ("allowed", "bob", ()),
            ("other", "bob", (bob,)),
        )
    )
    judging = authorizer((ResourceType.DELEGATION_TOKEN, "allowed", Operation.DESCRIBE))
    judged = judging.judge(DescribeDelegationTokenRequest(2, None), "User:alice", HOST, True)
    assert judged.edit is not None
    response, _ = judged.edit(DescribeDelegationTokenResponse(0, tokens), ())
    assert [token.token_id for token in response.tokens] == ["own", "renewed", "allowed"]
    foreign = CreateDelegationTokenRequest(3, (), -1, "User", "bob")
    assert judging.judge(foreign, "User:alice", HOST, True).refusal.error_code == 65


def test_a_topic_id_counts_as_the_name_that_it_has() -> None:
    judging, known, secret, unknown = authorizer((ResourceType.TOPIC, "t", Operation.READ)), *(c * 22 for c in "KSU")
    ids = (TopicId("t", known), TopicId("secret", secret))
    judging.judge(UpdateMetadataRequest(7, 0, 1, 1, (), (), ids), "User:admin", HOST, True)

    def codes(*topics: str) -> list[int]:
        parts = tuple([FetchPartition(TopicPartition(each, 0), 0, 100) for each in topics])
        judged = judging.judge(FetchRequest(13, CONSUMER, 0, 0, parts), "User:alice", HOST, True)
        handled = [each.partition.topic for each in judged.request.partitions] if judged.request else []
        empty = FetchResponse(())
        response = judged.refusal if judged.edit is None else judged.edit(empty, ())[0]
        refused = {each.partition.topic: each.error_code for each in (response or empty).partitions}
        return [0 if each in handled else refused[each] for each in topics]

    assert codes(known, secret, unknown) == [0, 29, 100]
    assert codes(secret, unknown) == [29, 100]
    gone = UpdateMetadataPartitionState(TopicPartition("t", 0), 1, LEADER_DURING_DELETE, 0, (), 0, ())
    judging.judge(UpdateMetadataRequest(7, 0, 1, 1, (gone,), (), ids[:1]), "User:admin", HOST, True)
    assert codes(known) == [100]


@pytest.mark.parametrize("name", ["CreateTopics", "DeleteTopics", "CreatePartitions"])
def test_a_broker_that_is_not_the_controller_says_so_in_place_of_a_refusal(name: str) -> None:
    """Kafka asks whether it is the controller before it asks the authorizer."""
    api, judging = next(each for each in APIS if each.name == name), authorizer()
    request = api.sample(Target())
    for epoch, controller, wanted in ((1, SECURED.node_id, 29), (3, 90, 41), (2, SECURED.node_id, 41)):
        judging.judge(UpdateMetadataRequest(6, controller, epoch, 1, (), ()), "User:admin", HOST, True)
        judging.judge(UpdateMetadataRequest(6, SECURED.node_id, 99, 1, (), ()), "User:alice", HOST, True)
        code = next(each for each in codes_of(judging.judge(request, "User:alice", HOST, True).refusal) if each)
        assert code == wanted
    assert judging.judge(request, "User:admin", HOST, True).request == request
