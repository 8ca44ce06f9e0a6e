"""Judge a client's request: what is refused, what is handled, and what the client may see of the response.

The needs of an API are declared with it (`messages.apis.declaration.Access`, `Shown`).

Rule 1: a request is judged once, when it arrives. If nothing is left of it, it is refused with the error codes of its
        entries; otherwise the rest is handled, and the refused entries are added to the response.
Rule 2: a broker that is not the controller says so in place of a refusal (`Api.controller_first`). The controller is
        that of the newest UpdateMetadata, as in responses to Metadata.
Rule 3: requests of controllers and brokers profit from allow.everyone.if.no.acl.found only on a listener for them.
        Elsewhere they need an ACL or a super user.

Kafka: `AuthHelper`, `KafkaApis`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

from actors.core.security.acls import AclTable
from messages import acls, errors
from messages.apis import API_BY_REQUEST
from messages.apis.declaration import REFUSED, UNNAMED, Access, Allows, Api, NamedById, Permitted, Shown
from messages.apis.update_metadata import UpdateMetadataRequest
from messages.apis.write_txn_markers import WriteTxnMarkersRequest
from messages.cluster import LEADER_DURING_DELETE
from messages.node_settings import NodeSettings
from messages.parts import Part
from messages.vocabulary import AnyMessage, Message, evolve

M = TypeVar("M")

Edit = Callable[[AnyMessage, Sequence[Part]], tuple[AnyMessage, Sequence[Part]]]
"""Function (response, the parts before it) -> what the client gets."""


class RefusedAccess(NamedTuple):
    """What was refused first, for the log; `denied_by` is the ACL that denies it, "" if no ACL allows it."""

    operation: acls.Operation
    resource: acls.ResourceType
    name: str
    denied_by: str = ""


class Judged(NamedTuple):
    """The judgement of a request.

    Attributes:
        request: The request to handle; None if it is refused.
        refusal: The response, if the request is refused.
        edit: Changes the response to the request; None if it is sent unchanged.
        refused: What was refused; None if all is allowed.
    """

    request: AnyMessage
    refusal: AnyMessage = None
    edit: Edit | None = None
    refused: RefusedAccess | None = None


class Authorizer:
    """The decisions of one node."""

    def __init__(self, settings: NodeSettings) -> None:
        self._settings = settings
        self._table = AclTable(settings.super_users, settings.allow_everyone_if_no_acl_found)
        self._controller = (-1, settings.node_id)
        """Epoch and id of the controller; the own id if it is unknown."""
        self._names: dict[str, str] = {}
        """Topic id -> the topic's name, as in UpdateMetadata."""

    def change(self, changes: acls.AclsChanged) -> None:
        """Use the ACLs in this message from now on."""
        self._table.change(changes)

    def has(self, resource: acls.AclResource, acl: acls.Acl) -> bool:
        """Return whether a resource has this ACL."""
        return acl in self._table.acls_of(resource)

    def judge(self, request: AnyMessage, principal: str, host: str, is_for_brokers: bool) -> Judged:
        """Judge a request; `is_for_brokers` says whether it came on a listener of controllers or brokers."""
        api, judged = API_BY_REQUEST[type(request)], self._judge(request, principal, host, is_for_brokers)
        if judged.refused is not None and api.controller_first and self._controller[1] != self._settings.node_id:
            return Judged(None, api.refusal(request, api.elsewhere))
        if api.request is UpdateMetadataRequest and judged.request is not None:
            self._controller = max(self._controller, (request.controller_epoch, request.controller_id))
            self._learn_ids(request)
        return judged

    def _learn_ids(self, request: UpdateMetadataRequest) -> None:
        """Use the topic ids of this request, but not those of deleted topics."""
        self._names |= {topic_id: topic for topic, topic_id in request.topic_ids}
        gone = {each.partition.topic for each in request.partition_states if each.leader == LEADER_DURING_DELETE}
        if gone:
            self._names = {topic_id: topic for topic_id, topic in self._names.items() if topic not in gone}

    def _judge(self, request: AnyMessage, principal: str, host: str, is_for_brokers: bool) -> Judged:
        api, table = API_BY_REQUEST[type(request)], self._table
        if table.is_super_user(principal):
            return Judged(request)
        is_of_brokers = api.control or api.request is WriteTxnMarkersRequest
        everyone = False if is_of_brokers and not is_for_brokers else None

        def allows(operation: int, resource: int, name: str) -> bool:
            known = self._names.get(name, UNNAMED) if isinstance(name, NamedById) else name
            return table.allows(principal, host, operation, resource, known, everyone)

        def suffices(access: Access) -> bool:
            if access.or_cluster and allows(access.or_cluster, acls.ResourceType.CLUSTER, acls.KAFKA_CLUSTER):
                return True
            write, topic = acls.Operation.WRITE, acls.ResourceType.TOPIC
            return access.or_any_topic and table.allows_any(principal, host, write, topic)

        if api.access is None:
            return Judged(None, api.refusal(request, REFUSED[acls.ResourceType.CLUSTER]), None, _UNDECLARED)

        def refuse(access: Access, entries: Iterable[AnyMessage], code: int) -> None:
            refusal = api.refusal(_only(api, request, access, entries), code)
            for each in api.shown:
                if each.of_refused:
                    refusal = _visible_part(refusal, each.entries, each, request, allows, principal)
            refusals.append((access.into, refusal))

        refusals: list[tuple[str, AnyMessage]] = []
        first: RefusedAccess | None = None
        for access in api.access:
            if access.when is not None and not access.when(request):
                continue
            code = access.code or REFUSED[access.resource]
            subjects = getattr(request, access.entries) if access.entries else (request,)
            denied = {
                index: name
                for index, subject in enumerate(subjects or ())
                if (name := access.name(subject)) is not None and not allows(access.operation, access.resource, name)
            }
            if not denied or suffices(access):
                continue
            if first is None:
                what = access.operation, access.resource, next(iter(denied.values()))
                first = RefusedAccess(*what, _acl_text(table.denial(principal, host, *what)))
            if not access.entries:
                return Judged(None, api.refusal(request, code), None, first)
            unknown = {
                index for index, name in denied.items() if isinstance(name, NamedById) and name not in self._names
            }
            left = [subject for index, subject in enumerate(subjects) if index not in denied]
            for indices, refused_with in ((denied.keys() - unknown, code), (unknown, errors.UNKNOWN_TOPIC_ID)):
                if indices:
                    refuse(access, [subjects[index] for index in sorted(indices)], refused_with)
            if access.rest and left:
                refuse(access, left, access.rest)
                left = []
            request = evolve(request, **{access.entries: tuple(left)})
            if not (access.keeps or _has_entries(api, request)):
                return Judged(None, _merge_refusals(None, refusals), None, first)
        if api.narrow is not None:
            request = api.narrow(request, allows)
        return Judged(request, None, _edit(api, request, refusals, allows, principal), first)


