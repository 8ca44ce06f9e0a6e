"""Encode and decode special cases that `test_oracle.py` does not compare: tags, versions, refused values."""

from __future__ import annotations

import pytest

from messages import wire
from messages.apis import APIS
from messages.apis.api_versions import ApiVersionRange, ApiVersionsRequest, ApiVersionsResponse
from messages.apis.controlled_shutdown import ControlledShutdownRequest
from messages.apis.declaration import PartitionError
from messages.apis.leader_and_isr import LeaderAndIsrResponse
from messages.apis.metadata import MetadataRequest
from messages.apis.stop_replica import StopReplicaPartitionState, StopReplicaRequest
from messages.apis.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from messages.cluster import Endpoint, TopicId, TopicPartition
from messages.vocabulary import evolve


def test_the_all_topics_request_of_librdkafka_is_read_as_apache_reads_it() -> None:
    """Its four-byte zero count and true flag are read as a null list, false flags, an unknown tag and a spare byte."""
    frame = bytes.fromhex("0003 0009 00000007 0007 72646b61666b61 00 00000000 01 00 00 00")
    header, request = wire.decode_request(frame)
    assert header == wire.RequestHeader(3, 9, 7, "rdkafka")
    assert request == MetadataRequest(9, None, allow_auto_topic_creation=False)


def test_unknown_and_known_tags_are_skipped() -> None:
    tagless = bytes.fromhex("0006 0008 00000001 0000 00 00000001 00 00000002 0000000000000003 01 01 00")
    request = UpdateMetadataRequest(8, 1, 2, 3, (), ())
    assert wire.encode_request(request, 1, "")[4:] == tagless
    tagged = tagless[:-1] + bytes.fromhex("02 00 01 02 63 03 616263")  # tag 0 (type) = 2, tag 99 = "abc"
    assert wire.decode_request(tagged)[1] == request
    header_tag = bytes.fromhex("0007 0003 00000001 0000 01 05 02 6869 00000005 0000000000000006 00")
    assert wire.decode_request(header_tag)[1] == ControlledShutdownRequest(3, 5, 6)


def test_api_versions_is_answered_in_any_version() -> None:
    far = bytes.fromhex("0012 0063 00000007 0007 72646b61666b61 00 00")
    header, request = wire.decode_request(far)
    assert (header, request) == (wire.RequestHeader(18, 99, 7, "rdkafka"), ApiVersionsRequest(99))
    refusal = ApiVersionsResponse(35, (ApiVersionRange(18, 0, 3),))
    frame = wire.encode_response(header, refusal)
    assert frame.hex(" ", 2) == "0000 0010 0000 0007 0023 0000 0001 0012 0000 0003"  # layout and header of version 0
    assert wire.decode_response(ApiVersionsRequest, 99, frame[4:]) == (7, refusal)
    assert wire.decode_response(ApiVersionsRequest, 3, frame[4:]) == (7, refusal)
    flexible = wire.encode_response(wire.RequestHeader(18, 3, 7, ""), ApiVersionsResponse(0, ()))
    assert flexible.hex(" ", 2) == "0000 000c 0000 0007 0000 0100 0000 0000", "no tags in the header, tags in the body"
    with pytest.raises(wire.UnsupportedVersion):
        wire.decode_response(ApiVersionsRequest, 5, flexible[4:])


def test_update_metadata_has_topic_ids_from_v7() -> None:
    state = UpdateMetadataPartitionState(TopicPartition("topic", 0), 1, 0, 1, (0,), 0, (0,))
    request = UpdateMetadataRequest(7, 0, 1, -1, (state,), ())
    frame = wire.encode_request(request, 7, "c")[4:]
    with_id = frame.replace(b"topic" + bytes(16), b"topic" + bytes(range(16)))
    assert wire.decode_request(frame)[1] == request
    assert wire.decode_request(with_id)[1] == evolve(request, topic_ids=(TopicId("topic", "AAECAwQFBgcICQoLDA0ODw"),))


def test_leader_and_isr_responses_name_topics_by_id_from_v5() -> None:
    payload = bytes.fromhex("00000001 00 0000 02 000102030405060708090a0b0c0d0e0f 02 00000005 0038 00 00 00")
    error = PartitionError(TopicPartition("AAECAwQFBgcICQoLDA0ODw", 5), 56)
    assert wire.decode_response(4, 5, payload) == (1, LeaderAndIsrResponse(0, (error,)))
    ours = wire.encode_response(wire.RequestHeader(4, 5, 1, ""), LeaderAndIsrResponse(0, (error,)))
    assert wire.decode_response(4, 5, ours[4:]) == (
        1,
        LeaderAndIsrResponse(0, (PartitionError(TopicPartition("", 5), 56),)),
    )


