"""The decision: a table of Kafka's cases, and a comparison with a naive model of its rules."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.core.security.acls import AclTable, host_text
from messages.acls import Acl, AclResource, AclsChanged, Operation, PatternType, Permission, ResourceAcls, ResourceType
from messages.apis.declaration import UNNAMED

OP, TOPIC = Operation, ResourceType.TOPIC
HOST = "127.0.0.1"


def acl(operation: int, who: str = "User:alice", permission: int = Permission.ALLOW, host: str = "*") -> Acl:
    return Acl(who, host, operation, permission)


def deny(operation: int, who: str = "User:alice", host: str = "*") -> Acl:
    return acl(operation, who, Permission.DENY, host)


def on(name: str, *acls: Acl, prefix: bool = False) -> ResourceAcls:
    return ResourceAcls(AclResource(TOPIC, name, PatternType.PREFIXED if prefix else PatternType.LITERAL), acls)


def table(*resources: ResourceAcls, everyone: bool = False) -> AclTable:
    acls = AclTable(("User:admin",), everyone)
    acls.change(AclsChanged(resources, all=True))
    return acls


@pytest.mark.parametrize(
    ("resources", "operation", "name", "allowed"),
    [
        ([on("fo", acl(OP.READ), prefix=True)], OP.READ, "fo", True),
        ([on("fo", acl(OP.READ), prefix=True)], OP.READ, "foobar", True),
        ([on("fo", acl(OP.READ), prefix=True)], OP.READ, "f", False),
        ([on("fo", acl(OP.READ))], OP.READ, "foobar", False),
        ([on("*", acl(OP.READ), prefix=True)], OP.READ, "fo", False),
        ([on("*", acl(OP.READ))], OP.READ, "fo", True),
        ([on("fo", acl(OP.READ)), on("f", deny(OP.READ), prefix=True)], OP.READ, "fo", False),
        ([on("fo", acl(OP.READ)), on("*", deny(OP.READ))], OP.READ, "fo", False),
        ([on("fo", acl(OP.READ), deny(OP.READ, "User:*"))], OP.READ, "fo", False),
        ([on("fo", acl(OP.READ), deny(OP.READ, "User:bob"))], OP.READ, "fo", True),
        ([on("fo", acl(OP.READ, "User:*"))], OP.READ, "fo", True),
        ([on("fo", acl(OP.READ, "user:alice"), acl(OP.READ, "User:Alice"))], OP.READ, "fo", False),
        ([on("fo", acl(OP.READ, host=HOST))], OP.READ, "fo", True),
        ([on("fo", acl(OP.READ, host="10.0.0.1"))], OP.READ, "fo", False),
        ([on("fo", acl(OP.READ, host="localhost"))], OP.READ, "fo", False),
        ([on("fo", acl(OP.READ), deny(OP.READ, host="10.0.0.1"))], OP.READ, "fo", True),
        ([on("fo", acl(OP.ALL))], OP.ALTER_CONFIGS, "fo", True),
        ([on("fo", acl(OP.READ), deny(OP.ALL))], OP.DESCRIBE, "fo", False),
        *(([on("fo", acl(each))], OP.DESCRIBE, "fo", True) for each in (OP.READ, OP.WRITE, OP.DELETE, OP.ALTER)),
        *(([on("fo", acl(each))], OP.DESCRIBE, "fo", False) for each in (OP.CREATE, OP.ALTER_CONFIGS)),
        ([on("fo", acl(OP.ALTER_CONFIGS))], OP.DESCRIBE_CONFIGS, "fo", True),
        ([on("fo", acl(OP.DESCRIBE_CONFIGS))], OP.ALTER_CONFIGS, "fo", False),
        ([on("fo", deny(OP.READ), acl(OP.WRITE))], OP.DESCRIBE, "fo", True),
        ([on("fo", deny(OP.DESCRIBE), acl(OP.READ))], OP.DESCRIBE, "fo", False),
        ([on("fo", deny(OP.DESCRIBE), acl(OP.READ))], OP.READ, "fo", True),
        ([on("*", acl(OP.ALL))], OP.READ, UNNAMED, False),
        ([], OP.READ, "fo", False),
    ],
)
def test_the_decisions_of_kafka(resources: list[ResourceAcls], operation: int, name: str, allowed: bool) -> None:
    acls = table(*resources)
    assert acls.allows("User:alice", HOST, operation, TOPIC, name) is allowed
    assert acls.allows("User:admin", HOST, operation, TOPIC, name)
    assert not acls.allows("User:alice", HOST, operation, ResourceType.GROUP, name)


def test_everyone_may_use_what_has_no_acl_of_anybody() -> None:
    acls = table(on("fo", acl(OP.WRITE, "User:bob")), on("ba", acl(OP.READ, "User:bob"), prefix=True), everyone=True)
    assert [acls.allows("User:alice", HOST, OP.READ, TOPIC, name) for name in ("fo", "bar", "qux")] == [
        False,
        False,
        True,
    ]
    assert not acls.allows("User:alice", HOST, OP.READ, TOPIC, "qux", everyone=False)


def test_unreadable_acls_leave_the_last_ones_or_close_the_resource() -> None:
    acls = table(on("fo", acl(OP.READ)), everyone=True)
    torn = tuple(ResourceAcls(AclResource(TOPIC, name), None) for name in ("fo", "new"))
    for message in (AclsChanged(torn), AclsChanged(torn, all=True)):
        acls.change(message)
        assert acls.allows("User:alice", HOST, OP.READ, TOPIC, "fo")
        assert not acls.allows("User:alice", HOST, OP.READ, TOPIC, "new")
        assert acls.allows("User:admin", HOST, OP.READ, TOPIC, "new")
    acls.change(AclsChanged((on("fo"),)))
    assert acls.allows("User:bob", HOST, OP.WRITE, TOPIC, "fo")


@pytest.mark.parametrize(
    ("resources", "allowed"),
    [
        ([on("foo", acl(OP.WRITE))], True),
        ([on("fo", acl(OP.WRITE), prefix=True)], True),
        ([on("fo", acl(OP.READ))], False),
        ([on("foo", acl(OP.WRITE)), on("*", deny(OP.WRITE))], False),
        ([on("foo", acl(OP.WRITE)), on("f", deny(OP.WRITE), prefix=True)], False),
        ([on("*", acl(OP.WRITE)), on("f", deny(OP.WRITE), prefix=True)], True),
        ([on("foo", acl(OP.WRITE), deny(OP.WRITE))], False),
    ],
)
def test_write_on_any_topic(resources: list[ResourceAcls], allowed: bool) -> None:
    assert table(*resources).allows_any("User:alice", HOST, OP.WRITE, TOPIC) is allowed


NAMES, WHO = ("a", "ab", "abc", "*"), ("User:alice", "User:bob", "User:*")
OPERATIONS = (OP.ALL, OP.READ, OP.WRITE, OP.DESCRIBE, OP.ALTER_CONFIGS, OP.DESCRIBE_CONFIGS)
HOSTS, PERMISSIONS = ("*", HOST, "::1"), (Permission.DENY, Permission.ALLOW)
ACLS = st.builds(Acl, *map(st.sampled_from, (WHO, HOSTS, OPERATIONS, PERMISSIONS)))
RESOURCES = st.builds(
    lambda name, prefix, acls: on(name, *acls, prefix=prefix),
    *(st.sampled_from(NAMES), st.booleans(), st.lists(ACLS, max_size=3)),
)
SOUP = st.lists(RESOURCES, max_size=5, unique_by=lambda each: each.resource)


def test_a_decision_ends_with_the_acls_that_it_follows_from() -> None:
    resource, acl = AclResource(ResourceType.TOPIC, "t"), Acl("User:a", "*", Operation.READ, Permission.ALLOW)
    decider = table()
    for acls in ((), (acl,), ()):
        decider.change(AclsChanged((ResourceAcls(resource, acls),)))
        assert decider.allows("User:a", "127.0.0.1", Operation.READ, ResourceType.TOPIC, "t") == bool(acls)


@given(SOUP, st.booleans())
def test_any_acls_decide_as_the_rules_say(soup: list[ResourceAcls], everyone: bool) -> None:
    acls = table(*soup, everyone=everyone)
    for user, name, operation in product(WHO[:2], ("a", "ab", "xy"), OPERATIONS[1:]):
        mine = [
            each
            for resource, of_resource in soup
            for each in of_resource or ()
            if (name.startswith(resource.name) if resource.pattern == 4 else resource.name in (name, "*"))
        ]
        fits = [each for each in mine if each.principal in (user, "User:*") and each.host in ("*", HOST)]
        implied = {OP.DESCRIBE: (OP.READ, OP.WRITE), OP.DESCRIBE_CONFIGS: (OP.ALTER_CONFIGS,)}.get(operation, ())
        denied = any(each.permission == 2 and each.operation in (operation, OP.ALL) for each in fits)
        granted = any(each.permission == 3 and each.operation in (operation, OP.ALL, *implied) for each in fits)
        assert acls.allows(user, HOST, operation, TOPIC, name) is (everyone if not mine else granted and not denied)


def test_addresses_are_written_as_in_java() -> None:
    assert host_text("/127.0.0.1") == "127.0.0.1"
    assert host_text("::1") == "0:0:0:0:0:0:0:1"
    assert host_text("fe80::1%eth0") == "fe80:0:0:0:0:0:0:1"
    assert host_text("::ffff:10.0.0.1") == "10.0.0.1"
