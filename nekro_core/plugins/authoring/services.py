"""The parts of the bot that plugins can use, as protocols. The app passes them in; tests pass
others."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol, TypeVar

from nekro_core.chat import ChatKey, Receipt, Record, Segment
from nekro_core.delivery.media_contract import MediaKeeper
from nekro_core.llm.model import ChatModel, ModelProfile, Price, RequestUsage
from nekro_core.media.converter import Picture
from nekro_core.plugins.authoring.tasks import TaskService
from nekro_core.plugins.packages import PackageFolder
from nekro_core.sandbox.box import Box
from nekro_core.sandbox.tools import SandboxPool
from nekro_core.speech.speaker import Speaker
from nekro_core.timers import TimerService

SHARED_BYTES = 512 * 1024 * 1024
"""Bytes of a chat's shared folder on the host, unless the operator sets another number."""


class UrlFetcher(Protocol):
    """The network for plugins (`nekro_core.plugins.authoring.chat_network.PluginFetcher`)."""

    async def fetch(self, url: str) -> bytes:
        """The bytes behind a URL. Raises `NotFetched`."""


class MessageSender(Protocol):
    """Sends messages (`nekro_core.delivery.Outbox`)."""

    async def send(
        self, chat_key: ChatKey, segments: Sequence[Segment], *, run_id: str = ""
    ) -> tuple[Receipt, ...]:
        """Send segments, in one platform call or several. Returns a receipt for each."""


class MessageEditor(Protocol):
    """Edits sent messages (`nekro_core.delivery.Outbox`)."""

    def edit_every_s(self, chat_key: ChatKey) -> float | None:
        """Least seconds between two edits of a message in this chat; None if it cannot be
        edited."""

    async def edit(
        self, chat_key: ChatKey, message_id: str, segments: Sequence[Segment]
    ) -> Receipt:
        """Replace the segments of a sent message."""


class PictureCopies(Protocol):
    """Copies pictures for a model (`nekro_core.media.converter.MediaConverter`)."""

    async def picture_to_show(self, picture: Path | bytes, *, longer_side: int) -> Picture:
        """Make a small copy, decoded and encoded again. Raises `UnusableMedia`."""


class Journal(Protocol):
    """Reads a chat's history and adds system lines to it."""

    async def note(
        self, chat_key: ChatKey, text: str, *, run_id: str = "", trigger: bool = False
    ) -> None:
        """Add a system line; with ``trigger`` the agent of the chat answers it."""

    async def newest(self, chat_key: ChatKey, limit: int) -> list[Record]:
        """The newest records since the last reset of the conversation, oldest first."""


class UsageMeter(Protocol):
    """Counts what a turn uses of models (`nekro_core.policy.limits.Limits`)."""

    def refusal(self) -> str:
        """Why the turn may make no further request; empty if it may."""

    def spend_extra(self, usage: RequestUsage, cost: float = 0.0) -> None:
        """Count a request that is no step of the turn."""


class BoxFiles(Protocol):
    """The files of the box that a run has (`nekro_core.sandbox.Box`); paths are the box's own."""

    async def read_file(self, path: str, *, limit: int) -> bytes:
        """The bytes of a file. Raises `BoxFileError`."""

    async def write_file(self, path: str, data: bytes, *, read_only: bool = False) -> int:
        """Replace a file. Returns its size. Raises `BoxFileError`."""


class PluginBoxSource(Protocol):
    """Makes boxes (`nekro_core.sandbox.supply.BoxSupply`)."""

    async def take(self, image: str = "") -> Box:
        """Get a new box that the caller owns. Raises `BackendUnavailable` and
        `ImageUnavailable`."""


class PluginDataStore(Protocol):
    """Stores texts of plugins (`nekro_core.store.Store.plugin_data`)."""

    async def get(
        self, plugin: str, *, chat_key: str = "", user_key: str = "", store_key: str = ""
    ) -> str | None:
        """The stored text; None if there is none."""

    async def set(
        self,
        plugin: str,
        value: str,
        *,
        chat_key: str = "",
        user_key: str = "",
        store_key: str = "",
    ) -> int:
        """Store a text. Returns 0 if it is new, 1 if it replaced one."""

    async def delete(
        self, plugin: str, *, chat_key: str = "", user_key: str = "", store_key: str = ""
    ) -> int:
        """Delete a text. Returns 0 if there was one, 1 if there was none."""


