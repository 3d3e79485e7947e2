"""Re-exports everything that an adapter needs.

An adapter is a package with a manifest, ``adapter.toml``: docs/adapters.md describes both. The
package has ``create``, an `AdapterFactory`; or, if it shows a page to the operator,
``create_page``, an `OperatorPageFactory`; or ``factories``, a function that takes `Host.settings`
and returns several `AdapterFactory` by name. It may have ``SERVER_OPTIONS``, keyword arguments that
the adapter needs the web server to be run with. `AdapterTasks` begins and ends its tasks. To keep
data over a restart, it writes files below `Host.data_dir` with `write_whole`.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from nonebot.drivers import Driver

from nekro_core.delivery.activity import Activity, Recorded, Working
from nekro_core.delivery.adapter import (
    Adapter,
    BundleLimits,
    Capabilities,
    Host,
    PlatformMessage,
    SupportsConfirmation,
    SupportsEditing,
    UncertainDelivery,
)
from nekro_core.delivery.adapter_tasks import AdapterTasks, accept_patiently
from nekro_core.delivery.errors import CannotDo
from nekro_core.delivery.media_contract import Expected, MediaKeeper, MediaLinker
from nekro_core.delivery.outbound.admin import OPEN_STATES
from nekro_core.delivery.outbound.match_delivery import match_delivery
from nekro_core.media.limits import PictureLimits, PictureType, VoiceFormat, VoiceLimits
from nekro_core.operator.contract import (
    OperatorHost,
    OutboxActions,
    PluginShown,
    PluginsShown,
    ToolService,
)
from nekro_core.plugins.host.matcher_dispatch import (
    MatcherDecision,
    dispatch_event,
    has_matchers,
)
from nekro_core.store import DeliveryRow, Person, PersonTraces, StoreUnavailable
from nekro_core.system.atomic_files import write_whole
from nekro_core.system.deprecated import old_names
from nekro_core.system.errors import NekroError
from nekro_core.system.keyed_queue import KeyedLimiter, KeyedQueue, Prefetch
from nekro_core.system.rate_window import RateWindow
from nekro_core.tools.offer import ToolAnswer


class AdapterFactory(Protocol):
    """Makes an adapter, once, before the web server runs: routes are added here, not in ``start``.

    ``driver`` is NoneBot's. If it serves ASGI, ``driver.server_app`` is the FastAPI application.
    Raises `RuntimeError` with a remedy if the adapter cannot run safely.
    """

    def __call__(self, host: Host, driver: Driver) -> Adapter:
        """Make the adapter.

        Args:
            host: The bot, as the adapter sees it.
            driver: NoneBot's driver.

        Returns:
            The adapter, not yet started.
        """


class OperatorPageFactory(Protocol):
    """Makes an adapter that shows a page to the operator; else the same as `AdapterFactory`."""

    def __call__(self, host: Host, driver: Driver, operator: OperatorHost) -> Adapter:
        """Make the adapter.

        Args:
            host: The bot, as the adapter sees it.
            driver: NoneBot's driver.
            operator: What the page may show, and what it may do.

        Returns:
            The adapter, not yet started.
        """


class AdapterEraser(Protocol):
    """Erases a person from an adapter's files below the data folder. The manifest names it, as
    ``eraser = "module:function"``. It is called even if the adapter does not run, so its module
    must be importable without the adapter's extra."""

    async def __call__(self, data_dir: Path, person: Person, traces: PersonTraces, /) -> int:
        """Forget the person. May be called again for the same person.

        Args:
            data_dir: The data folder.
            person: Who is to be forgotten, on which platform; other platforms' people too.
            traces: What the bot knows of them, such as their private chats.

        Returns:
            How many things were deleted or changed; 0 or more.

        Raises:
            OSError: Something could not be deleted; the text says what.
        """


@runtime_checkable
class Page(Protocol):
    """An adapter with a page for browsers. The operator sees its address at the start."""

    @property
    def access_token(self) -> str:
        """The token of its HTTP API."""

    def login_link(self, address: str) -> str:
        """Make a link that logs a browser in, once.

        Args:
            address: Where the bot's web server is reached, for example ``http://10.0.0.5:8080``.

        Returns:
            The link, below that address.
        """


__all__ = [
    "OPEN_STATES",
    "Activity",
    "Adapter",
    "AdapterEraser",
    "AdapterFactory",
    "AdapterTasks",
    "BundleLimits",
    "CannotDo",
    "Capabilities",
    "DeliveryRow",
    "Expected",
    "Host",
    "KeyedLimiter",
    "KeyedQueue",
    "MatcherDecision",
    "MediaKeeper",
    "MediaLinker",
    "NekroError",
    "OperatorHost",
    "OperatorPageFactory",
    "OutboxActions",
    "Page",
    "Person",
    "PersonTraces",
    "PictureLimits",
    "PictureType",
    "PlatformMessage",
    "PluginShown",
    "PluginsShown",
    "Prefetch",
    "RateWindow",
    "Recorded",
    "StoreUnavailable",
    "SupportsConfirmation",
    "SupportsEditing",
    "ToolAnswer",
    "ToolService",
    "UncertainDelivery",
    "VoiceFormat",
    "VoiceLimits",
    "Working",
    "accept_patiently",
    "dispatch_event",
    "has_matchers",
    "match_delivery",
    "write_whole",
]

if TYPE_CHECKING:  # the old names, for type checkers
    Shown = PlatformMessage
    Confirming = SupportsConfirmation
    Editing = SupportsEditing
    Doubt = UncertainDelivery
    Serving = AdapterTasks
    ToolDesk = ToolService
    judged = match_delivery
    Lanes = KeyedQueue
    Reading = Prefetch
else:
    __getattr__ = old_names(
        __name__,
        {
            "Shown": "PlatformMessage",
            "Confirming": "SupportsConfirmation",
            "Editing": "SupportsEditing",
            "Doubt": "UncertainDelivery",
            "Serving": "AdapterTasks",
            "ToolDesk": "ToolService",
            "judged": "match_delivery",
            "Lanes": "KeyedQueue",
            "Reading": "Prefetch",
        },
        since="0.1.0",
        removed="0.3.0",
    )
