"""Client quotas: which quota applies to a client, what the client has used, and how long it is throttled.

Rule 1: quotas are configured for users, client ids, and pairs of both; a default applies to names without a quota of
        their own. The first configured quota in the order of `precedence` applies. Each quota (`QUOTAS`) has its own.
Rule 2: clients with the same user and client id are measured together. A quota of a user is shared by all client ids,
        and a quota of a client id by all users.
Rule 3: usage is counted in samples (`quota.window.num` samples of `quota.window.size.seconds`). The rate is the sum of
        the samples divided by the window: the time since the oldest sample began, which counts as at least all samples
        but one. A sample expires when its last count is older than all samples together. So a client that was silent
        may use the quota of about ten seconds at once.
Rule 4: while the rate exceeds the quota, the client is throttled for the time after which the window would have the
        quota's rate. Request time throttles for one sample at most.
Rule 5: usage is counted only for clients that have a quota, and usage of expired samples is dropped.

Kafka: `ClientQuotaManager`, `ClientRequestQuotaManager`, `DefaultQuotaCallback`, `Rate`; for the APIs `AdminManager`
(`ZkAdminManager`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import attrs

from actors.core.refusal import Refused
from messages import errors
from messages.apis.alter_client_quotas import QuotaAlteration
from messages.apis.describe_client_quotas import (
    ANY,
    CLIENT_ID,
    EXACT,
    NO_NAME,
    USER,
    DescribedQuota,
    QuotaFilter,
    QuotaName,
    QuotaValue,
)
from messages.client_quotas import (
    DEFAULT,
    FETCH,
    QUOTAS,
    REQUEST,
    ClientQuota,
    QuotaEntity,
    desanitize,
    sanitize,
)
from messages.cluster import ConfigEntry
from messages.node_settings import LONG_MAX, text_of

MAX_DELAY_MS = 2**31 - 1
MANY = 1000
"""Number of measured clients from which on those without recent usage are dropped."""


def precedence(user: str, client_id: str) -> tuple[tuple[QuotaEntity, QuotaEntity], ...]:
    """Return the entities whose quotas may apply to a client, the first one first (rule 1).

    Each is paired with the clients whose usage is measured together (rule 2). The names are sanitized. A client without
    an id has the quotas of users only (`DefaultQuotaCallback.quotaLimit`).
    """
    both, of_user, of_client = QuotaEntity(user, client_id), QuotaEntity(user), QuotaEntity(None, client_id)
    if not client_id:
        return (of_user, of_user), (QuotaEntity(DEFAULT), of_user)
    return (
        (both, both),
        (QuotaEntity(user, DEFAULT), both),
        (of_user, of_user),
        (QuotaEntity(DEFAULT, client_id), both),
        (QuotaEntity(DEFAULT, DEFAULT), both),
        (QuotaEntity(DEFAULT), of_user),
        (of_client, of_client),
        (QuotaEntity(None, DEFAULT), of_client),
    )


@attrs.define
class Usage:
    """The recent usage of clients that are measured together."""

    samples: list[tuple[float, float, float]] = attrs.field(factory=list)
    """(start time, time of the last count, amount) of each sample, the oldest first."""

    def add(self, amount: float, sample_seconds: float, now: float) -> None:
        """Count an amount; a negative one takes back what was counted."""
        if self.samples and now - self.samples[-1][0] < sample_seconds:
            began, _, before = self.samples[-1]
            self.samples[-1] = began, now, before + amount
        else:
            self.samples.append((now, now, amount))

    def rate(self, count: int, sample_seconds: float, now: float) -> tuple[float, float]:
        """Drop expired samples; return the rate per second and the window's seconds (rule 3)."""
        self.samples = [sample for sample in self.samples[-count - 1 :] if sample[1] + count * sample_seconds > now]
        elapsed = now - self.samples[0][0] if self.samples else 0.0
        window = max(elapsed + max(count - 1 - int(elapsed / sample_seconds), 0) * sample_seconds, 0.001)
        return sum(amount for *_, amount in self.samples) / window, window


