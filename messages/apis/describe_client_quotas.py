"""DescribeClientQuotas: the quotas of users and client ids (KIP-546)."""

from __future__ import annotations

from messages.acls import Operation
from messages.apis.declaration import CONFIGS, Api, on_cluster
from messages.vocabulary import Message, message

USER, CLIENT_ID = "user", "client-id"
"""The types of an entity's parts."""

EXACT, NO_NAME, ANY = range(3)
"""Which names a filter matches: one name, the default entity, or every name and the default entity."""


@message
class QuotaFilter(Message):
    """A condition on the part `entity_type` of entities; `match` is the name if the match type is EXACT."""

    entity_type: str
    match_type: int
    match: str | None = None


@message
class DescribeClientQuotasRequest(Message):
    """A client's request for the quotas of the entities that match all these filters (API key 48).

    If `strict`, an entity has no part without a filter.
    """

    version: int
    components: tuple[QuotaFilter, ...] = ()
    strict: bool = False


@message
class QuotaName(Message):
    """A part of an entity: a user or client id; the name is None for the default of this type."""

    entity_type: str
    entity_name: str | None


@message
class QuotaValue(Message):
    """A quota of an entity."""

    key: str
    value: float


@message
class DescribedQuota(Message):
    """The quotas of one entity."""

    entity: tuple[QuotaName, ...]
    values: tuple[QuotaValue, ...]


@message
class DescribeClientQuotasResponse(Message):
    """The response to DescribeClientQuotas; with an error, `entries` is None."""

    error_code: int
    error_message: str | None = None
    entries: tuple[DescribedQuota, ...] | None = None
    throttle_time_ms: int = 0


API = Api(
    key=48,
    versions=(0, 1),
    request=DescribeClientQuotasRequest,
    response=DescribeClientQuotasResponse,
    answerer=CONFIGS,
    access=(on_cluster(Operation.DESCRIBE_CONFIGS),),
    codes="NONE INVALID_REQUEST UNSUPPORTED_VERSION",
    sample=lambda about: DescribeClientQuotasRequest(1, (QuotaFilter(CLIENT_ID, ANY),)),
    odd="entity_type= entity_type=host version=0",
)