class ModelLedger(Protocol):
    """Counts plugins' requests to models (`nekro_core.plugins.models.metered.UsageLedger`)."""

    def check(self) -> None:
        """Raises `QuotaExceeded` if the turn of the current call may use no more."""

    def count(self, usage: RequestUsage, profile: ModelProfile, started: float) -> None:
        """Count a request. ``started`` is when it began, by `now`."""

    def now(self) -> float:
        """Seconds since 1970."""


class ModelEndpoints(Protocol):
    """The models that plugins may ask (`nekro_core.plugins.models.endpoints.PluginModels`)."""

    @property
    def ledger(self) -> ModelLedger:
        """Where all requests are counted."""

    async def chat(
        self, model: str, *, base_url: str = "", api_key: str = "", proxy: str = ""
    ) -> ChatModel:
        """The model of this name at this address. Without an address it is the bot's own, whatever
        the name. Raises `RequestRejected` if the values make no valid endpoint."""

    def price(self, base_url: str, model: str) -> Price:
        """The operator's price of a model; zero if the operator configured no such model."""


class PayloadRedactor(Protocol):
    """Removes a person from what is stored beside vectors."""

    def is_about(self, payload: dict[str, Any]) -> bool:
        """Whether a payload is about the person, so that its point is deleted."""

    def value(self, payload: Any) -> Any:
        """The payload without the person."""


class VectorStore(Protocol):
    """Stores vectors of plugins and finds near ones (`nekro_core.compat.qdrant`)."""

    async def client(self) -> Any:
        """The client through which plugins use the store; one for all of them."""

    async def forget(self, forgotten: PayloadRedactor) -> int:
        """Delete the points that are about a person and remove the person from others. Returns how
        many points were changed."""


def _adapter_of(instance: str) -> str:
    return instance.partition(".")[0]


Extension = TypeVar("Extension")


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The parts of the bot that a plugin can use. None means that the bot does not have it.

    Attributes:
        outgoing: Sends messages.
        journal: Reads and adds to chats' records.
        media: Keeps media.
        plugin_data: Keeps the texts of ``plugin.store``.
        speaker: Speaks texts.
        data_dir: The data folder of the bot.
        adapter_of: Names the adapter of an instance.
        may_send_elsewhere: Keys of the plugins that may write to other chats than the one that
            asks.
        shared_bytes: How much a chat's shared folder may hold.
        editor: Changes sent messages.
        pictures: Makes copies of pictures for a model.
        boxes: Gives fresh boxes to cells (`nekro_core.reactive`).
        pool_of: Gives the named boxes of a chat.
        model: The bot's own model, counted.
        fetcher: Fetches URLs.
        packages: The installed packages of plugins.
        tasks: Runs plugins' tasks.
        timers: Wakes chats at a time.
        models: Gives other models.
        vectors: Keeps vectors.
        extensions: Objects of rooms above this one, by their class; see `extension`.
    """

    outgoing: MessageSender
    journal: Journal
    media: MediaKeeper
    plugin_data: PluginDataStore
    speaker: Speaker
    data_dir: Path
    adapter_of: Callable[[str], str] = _adapter_of
    may_send_elsewhere: frozenset[str] = frozenset()
    shared_bytes: int = SHARED_BYTES
    editor: MessageEditor | None = None
    pictures: PictureCopies | None = None
    boxes: PluginBoxSource | None = None
    pool_of: Callable[[ChatKey], SandboxPool] | None = None
    model: ChatModel | None = None
    fetcher: UrlFetcher | None = None
    packages: PackageFolder | None = None
    extensions: Mapping[type[Any], Any] = field(default_factory=lambda: MappingProxyType({}))
    tasks: TaskService | None = None
    timers: TimerService | None = None
    models: ModelEndpoints | None = None
    vectors: VectorStore | None = None

    def extension(self, kind: type[Extension]) -> Extension | None:
        """Get the object of this class from ``extensions``; None if there is none."""
        return self.extensions.get(kind)
