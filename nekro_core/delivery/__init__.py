"""The way in and the way out: nothing lost, nothing twice, in order."""

from nekro_core.delivery.accounts import AccountBook
from nekro_core.delivery.adapter import (
    Adapter,
    BundleLimits,
    Capabilities,
    Confirming,
    Doubt,
    Editing,
    Inbound,
    Shown,
)
from nekro_core.delivery.errors import (
    CannotDo,
    DeliveryError,
    NotFetched,
    NothingToSend,
    TooManySends,
)
from nekro_core.delivery.fetch import Fetcher
from nekro_core.delivery.host import (
    OPEN_STATES,
    Activity,
    Expected,
    Host,
    MediaKeeper,
    OutboxActions,
    Recorded,
    Working,
)
from nekro_core.delivery.inbox import Inbox
from nekro_core.delivery.local_host import LocalHost
from nekro_core.delivery.media import MediaStore
from nekro_core.delivery.outbox import Outbox
from nekro_core.delivery.settings import DeliverySettings, MediaSettings
from nekro_core.delivery.watch import Broadcast

__all__ = [
    "OPEN_STATES",
    "AccountBook",
    "Activity",
    "Adapter",
    "Broadcast",
    "BundleLimits",
    "CannotDo",
    "Capabilities",
    "Confirming",
    "DeliveryError",
    "DeliverySettings",
    "Doubt",
    "Editing",
    "Expected",
    "Fetcher",
    "Host",
    "Inbound",
    "Inbox",
    "LocalHost",
    "MediaKeeper",
    "MediaSettings",
    "MediaStore",
    "NotFetched",
    "NothingToSend",
    "Outbox",
    "OutboxActions",
    "Recorded",
    "Shown",
    "TooManySends",
    "Working",
]