class AppliedQuota(NamedTuple):
    """The quota of a client: its bound, the clients that are measured together, and the entity that has the quota."""

    bound: float
    measured: QuotaEntity
    owner: QuotaEntity


class ClientQuotas:
    """The client quotas of a broker, and what its clients have used; times are in seconds of one clock.

    Args:
        samples: Number of samples (`quota.window.num`).
        sample_seconds: Length of a sample (`quota.window.size.seconds`).
    """

    def __init__(self, samples: int, sample_seconds: float) -> None:
        self._count = samples
        self._sample_seconds = sample_seconds
        self._bounds: dict[str, dict[QuotaEntity, float]] = {quota: {} for quota in QUOTAS}
        self._applied: dict[tuple[str, str, str], AppliedQuota | None] = {}
        """(quota, user, client id) -> the quota that applies."""
        self._used: dict[tuple[str, QuotaEntity], Usage] = {}
        self._many = MANY

    def limits(self, quota: str) -> bool:
        """Return whether any client has this quota."""
        return bool(self._bounds[quota])

    def configure(self, quotas: Iterable[ClientQuota]) -> None:
        """Replace the quotas of these entities. What clients have used is kept."""
        self._applied.clear()
        for entity, entries in quotas:
            values = quota_values(entries)
            for quota, bounds in self._bounds.items():
                bounds.pop(entity, None)
                if quota in values:
                    bounds[entity] = values[quota]

    def charge(self, quota: str, user: str, client_id: str, amount: float, now: float) -> int:
        """Count what a client has used: bytes, or percent-seconds of request time; return the throttle time in ms."""
        applied = self.quota_of(quota, user, client_id)
        if applied is None:
            return 0
        bound, measured, _ = applied
        used = self._used.get((quota, measured))
        if used is None:
            used = self._begin(quota, measured, now)
        used.add(amount, self._sample_seconds, now)
        rate, window = used.rate(self._count, self._sample_seconds, now)
        if rate <= bound:
            return 0
        delay = 1000 * (rate - bound) / bound * window if bound > 0 else MAX_DELAY_MS
        return round(min(delay, 1000 * self._sample_seconds if quota == REQUEST else MAX_DELAY_MS))

    def take_back(self, quota: str, user: str, client_id: str, amount: float, now: float) -> None:
        """Take back what was counted for a client but was not sent to it."""
        applied = self.quota_of(quota, user, client_id)
        used = None if applied is None else self._used.get((quota, applied.measured))
        if used is not None:
            used.add(-amount, self._sample_seconds, now)

    def most_fetched(self, user: str, client_id: str) -> int | None:
        """Return the bytes that a client may fetch in the whole window; None without a quota.

        A fetch of more bytes would be throttled each time it is repeated (KAFKA-9677).
        """
        applied = self.quota_of(FETCH, user, client_id)
        return (
            None if applied is None else int(min((self._count - 1) * self._sample_seconds * applied.bound, 2**31 - 1))
        )

    def quota_of(self, quota: str, user: str, client_id: str) -> AppliedQuota | None:
        """Return the quota that applies to a client (rules 1, 2); None without one."""
        key, bounds = (quota, user, client_id), self._bounds[quota]
        if not bounds:
            return None
        if key not in self._applied:
            if len(self._applied) >= MANY:
                self._applied.clear()
            ranks = precedence(sanitize(user), sanitize(client_id))
            found = (AppliedQuota(bounds[entity], of, entity) for entity, of in ranks if entity in bounds)
            self._applied[key] = next(found, None)
        return self._applied[key]

    def _begin(self, quota: str, measured: QuotaEntity, now: float) -> Usage:
        """Begin to measure clients; if there are many, drop those without recent usage (rule 5)."""
        if len(self._used) >= self._many:
            oldest = now - self._count * self._sample_seconds
            self._used = {key: used for key, used in self._used.items() if used.samples[-1][1] > oldest}
            self._many = max(MANY, 2 * len(self._used))
        used = self._used[quota, measured] = Usage()
        return used


