"""Re-exports everything that an adapter needs.

An adapter is a package with a manifest, ``adapter.toml``: docs/adapters.md describes both. The
package defines one of these names:

- ``create``, an `AdapterFactory`
- ``create_page``, an `OperatorPageFactory`, if the adapter shows a page to the operator
- ``factories``, a function that takes `Host.settings` and returns `AdapterFactory` by name

The package may also define ``SERVER_OPTIONS``, keyword arguments for the web server. An adapter
starts and ends its tasks with `AdapterTasks`. Files that must survive a restart are below
``adapter_data/NAME`` or, with tokens, ``secrets/NAME`` in `Host.data_dir`. Write them with
`write_whole`.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from nonebot.drivers import Driver

from nekro_core.delivery.account_settings import AccountSettingsStore, StoredAccounts
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
from nekro_core.delivery.contact_request import (
    ContactRequest,
    ContactRequestKind,
    ContactRequestState,
    request_id_of,
)
from nekro_core.delivery.errors import CannotDo, SignRefused
from nekro_core.delivery.markdown.html import html_from_markdown
from nekro_core.delivery.markdown.styled import (
    StyledPart,
    TextStyle,
    plain_from_markdown,
    styled_text,
    tables_as_code,
)
from nekro_core.delivery.media_contract import Expected, MediaKeeper, MediaLinker
from nekro_core.delivery.outbound.admin import OPEN_STATES
from nekro_core.delivery.outbound.match_delivery import match_delivery
from nekro_core.delivery.platforms.connector import AccountConnector
from nekro_core.delivery.platforms.contract import (
    AccountState,
    AccountStatus,
    ConnectionHint,
    ConnectionTest,
    HintField,
    HintSnippet,
    PlatformAccounts,
    ShownSettings,
    SupportsAccounts,
    SupportsRequests,
    TrafficCount,
)
from nekro_core.delivery.platforms.errors import (
    AccountError,
    AccountExists,
    AccountLocked,
    ConnectionProblem,
    ConnectionTestFailed,
    InvalidAccountSettings,
    UnknownAccount,
)
from nekro_core.delivery.platforms.manager import AccountManager
from nekro_core.delivery.platforms.monitor import AccountMonitor
from nekro_core.delivery.signs import SupportsReactions, SupportsTyping
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
    """Makes an adapter. The bot calls it once, before the web server runs, so add routes here and
    not in ``start``.

    If NoneBot's ``driver`` serves ASGI, ``driver.server_app`` is the FastAPI application. Raises
    `RuntimeError` with a remedy if the adapter cannot run safely.
    """

    def __call__(self, host: Host, driver: Driver) -> Adapter:
        """Make the adapter.

        Args:
            host: The bot's interface for adapters.
            driver: NoneBot's driver.

        Returns:
            The adapter, not yet started.
        """


class OperatorPageFactory(Protocol):
    """Makes an adapter that shows a page to the operator. Otherwise it works like
    `AdapterFactory`."""

    def __call__(self, host: Host, driver: Driver, operator: OperatorHost) -> Adapter:
        """Make the adapter.

        Args:
            host: The bot's interface for adapters.
            driver: NoneBot's driver.
            operator: Gives the data that the page may show, and carries out the operator's actions.

        Returns:
            The adapter, not yet started.
        """


class AdapterEraser(Protocol):
    """Erases a person from an adapter's files below the data folder. The manifest names it, as
    ``eraser = "module:function"``. The bot calls it even if the adapter does not run, so its module
    must be importable without the adapter's optional dependencies."""

    async def __call__(self, data_dir: Path, person: Person, traces: PersonTraces, /) -> int:
        """Erase the person. May be called again for the same person.

        Args:
            data_dir: The data folder.
            person: The person to erase, and the person's platform. This may be the platform of
                another adapter.
            traces: The places where the bot found the person, for example private chats.

        Returns:
            How many things were deleted or changed; 0 or more.

        Raises:
            OSError: Something could not be deleted; the text says what.
        """


@runtime_checkable
class Page(Protocol):
    """An adapter that has a page with a separate login. The bot prints the page's link when it
    starts, below the link of the console. A page behind the console's login needs no `Page`: its
    adapter adds the page to `OperatorHost.site`."""

    @property
    def access_token(self) -> str:
        """The token of the page's HTTP API."""

    def login_link(self, address: str) -> str:
        """Make a link that logs a browser in. The link works once.

        Args:
            address: The address of the bot's web server, for example ``http://10.0.0.5:8080``.

        Returns:
            The link, below that address.
        """


__all__ = [
    "OPEN_STATES",
    "AccountConnector",
    "AccountError",
    "AccountExists",
    "AccountLocked",
    "AccountManager",
    "AccountMonitor",
    "AccountSettingsStore",
    "AccountState",
    "AccountStatus",
    "Activity",
    "Adapter",
    "AdapterEraser",
    "AdapterFactory",
    "AdapterTasks",
    "BundleLimits",
    "CannotDo",
    "Capabilities",
    "ConnectionHint",
    "ConnectionProblem",
    "ConnectionTest",
    "ConnectionTestFailed",
    "ContactRequest",
    "ContactRequestKind",
    "ContactRequestState",
    "DeliveryRow",
    "Expected",
    "HintField",
    "HintSnippet",
    "Host",
    "InvalidAccountSettings",
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
    "PlatformAccounts",
    "PlatformMessage",
    "PluginShown",
    "PluginsShown",
    "Prefetch",
    "RateWindow",
    "Recorded",
    "ShownSettings",
    "SignRefused",
    "StoreUnavailable",
    "StoredAccounts",
    "StyledPart",
    "SupportsAccounts",
    "SupportsConfirmation",
    "SupportsEditing",
    "SupportsReactions",
    "SupportsRequests",
    "SupportsTyping",
    "TextStyle",
    "ToolAnswer",
    "ToolService",
    "TrafficCount",
    "UncertainDelivery",
    "UnknownAccount",
    "VoiceFormat",
    "VoiceLimits",
    "Working",
    "accept_patiently",
    "dispatch_event",
    "has_matchers",
    "html_from_markdown",
    "match_delivery",
    "plain_from_markdown",
    "request_id_of",
    "styled_text",
    "tables_as_code",
    "write_whole",
]

if TYPE_CHECKING:  # type checkers see the deprecated names here
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
