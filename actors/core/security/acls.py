"""The decision whether a principal may execute an operation on a resource (KIP-11, KIP-290).

Rule 1: a super user may do everything, whatever an ACL denies.
Rule 2: the ACLs of a resource are those of its literal name, those of the literal name `*`, and those of each prefix.
        If there is none, allow.everyone.if.no.acl.found decides.
Rule 3: a denial of the operation, or of all operations, goes before each permission. A permission implies Describe if
        it is Read, Write, Delete or Alter, and DescribeConfigs if it is AlterConfigs; a denial implies nothing.
Rule 4: a resource whose znode cannot be read keeps its last ACLs; if there were none, only super users may use it.

Kafka: `AclAuthorizer`.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator

from messages.acls import (
    EVERYONE,
    WILDCARD,
    Acl,
    AclResource,
    AclsChanged,
    Operation,
    PatternType,
    Permission,
)
from messages.apis.declaration import UNNAMED

IMPLYING = {
    Operation.DESCRIBE: {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER},
    Operation.DESCRIBE_CONFIGS: {Operation.ALTER_CONFIGS},
}
"""Operation -> the operations whose permission implies it."""

CLOSED = (Acl(EVERYONE, WILDCARD, Operation.ALL, Permission.DENY),)
"""The ACLs of a resource that never had readable ones (rule 4)."""

MOST_CACHED = 10_000
"""Maximum number of decisions that are kept until the next change."""


class AclTable:
    """The ACLs of all resources."""

    def __init__(self, super_users: Iterable[str] = (), allow_everyone: bool = False) -> None:
        self._super_users = frozenset(super_users)
        self._allow_everyone = allow_everyone
        self._literal: dict[int, dict[str, tuple[Acl, ...]]] = {}
        self._prefixed: dict[int, dict[str, tuple[Acl, ...]]] = {}
        """Resource type -> name or prefix -> ACLs."""
        self._decisions: dict[tuple[str, str, int, int, str, bool], bool] = {}

    def change(self, changes: AclsChanged) -> None:
        """Use the ACLs in this message from now on."""
        before = {each.resource: self.acls_of(each.resource) for each in changes.resources if each.acls is None}
        if changes.all:
            self._literal.clear()
            self._prefixed.clear()
        for resource, acls in changes.resources:
            if acls is None:
                acls = before[resource] or CLOSED
            patterns = self._prefixed if resource.pattern == PatternType.PREFIXED else self._literal
            by_name = patterns.setdefault(resource.type, {})
            if acls:
                by_name[resource.name] = acls
            else:
                by_name.pop(resource.name, None)
        self._decisions.clear()

    def acls_of(self, resource: AclResource) -> tuple[Acl, ...]:
        """Return the ACLs of a resource."""
        patterns = self._prefixed if resource.pattern == PatternType.PREFIXED else self._literal
        return patterns.get(resource.type, {}).get(resource.name, ())

    def is_super_user(self, principal: str) -> bool:
        """Return whether rule 1 applies."""
        return principal in self._super_users

    def allows(
        self, principal: str, host: str, operation: int, type: int, name: str, everyone: bool | None = None
    ) -> bool:
        """Return whether a principal may execute an operation on a resource.

        Args:
            principal: Such as User:alice.
            host: The client's IP address.
            operation: The operation.
            type: The resource's type.
            name: The resource's name; UNNAMED if only its id is known: then only a super user may.
            everyone: Whether everyone may use a resource without ACLs; None: as it is configured.
        """
        if principal in self._super_users:
            return True
        if name == UNNAMED:
            return False
        everyone = self._allow_everyone if everyone is None else everyone
        key = (principal, host, operation, type, name, everyone)
        decision = self._decisions.get(key)
        if decision is None:
            if len(self._decisions) >= MOST_CACHED:
                self._decisions.clear()
            decision = self._decisions[key] = self._decide(principal, host_text(host), operation, type, name, everyone)
        return decision

    def denial(self, principal: str, host: str, operation: int, type: int, name: str) -> tuple[AclResource, Acl] | None:
        """Return the ACL that denies an operation, with its resource; None if no ACL allows the operation."""
        host = host_text(host)
        for resource, acl in self._matching(type, name):
            if _applies(acl, principal, host) and _names(acl, Permission.DENY, operation):
                return resource, acl
        return None

    def _decide(self, principal: str, host: str, operation: int, type: int, name: str, everyone: bool) -> bool:
        acls = [acl for _, acl in self._matching(type, name)]
        if not acls:
            return everyone
        applying = [acl for acl in acls if _applies(acl, principal, host)]
        if any(_names(acl, Permission.DENY, operation) for acl in applying):
            return False
        implying = {operation, Operation.ALL} | IMPLYING.get(Operation(operation), set())
        return any(acl.permission == Permission.ALLOW and acl.operation in implying for acl in applying)

    def _matching(self, type: int, name: str) -> Iterator[tuple[AclResource, Acl]]:
        """Yield the ACLs of a resource (rule 2), each with the resource that it names."""
        literal = self._literal.get(type, {})
        for each in dict.fromkeys((name, WILDCARD)):
            for acl in literal.get(each, ()):
                yield AclResource(type, each), acl
        for prefix, acls in self._prefixed.get(type, {}).items():
            if name.startswith(prefix):
                for acl in acls:
                    yield AclResource(type, prefix, PatternType.PREFIXED), acl

    def allows_any(self, principal: str, host: str, operation: int, type: int) -> bool:
        """Return whether a principal may execute an operation on any resource of a type (KIP-679)."""
        if principal in self._super_users:
            return True
        host = host_text(host)

        def has(acls: Iterable[Acl], permission: Permission) -> bool:
            return any(_names(acl, permission, operation) and _applies(acl, principal, host) for acl in acls)

        literal, prefixed = self._literal.get(type, {}), self._prefixed.get(type, {})
        wildcard = literal.get(WILDCARD, ())
        if has(wildcard, Permission.DENY):
            return False
        if self._allow_everyone or has(wildcard, Permission.ALLOW):
            return True
        denied = tuple(prefix for prefix, acls in prefixed.items() if has(acls, Permission.DENY))
        return any(
            has(acls, Permission.ALLOW) and not has(acls, Permission.DENY) and not name.startswith(denied)
            for name, acls in (*literal.items(), *prefixed.items())
            if acls is not wildcard
        )


def _applies(acl: Acl, principal: str, host: str) -> bool:
    """Return whether an ACL is about this client."""
    return acl.principal in (principal, EVERYONE) and acl.host in (host, WILDCARD)


def _names(acl: Acl, permission: Permission, operation: int) -> bool:
    """Return whether an ACL allows or denies an operation by its name, or all operations."""
    return acl.permission == permission and acl.operation in (operation, Operation.ALL)


def host_text(host: str) -> str:
    """Return an IP address as Java writes it, without a leading slash: eight groups for IPv6."""
    host = host.removeprefix("/")
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if address.version == 4:
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return ":".join(f"{int(group, 16):x}" for group in address.exploded.split(":"))