def quota_values(entries: Iterable[ConfigEntry]) -> dict[str, float]:
    """Return the quotas of an entity by name; those that are unknown, or not a number, are left out."""
    found = {}
    for name, text in entries:
        try:
            value = float(text)
        except ValueError:
            continue
        if name in QUOTAS and not math.isnan(value):
            found[name] = value
    return found


# ------------------------------------------------------------------------------------------------------ the APIs


def alteration(asked: QuotaAlteration) -> tuple[QuotaEntity, dict[str, str | None]]:
    """Return the entity of an alteration, and its new quotas as texts; None removes a quota.

    Of two names of one type the last one counts.

    Raises:
        Refused: The entity or a quota is invalid.
    """
    parts: dict[str, str] = {}
    if not asked.entity:
        raise Refused("Invalid empty client quota entity")
    for part in asked.entity:
        kind, name = part.entity_type, part.entity_name
        if kind not in (USER, CLIENT_ID):
            raise Refused(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise Refused(f"Empty {kind} not supported")
        parts[kind] = DEFAULT if name is None else sanitize(name)
    changes: dict[str, str | None] = {}
    for change in asked.ops:
        if not change.remove and change.key not in QUOTAS:
            raise Refused(f"Invalid configuration key {change.key}")
        changes[change.key] = None if change.remove else _quota_text(change.key, change.value)
    return QuotaEntity(parts.get(USER), parts.get(CLIENT_ID)), changes


def _quota_text(quota: str, value: float) -> str:
    """Return a quota as text: percentages as in Java, bytes per second as a whole number (up to 1e-6)."""
    kind = "DOUBLE" if quota == REQUEST else "LONG"
    if math.isfinite(value):
        whole = int(value + 1e-6)
        if kind == "DOUBLE":
            return str(text_of(value))
        if abs(whole - value) <= 1e-6 and whole <= LONG_MAX:
            return str(whole)
    raise Refused(f"Configuration {quota} must be a {kind} value")


def describe_quotas(
    known: Iterable[ClientQuota], components: Iterable[QuotaFilter], strict: bool
) -> tuple[DescribedQuota, ...]:
    """Return the entities that match a filter, with their quotas; entities without quotas are left out.

    Raises:
        Refused: The filter is invalid.
    """
    filters = _filters(components)
    return tuple(
        DescribedQuota(names, tuple(QuotaValue(*each) for each in values.items()))
        for entity, entries in known
        if (values := quota_values(entries)) and _matches(entity, filters, strict)
        for names in (entity_names(entity),)
    )


def entity_names(entity: QuotaEntity) -> tuple[QuotaName, ...]:
    """Return the parts of an entity as the APIs name them."""
    return tuple(
        QuotaName(kind, None if name == DEFAULT else desanitize(name))
        for kind, name in ((USER, entity.user), (CLIENT_ID, entity.client_id))
        if name is not None
    )


def _filters(components: Iterable[QuotaFilter]) -> dict[str, QuotaFilter]:
    filters: dict[str, QuotaFilter] = {}
    for component in components:
        kind = component.entity_type
        if kind == "":
            raise Refused("Unexpected empty filter component entity type")
        if kind not in (USER, CLIENT_ID):
            raise Refused(f"Custom entity type '{kind}' not supported", errors.UNSUPPORTED_VERSION)
        if kind in filters:
            raise Refused(f"Duplicate {kind.removesuffix('-id')} filter component entity type")
        if component.match_type not in (EXACT, NO_NAME, ANY):
            raise Refused(f"Unexpected match type: {component.match_type}")
        filters[kind] = component
    return filters


def _matches(entity: QuotaEntity, filters: Mapping[str, QuotaFilter], strict: bool) -> bool:
    for kind, name in ((USER, entity.user), (CLIENT_ID, entity.client_id)):
        wanted = filters.get(kind)
        if wanted is None:
            matches = name is None or not strict
        elif wanted.match_type == ANY:
            matches = name is not None
        else:
            matches = name == (DEFAULT if wanted.match_type == NO_NAME else sanitize(wanted.match or ""))
        if not matches:
            return False
    return True