_UNDECLARED = RefusedAccess(acls.Operation.ALL, acls.ResourceType.CLUSTER, acls.KAFKA_CLUSTER)


def _acl_text(found: tuple[acls.AclResource, acls.Acl] | None) -> str:
    if found is None:
        return ""
    resource, acl = found
    names = acls.znode_name(acls.Permission(acl.permission)), acls.znode_name(acls.Operation(acl.operation))
    kind, pattern = acls.ResourceType(resource.type), acls.PatternType(resource.pattern)
    where = f"{acls.znode_name(kind)}:{pattern.name}:{resource.name}"
    return f"{names[0]} {names[1]} to {acl.principal} from host {acl.host} on {where}"


def _entry_fields(api: Api) -> tuple[str, ...]:
    return tuple(dict.fromkeys(access.entries for access in api.access or () if access.entries))


def _has_entries(api: Api, request: Message) -> bool:
    return any(getattr(request, field) for field in _entry_fields(api))


def _only(api: Api, request: Message, access: Access, entries: Iterable[AnyMessage]) -> Message:
    """Return the request with only these entries."""
    return evolve(request, **{**dict.fromkeys(_entry_fields(api), ()), access.entries: tuple(entries)})


def _merge_refusals(response: AnyMessage, refusals: Sequence[tuple[str, AnyMessage]]) -> AnyMessage:
    """Return the response with the entries of the refusals."""
    for field, refusal in refusals:
        if response is None:
            response = refusal
        else:
            response = evolve(response, **{field: (*getattr(response, field), *getattr(refusal, field))})
    return response


def _edit(
    api: Api, request: Message, refusals: list[tuple[str, AnyMessage]], allows: Allows, principal: str
) -> Edit | None:
    """Return the function that changes the response; None if it stays as it is."""
    shown = [
        each
        for each in api.shown
        if not (each.or_cluster and allows(each.or_cluster, acls.ResourceType.CLUSTER, acls.KAFKA_CLUSTER))
    ]
    permitted = [each for each in api.permitted if getattr(request, each.asked)]
    if not (shown or permitted or refusals):
        return None

    def edit(response: Message, parts: Sequence[Part]) -> tuple[AnyMessage, Sequence[Part]]:
        for each in shown:
            response = _visible_part(response, each.entries, each, request, allows, principal)
            parts = [_visible_part(part, "entries", each, request, allows, principal) for part in parts]
        for what in permitted:
            response = _with_operations(response, what.entries, what, allows)
            if what.entries:
                parts = [_with_operations(part, "entries", what, allows) for part in parts]
        return _merge_refusals(response, refusals), parts

    return edit


def _with_operations(  # type: ignore[explicit-any]  # the functions of `permitted` take entries of any class
    holder: M, entries: str, permitted: Permitted, allows: Allows
) -> M:
    """Return a response, an entry or a part, in which the client's operations replace all operations."""
    if entries:
        found = [_with_operations(each, "", permitted, allows) for each in getattr(holder, entries)]
        return evolve(holder, **{entries: tuple(found)})
    bits, resource, name = getattr(holder, permitted.field), permitted.resource, permitted.name(holder)
    if bits < 0:  # an error, or not asked for
        return holder
    may = 0
    if allows(acls.Operation.DESCRIBE, resource, name):
        may = sum(1 << op for op in acls.Operation if bits >> op & 1 and allows(op, resource, name))
    return evolve(holder, **{permitted.field: may})


def _visible_part(  # type: ignore[explicit-any]  # the functions of `shown` take entries of any class
    holder: M, path: str, shown: Shown, request: Message, allows: Allows, principal: str
) -> M:
    """Return a response, or a part of it, with what the client may see of its entries."""
    field, _, inner = path.partition(".")
    if inner:
        nested = [_visible_part(each, inner, shown, request, allows, principal) for each in getattr(holder, field)]
        return evolve(holder, **{field: tuple(nested)})
    entries = []
    for entry in getattr(holder, field):
        if principal in shown.of(entry) or allows(shown.operation, shown.resource, shown.name(entry)):
            entries.append(entry)
        elif shown.hidden is not None and shown.asked(request):
            entries.append(shown.hidden(entry, REFUSED[shown.resource]))
    return evolve(holder, **{field: tuple(entries)})
