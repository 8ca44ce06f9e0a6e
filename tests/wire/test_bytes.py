"""Compare encoded messages with bytes written by hand from the field tables, and test special cases."""

from __future__ import annotations

import io

import pytest
from kafka.protocol.api_header import RequestHeader as ClientRequestHeader
from kafka.protocol.metadata import ApiVersionsResponse as ClientApiVersionsResponse
from kafka.protocol.metadata import MetadataResponse as ClientMetadataResponse

from messages import wire
from messages.apis import APIS
from messages.apis.api_versions import ApiVersionRange, ApiVersionsRequest, ApiVersionsResponse
from messages.apis.controlled_shutdown import ControlledShutdownRequest
from messages.apis.declaration import PartitionError
from messages.apis.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LiveLeader,
)
from messages.apis.metadata import MetadataRequest
from messages.apis.stop_replica import StopReplicaPartitionState, StopReplicaRequest
from messages.apis.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from messages.cluster import Endpoint, TopicPartition

GOLDEN = {
    "LeaderAndIsr v4": (
        LeaderAndIsrRequest(
            4,
            controller_id=1,
            controller_epoch=2,
            broker_epoch=3,
            partition_states=(
                LeaderAndIsrPartitionState(
                    TopicPartition("t", 5), 2, 1, 7, (1, 2), 9, (1, 2, 3), adding_replicas=(3,), is_new=True
                ),
            ),
            live_leaders=(LiveLeader(1, "h", 9092),),
        ),
        "0004 0004 0000002a 0002 6d65 00"  # key, version, correlation id, client id "me", no tags
        "00000001 00000002 0000000000000003"  # controller id and epoch, broker epoch
        "02 02 74 02 00000005 00000002 00000001 00000007"  # one topic "t", one partition: index, epochs and leader
        "03 00000001 00000002 00000009 04 00000001 00000002 00000003"  # isr, partition epoch, replicas
        "02 00000003 01 01 00 00"  # adding, removing, is new; no tags in partition and topic
        "02 00000001 02 68 00002384 00 00",  # one live leader h:9092; no tags in it and in the request
    ),
    "UpdateMetadata v6": (
        UpdateMetadataRequest(
            6,
            controller_id=1,
            controller_epoch=2,
            broker_epoch=3,
            partition_states=(
                UpdateMetadataPartitionState(TopicPartition("t", 5), 2, -2, 0, (1,), 0, (1, 2), offline_replicas=(2,)),
            ),
            live_brokers=(UpdateMetadataBroker(1, (Endpoint("L", "h", 9092, "SSL"),), rack=None),),
        ),
        "0006 0006 0000002a 0002 6d65 00"
        "00000001 00000002 0000000000000003"
        "02 02 74 02 00000005 00000002 fffffffe 00000000"  # leader -2: the topic is being deleted
        "02 00000001 00000000 03 00000001 00000002 02 00000002 00 00"  # isr, zk version, replicas, offline
        "02 00000001 02 00002384 02 68 02 4c 0001 00 00 00 00",  # broker 1: h:9092 L SSL, null rack; four times no tags
    ),
    "StopReplica v3": (
        StopReplicaRequest(
            3,
            controller_id=1,
            controller_epoch=2,
            broker_epoch=-1,
            partition_states=(
                StopReplicaPartitionState(TopicPartition("t", 5), -2, True),
                StopReplicaPartitionState(TopicPartition("u", 0), 4, False),
                StopReplicaPartitionState(TopicPartition("t", 6), -2, True),
            ),
        ),
        "0005 0003 0000002a 0002 6d65 00"
        "00000001 00000002 ffffffffffffffff"
        "03 02 74 03 00000005 fffffffe 01 00 00000006 fffffffe 01 00 00"  # "t": partitions 5 and 6
        "02 75 02 00000000 00000004 00 00 00 00",  # "u": partition 0
    ),
    "ControlledShutdown v0": (ControlledShutdownRequest(0, broker_id=5), "0007 0000 0000002a 00000005"),
    "ControlledShutdown v3": (
        ControlledShutdownRequest(3, broker_id=5, broker_epoch=6),
        "0007 0003 0000002a 0002 6d65 00 00000005 0000000000000006 00",
    ),
    "Metadata v1, all topics": (MetadataRequest(1, None), "0003 0001 0000002a 0002 6d65 ffffffff"),
    "Metadata v9, no topics": (
        MetadataRequest(9, (), allow_auto_topic_creation=False),
        "0003 0009 0000002a 0002 6d65 00 01 00 00 00 00",
    ),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_requests_written_out_by_hand(name: str) -> None:
    request, text = GOLDEN[name]
    payload = bytes.fromhex(text)
    assert wire.encode_request(request, 42, "me") == len(payload).to_bytes(4, "big") + payload
    header, read = wire.decode_request(payload)
    assert (header.correlation_id, header.client_id) == (42, "" if name == "ControlledShutdown v0" else "me")
    if name == "StopReplica v3":  # grouping by topic keeps the order in which topics and partitions first occur
        t5, u0, t6 = request.partition_states
        assert read.partition_states == (t5, t6, u0)
    else:
        assert read == request


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
        wire.decode_response(ApiVersionsRequest, 4, flexible[4:])


def test_leader_and_isr_responses_name_topics_by_id_from_v5() -> None:
    payload = bytes.fromhex("00000001 00 0000 02 000102030405060708090a0b0c0d0e0f 02 00000005 0038 00 00 00")
    error = PartitionError(TopicPartition("00010203-0405-0607-0809-0a0b0c0d0e0f", 5), 56)
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
        wire.encode_request(MetadataRequest(10, None), 1, "")
    with pytest.raises(wire.UnsupportedVersion):
        wire.encode_response(wire.RequestHeader(6, 9, 1, ""), UpdateMetadataResponse(0))


def test_the_response_classes_of_kafka_python_stay_its_own() -> None:
    for key, kind in ((3, ClientMetadataResponse), (18, ClientApiVersionsResponse)):
        frame = io.BytesIO(key.to_bytes(2, "big") + bytes.fromhex("0001 00000001 0000"))
        found = ClientRequestHeader.decode(frame).get_response_class()
        assert found.mro()[1] is kind
