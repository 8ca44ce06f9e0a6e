"""The versioning of features (KIP-584), of which brokers with ZooKeeper support none.

Kafka: `KafkaController.maybeSetupFeatureVersioning`, `KafkaController.updateFeatures`.
"""

from __future__ import annotations

from actors.core.controller.context import ControllerContext
from messages import errors
from messages.apis.update_features import (
    SAFE_DOWNGRADE,
    UNSAFE_DOWNGRADE,
    UPGRADE,
    FeatureUpdate,
    FeatureUpdateResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from messages.flow.conversation import Flow, ask
from messages.protocol_version import at_least
from messages.vocabulary import AnyMessage
from messages.zookeeper import SetFeatureVersioning

SINCE = "2.7-IV0"
"""The first protocol version at which features have versions."""


def are_versioned(context: ControllerContext) -> bool:
    """Return whether features have versions at this controller's protocol version."""
    return at_least(context.settings.inter_broker_protocol_version, SINCE)


def set_versioning(context: ControllerContext) -> Flow[None]:
    """Enable or disable the versioning in ZooKeeper at the begin of a term."""
    yield from ask(SetFeatureVersioning(are_versioned(context), context.epoch_zk_version))


def update_features(context: ControllerContext, request: UpdateFeaturesRequest) -> Flow[AnyMessage]:
    """Refuse each update, of a repeated feature the first: there is neither a supported nor a finalized feature."""
    yield from ()
    if not are_versioned(context):
        return UpdateFeaturesResponse(errors.INVALID_REQUEST, "Feature versioning system is disabled.")
    updates: dict[str, FeatureUpdate] = {}
    for update in request.feature_updates:
        updates.setdefault(update.feature, update)
    results = [FeatureUpdateResult(name, errors.INVALID_REQUEST, _reason(each)) for name, each in updates.items()]
    return UpdateFeaturesResponse(errors.NONE, results=tuple(results))


def _reason(update: FeatureUpdate) -> str:
    """Return Kafka's error text."""
    if not update.feature:
        return "Feature name can not be empty."
    if update.upgrade_type not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        return "Received unknown upgrade type."
    if update.max_version_level >= 1:
        return "Could not apply finalized feature update because the provided feature is not supported."
    if update.upgrade_type != UPGRADE:
        return "Can not delete non-existing finalized feature."
    return (
        f"Can not provide versionLevel: {update.max_version_level} less than 1 without setting the SAFE downgradeType"
        " in the request."
    )
