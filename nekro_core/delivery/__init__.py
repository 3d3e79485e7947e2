"""The way in and the way out: nothing lost, nothing twice, in order."""

from nekro_core.delivery.adapter import Adapter, Capabilities, Inbound
from nekro_core.delivery.errors import DeliveryError, NothingToSend, TooManySends
from nekro_core.delivery.host import Activity, Expected, Host, MediaKeeper, Recorded, Working
from nekro_core.delivery.inbox import Inbox
from nekro_core.delivery.local_host import LocalHost
from nekro_core.delivery.media import MediaStore
from nekro_core.delivery.outbox import Outbox
from nekro_core.delivery.settings import DeliverySettings, MediaSettings
from nekro_core.delivery.watch import Broadcast

__all__ = [
    "Activity",
    "Adapter",
    "Broadcast",
    "Capabilities",
    "DeliveryError",
    "DeliverySettings",
    "Expected",
    "Host",
    "Inbound",
    "Inbox",
    "LocalHost",
    "MediaKeeper",
    "MediaSettings",
    "MediaStore",
    "NothingToSend",
    "Outbox",
    "Recorded",
    "TooManySends",
    "Working",
]