def test_update_metadata_v0_knows_only_the_first_plaintext_endpoint() -> None:
    def request(*endpoints: Endpoint) -> UpdateMetadataRequest:
        return UpdateMetadataRequest(0, 1, 2, -1, (), (UpdateMetadataBroker(1, endpoints),))

    frame = wire.encode_request(
        request(Endpoint("S", "s", 1, "SSL"), Endpoint("A", "a", 2), Endpoint("B", "b", 3)), 1, ""
    )
    assert wire.decode_request(frame[4:])[1] == request(Endpoint("PLAINTEXT", "a", 2))
    with pytest.raises(wire.Unencodable, match="broker 1 has no PLAINTEXT endpoint"):
        wire.encode_request(request(Endpoint("S", "s", 1, "SSL")), 1, "")


UNENCODABLE = {
    "mixed deletion before v3": StopReplicaRequest(
        2,
        1,
        1,
        1,
        (
            StopReplicaPartitionState(TopicPartition("t", 0), delete_partition=True),
            StopReplicaPartitionState(TopicPartition("t", 1), delete_partition=False),
        ),
    ),
    "no topics in Metadata v0": MetadataRequest(0, ()),
    "an unknown security protocol": UpdateMetadataRequest(
        6, 1, 1, 1, (), (UpdateMetadataBroker(1, (Endpoint("L", "h", 1, "TLS"),)),)
    ),
    "a number too large for its field": ControlledShutdownRequest(3, 2**31),
    "a name too long for its field": MetadataRequest(1, ("t" * 2**15,)),
    "a name that is no Unicode": MetadataRequest(1, ("\ud800",)),
}


@pytest.mark.parametrize("name", UNENCODABLE)
def test_values_that_a_version_cannot_encode_are_refused(name: str) -> None:
    with pytest.raises(wire.Unencodable) as refusal:
        wire.encode_request(UNENCODABLE[name], 1, "me")
    assert isinstance(refusal.value, ValueError) and isinstance(refusal.value, wire.WireError)
    assert refusal.value.version == UNENCODABLE[name].version and refusal.value.what


def test_headers_that_do_not_fit_are_refused() -> None:
    with pytest.raises(wire.Unencodable):
        wire.encode_request(ControlledShutdownRequest(0, 1), 2**31, "")
    with pytest.raises(wire.Unencodable):
        wire.encode_request(ControlledShutdownRequest(3, 1), 2**31, "")
    with pytest.raises(wire.Unencodable):
        wire.encode_response(wire.RequestHeader(6, 6, 2**31, ""), UpdateMetadataResponse(0))
    with pytest.raises(wire.Unencodable, match="LeaderAndIsr v4: UpdateMetadataResponse does not answer it"):
        wire.encode_response(wire.RequestHeader(4, 4, 1, ""), UpdateMetadataResponse(0))


def test_refusals_name_the_api_and_the_version() -> None:
    for api in APIS:
        if api.name == "ApiVersions":
            continue
        header = api.key.to_bytes(2, "big") + (api.max_version + 1).to_bytes(2, "big") + bytes(20)
        with pytest.raises(
            wire.UnsupportedVersion, match=f"{api.name} v{api.max_version + 1}: versions {api.min_version} to"
        ):
            wire.decode_request(header)
        with pytest.raises(wire.UnsupportedVersion):
            wire.decode_response(api.key, api.max_version + 1, bytes(20))
    with pytest.raises(wire.UnknownApi, match="API 999 v0"):
        wire.decode_request(bytes.fromhex("03e7 0000") + bytes(20))
    with pytest.raises(wire.UnknownApi, match="API 999"):
        wire.decode_response(999, 0, bytes(20))
    with pytest.raises(wire.UnknownApi, match="Endpoint is not a request"):
        wire.encode_request(Endpoint("L", "h", 1), 1, "")
    with pytest.raises(wire.UnsupportedVersion):
        wire.encode_request(MetadataRequest(13, None), 1, "")
    with pytest.raises(wire.UnsupportedVersion):
        wire.encode_response(wire.RequestHeader(6, 9, 1, ""), UpdateMetadataResponse(0))
