"""Check and carry out requests about ACLs: which creations are valid, and which ACLs match a filter (KIP-140, KIP-290).

Kafka: `AclApis`, `AclAuthorizer`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from messages import errors
from messages.acls import (
    KAFKA_CLUSTER,
    WILDCARD,
    Acl,
    AclResource,
    Operation,
    PatternType,
    Permission,
    ResourceAcls,
    ResourceType,
)
from messages.apis.acls import (
    AclCreation,
    AclCreationResult,
    DeleteAclsFilter,
    DeletedAcl,
    DescribeAclsRequest,
    DescribedAcl,
    DescribedResourceAcls,
)

FAILED = "Failed to create ACL"


def resource_of(creation: AclCreation) -> AclResource:
    """Return the resource of a new ACL."""
    return AclResource(creation.resource_type, creation.resource_name, creation.resource_pattern_type)


def acl_of(creation: AclCreation) -> Acl:
    """Return a new ACL."""
    return Acl(creation.principal, creation.host, creation.operation, creation.permission_type)


def _codes(creation: AclCreation) -> Iterator[tuple[int, type[Operation | ResourceType | PatternType | Permission]]]:
    yield creation.operation, Operation
    yield creation.permission_type, Permission
    yield creation.resource_type, ResourceType
    yield creation.resource_pattern_type, PatternType


def is_unreadable(creations: Iterable[AclCreation]) -> bool:
    """Return whether Kafka closes the connection: a code is 0, which means unknown."""
    return any(code == 0 for creation in creations for code, _ in _codes(creation))


def is_vague(creations: Iterable[AclCreation]) -> bool:
    """Return whether a creation has the code of a filter, which fails the whole request."""
    return any(
        code == 1 or (kind is PatternType and code == PatternType.MATCH)
        for creation in creations
        for code, kind in _codes(creation)
    )


def problem_of(creation: AclCreation) -> AclCreationResult | None:
    """Return the error of a creation that is invalid by itself."""
    name = creation.resource_name
    if any(code not in map(int, kind) for code, kind in _codes(creation)) or "/" in name:
        return AclCreationResult(errors.INVALID_REQUEST, FAILED)
    if not name:
        return AclCreationResult(errors.INVALID_REQUEST, "Invalid empty resource name")
    if creation.resource_type == ResourceType.CLUSTER and name != KAFKA_CLUSTER:
        text = f"The only valid name for the CLUSTER resource is {KAFKA_CLUSTER}"
        return AclCreationResult(errors.INVALID_REQUEST, text)
    return None


Filter = DescribeAclsRequest | DeleteAclsFilter


def _has_resource(filter: Filter, resource: AclResource) -> bool:
    """Return whether a filter matches the ACLs of a resource."""
    name, pattern = filter.resource_name_filter, filter.pattern_type_filter
    if filter.resource_type_filter not in (ResourceType.ANY, resource.type):
        return False
    if pattern in (PatternType.LITERAL, PatternType.PREFIXED) and pattern != resource.pattern:
        return False
    if name is None or name == resource.name:
        return True
    if pattern != PatternType.MATCH:
        return False
    return name.startswith(resource.name) if resource.pattern == PatternType.PREFIXED else resource.name == WILDCARD


def matching(filter: Filter, resources: Iterable[ResourceAcls]) -> Iterator[tuple[AclResource, Acl]]:
    """Yield the ACLs that a filter matches."""
    for resource, acls in resources:
        if _has_resource(filter, resource):
            for acl in acls or ():
                if (
                    filter.principal_filter in (None, acl.principal)
                    and filter.host_filter in (None, acl.host)
                    and filter.operation in (Operation.ANY, acl.operation)
                    and filter.permission_type in (Permission.ANY, acl.permission)
                ):
                    yield resource, acl


def group_by_resource(found: Iterable[tuple[AclResource, Acl]]) -> tuple[DescribedResourceAcls, ...]:
    """Return ACLs by resource, as a response contains them."""
    return tuple(
        DescribedResourceAcls(
            resource.type,
            resource.name,
            tuple([DescribedAcl(acl.principal, acl.host, acl.operation, acl.permission) for _, acl in acls]),
            resource.pattern,
        )
        for resource, acls in groupby(found, lambda each: each[0])
    )


def deletion_result(resource: AclResource, acl: Acl, code: int = errors.NONE) -> DeletedAcl:
    """Return the result of the deletion of an ACL."""
    who = acl.principal, acl.host, acl.operation, acl.permission
    return DeletedAcl(code, None, resource.type, resource.name, *who, resource.pattern)
