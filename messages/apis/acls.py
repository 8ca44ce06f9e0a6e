"""DescribeAcls, CreateAcls and DeleteAcls: the ACLs of the authorizer (KIP-140, KIP-290)."""

from __future__ import annotations

from functools import partial

from messages import errors
from messages.acls import Operation, PatternType
from messages.apis.declaration import AUTHORIZER, UNAUTHORIZED, Api, on_cluster
from messages.vocabulary import Message, message


@message
class DescribeAclsRequest(Message):
    """A client's request for the ACLs that match this filter (API key 29); a field that is None matches any text."""

    version: int
    resource_type_filter: int
    resource_name_filter: str | None
    principal_filter: str | None
    host_filter: str | None
    operation: int
    permission_type: int
    pattern_type_filter: int = PatternType.LITERAL


@message
class DescribedAcl(Message):
    """An ACL of a described resource."""

    principal: str
    host: str
    operation: int
    permission_type: int


@message
class DescribedResourceAcls(Message):
    """A resource with the ACLs that match."""

    resource_type: int
    resource_name: str
    acls: tuple[DescribedAcl, ...]
    pattern_type: int = PatternType.LITERAL


@message
class DescribeAclsResponse(Message):
    """The response to DescribeAcls: the ACLs that match, by resource."""

    error_code: int
    error_message: str | None = None
    resources: tuple[DescribedResourceAcls, ...] = ()
    throttle_time_ms: int = 0


@message
class AclCreation(Message):
    """An ACL that a client wants to create."""

    resource_type: int
    resource_name: str
    principal: str
    host: str
    operation: int
    permission_type: int
    resource_pattern_type: int = PatternType.LITERAL


@message
class CreateAclsRequest(Message):
    """A client's request to create ACLs (API key 30)."""

    version: int
    creations: tuple[AclCreation, ...]


@message
class AclCreationResult(Message):
    """The result of creating one ACL."""

    error_code: int
    error_message: str | None = None


@message
class CreateAclsResponse(Message):
    """The response to CreateAcls, with a result for each ACL."""

    results: tuple[AclCreationResult, ...]
    throttle_time_ms: int = 0


@message
class DeleteAclsFilter(Message):
    """A filter for the ACLs to delete, with the same fields as DescribeAclsRequest."""

    resource_type_filter: int
    resource_name_filter: str | None
    principal_filter: str | None
    host_filter: str | None
    operation: int
    permission_type: int
    pattern_type_filter: int = PatternType.LITERAL


@message
class DeleteAclsRequest(Message):
    """A client's request to delete the ACLs that match these filters (API key 31)."""

    version: int
    filters: tuple[DeleteAclsFilter, ...]


@message
class DeletedAcl(Message):
    """An ACL that was deleted, or the error."""

    error_code: int
    error_message: str | None
    resource_type: int
    resource_name: str
    principal: str
    host: str
    operation: int
    permission_type: int
    pattern_type: int = PatternType.LITERAL


@message
class DeleteAclsFilterResult(Message):
    """The result for one filter of a DeleteAcls request: an error, or the ACLs that were deleted."""

    error_code: int
    error_message: str | None = None
    matching_acls: tuple[DeletedAcl, ...] = ()


@message
class DeleteAclsResponse(Message):
    """The response to DeleteAcls, with a result for each filter."""

    filter_results: tuple[DeleteAclsFilterResult, ...]
    throttle_time_ms: int = 0


_NO_AUTHORIZER = "No Authorizer is configured."
"""Kafka's error message for changes of ACLs."""

_ACLS = partial(
    Api,
    versions=(0, 3),
    answerer=AUTHORIZER,
    codes="SECURITY_DISABLED",
    feature="ACLs",
    elsewhere=errors.SECURITY_DISABLED,
)

DESCRIBE_ACLS = _ACLS(
    key=29,
    request=DescribeAclsRequest,
    response=DescribeAclsResponse,
    access=(on_cluster(Operation.DESCRIBE),),
    sample=lambda about: DescribeAclsRequest(2, 1, None, None, None, 1, 1),
    refuse=lambda request, code: DescribeAclsResponse(
        code, UNAUTHORIZED.get(code, "No Authorizer is configured on the broker")
    ),
)
CREATE_ACLS = _ACLS(
    key=30,
    request=CreateAclsRequest,
    response=CreateAclsResponse,
    access=(on_cluster(Operation.ALTER),),
    sample=lambda about: CreateAclsRequest(2, (AclCreation(2, about.partition.topic, "User:a", "*", 2, 3),)),
    refuse=lambda request, code: CreateAclsResponse(
        (AclCreationResult(code, UNAUTHORIZED.get(code, _NO_AUTHORIZER)),) * len(request.creations)
    ),
)
DELETE_ACLS = _ACLS(
    key=31,
    request=DeleteAclsRequest,
    response=DeleteAclsResponse,
    access=(on_cluster(Operation.ALTER),),
    sample=lambda about: DeleteAclsRequest(2, (DeleteAclsFilter(1, None, None, None, 1, 1),)),
    refuse=lambda request, code: DeleteAclsResponse(
        (DeleteAclsFilterResult(code, UNAUTHORIZED.get(code, _NO_AUTHORIZER)),) * len(request.filters)
    ),
)
