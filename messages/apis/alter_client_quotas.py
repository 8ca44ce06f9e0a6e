"""AlterClientQuotas: set and remove quotas of users and client ids (KIP-546)."""

from __future__ import annotations

from messages.acls import Operation
from messages.apis.declaration import CONFIGS, Api, on_cluster
from messages.apis.describe_client_quotas import CLIENT_ID, QuotaName
from messages.client_quotas import PRODUCE
from messages.vocabulary import Message, message


@message
class QuotaChange(Message):
    """A quota that is set to a value, or removed."""

    key: str
    value: float
    remove: bool = False


@message
class QuotaAlteration(Message):
    """The changed quotas of one entity."""

    entity: tuple[QuotaName, ...]
    ops: tuple[QuotaChange, ...]


@message
class AlterClientQuotasRequest(Message):
    """A client's request to change quotas (API key 49)."""

    version: int
    entries: tuple[QuotaAlteration, ...]
    validate_only: bool = False


@message
class AlteredQuota(Message):
    """The result for one entity."""

    error_code: int
    error_message: str | None
    entity: tuple[QuotaName, ...]


@message
class AlterClientQuotasResponse(Message):
    """The response to AlterClientQuotas, in the order of the request."""

    entries: tuple[AlteredQuota, ...]
    throttle_time_ms: int = 0


API = Api(
    key=49,
    versions=(0, 1),
    request=AlterClientQuotasRequest,
    response=AlterClientQuotasResponse,
    answerer=CONFIGS,
    access=(on_cluster(Operation.ALTER_CONFIGS),),
    codes="NONE INVALID_REQUEST",
    sample=lambda about: AlterClientQuotasRequest(
        1, (QuotaAlteration((QuotaName(CLIENT_ID, about.group),), (QuotaChange(PRODUCE, 1e9),)),), True
    ),
    odd="key=unknown value=0.5 version=0",
    refuse=lambda request, code: AlterClientQuotasResponse(
        tuple([AlteredQuota(code, None, entry.entity) for entry in request.entries])
    ),
)
