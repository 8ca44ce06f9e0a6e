"""UpdateFeatures: change finalized feature levels, of which no broker with ZooKeeper supports any."""

from __future__ import annotations

from messages import errors
from messages.acls import Operation
from messages.apis.declaration import CONTROLLER, TIMEOUT_MS, Api, Binding, on_cluster
from messages.vocabulary import Message, message

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3


@message
class FeatureUpdate(Message):
    """The level that a feature shall have. A level below 1 with a type other than UPGRADE deletes the feature."""

    feature: str
    max_version_level: int
    upgrade_type: int = UPGRADE


@message
class UpdateFeaturesRequest(Message):
    """A client's request to change finalized feature levels (API key 57)."""

    version: int
    feature_updates: tuple[FeatureUpdate, ...]
    timeout_ms: int = TIMEOUT_MS
    validate_only: bool = False


@message
class FeatureUpdateResult(Message):
    """The result of one update."""

    feature: str
    error_code: int
    error_message: str | None = None


@message
class UpdateFeaturesResponse(Message):
    """The response to UpdateFeatures."""

    error_code: int
    error_message: str | None = None
    results: tuple[FeatureUpdateResult, ...] = ()
    throttle_time_ms: int = 0


def _allows_downgrade(update: FeatureUpdate) -> bool:
    return update.upgrade_type != UPGRADE


def _upgrade_type(allow_downgrade: bool = False, upgrade_type: int = UPGRADE) -> int:
    return SAFE_DOWNGRADE if allow_downgrade else upgrade_type


API = Api(
    key=57,
    versions=(0, 1),
    request=UpdateFeaturesRequest,
    response=UpdateFeaturesResponse,
    answerer=CONTROLLER,
    access=(on_cluster(Operation.ALTER),),
    codes="NONE INVALID_REQUEST NOT_CONTROLLER",
    sample=lambda about: UpdateFeaturesRequest(1, (FeatureUpdate("metadata.version", 1),)),
    refuse=lambda request, code: UpdateFeaturesResponse(
        code, "This is not the correct controller for this cluster." if code == errors.NOT_CONTROLLER else None
    ),
    bindings={
        FeatureUpdate: Binding(written={"allow_downgrade": _allows_downgrade}, read={"upgrade_type": _upgrade_type}),
    },
    elsewhere=errors.NOT_CONTROLLER,
)
