"""ACLs: operations on resources that principals may execute, or may not, with Kafka's numbers and names (KIP-11)."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple, TypeVar

from messages.vocabulary import Message, message

E = TypeVar("E", bound=IntEnum)


class Operation(IntEnum):
    """What a principal may do with a resource."""

    UNKNOWN, ANY, ALL, READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, CLUSTER_ACTION = range(10)
    DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE, CREATE_TOKENS, DESCRIBE_TOKENS = range(10, 15)


class ResourceType(IntEnum):
    """The types of resources."""

    UNKNOWN, ANY, TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID, DELEGATION_TOKEN, USER = range(8)


class PatternType(IntEnum):
    """How the name of an ACL's resource is compared with a name; MATCH is for filters only."""

    UNKNOWN, ANY, MATCH, LITERAL, PREFIXED = range(5)


class Permission(IntEnum):
    """Whether an ACL allows or denies its operation."""

    UNKNOWN, ANY, DENY, ALLOW = range(4)


KAFKA_CLUSTER = "kafka-cluster"
"""The only name of a resource of the type CLUSTER."""
WILDCARD = "*"
"""The literal resource name, or the host, of an ACL for all."""
EVERYONE = "User:*"
"""The principal of an ACL for all."""


def znode_name(value: IntEnum) -> str:
    """Return the name in ZooKeeper, such as TransactionalId."""
    return "".join(part.capitalize() for part in value.name.split("_"))


def member_named(kind: type[E], text: str) -> E | None:
    """Return the member with this name in any case; underscores do not matter. None if there is none."""
    plain = text.replace("_", "").lower()
    return next((member for member in kind if member.name.replace("_", "").lower() == plain), None)


class AclResource(NamedTuple):
    """The resources that an ACL is about: `name` is a whole name, or the prefix of names."""

    type: int
    name: str
    pattern: int = PatternType.LITERAL


class Acl(NamedTuple):
    """One permission of a principal; `host` is an IP address or WILDCARD."""

    principal: str
    host: str
    operation: int
    permission: int


class ResourceAcls(NamedTuple):
    """The ACLs of a resource; None if its znode cannot be read."""

    resource: AclResource
    acls: tuple[Acl, ...] | None


@message
class AclsChanged(Message):
    """A message to the listener: these resources have these ACLs now. If `all`, no other resource has any."""

    resources: tuple[ResourceAcls, ...]
    all: bool = False
