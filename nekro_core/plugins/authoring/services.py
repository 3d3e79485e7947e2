"""The parts of the bot that plugins can use, as protocols. The app passes the real objects; tests
pass others."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol, TypeVar

from nekro_core.chat import ChatKey, Receipt, Record, Segment
from nekro_core.delivery.media_contract import MediaKeeper
from nekro_core.llm.metered_model import RequestLedger
from nekro_core.llm.model import ChatModel, Price, RequestUsage
from nekro_core.media.converter import Picture
from nekro_core.memory.keeper import MemoryKeeper
from nekro_core.memory.search.finder import MessageFinder
from nekro_core.plugins.authoring.limits import SHARED_BYTES
from nekro_core.plugins.authoring.tasks import TaskService
from nekro_core.plugins.authoring.tool_uses import PluginUses
from nekro_core.plugins.packages import PackageFolder
from nekro_core.policy.tool_choice import ToolChoices
from nekro_core.sandbox.box import Box
from nekro_core.sandbox.tools import SandboxPool
from nekro_core.speech.speaker import Speaker
from nekro_core.timers import TimerService


class UrlFetcher(Protocol):
    """Fetches URLs for plugins (`nekro_core.plugins.authoring.chat_network.PluginFetcher`)."""

    async def fetch(self, url: str) -> bytes:
        """Download the bytes of a URL. Raises `NotFetched`."""


class MessageSender(Protocol):
    """Sends messages (`nekro_core.delivery.Outbox`)."""

    async def send(
        self, chat_key: ChatKey, segments: Sequence[Segment], *, run_id: str = ""
    ) -> tuple[Receipt, ...]:
        """Send segments, in one or several platform calls. Returns a receipt for each call."""


class MessageEditor(Protocol):
    """Edits sent messages (`nekro_core.delivery.Outbox`)."""

    def edit_every_s(self, chat_key: ChatKey) -> float | None:
        """Get the minimum number of seconds between two edits of a message in this chat; None if
        the platform cannot edit messages."""

    async def edit(
        self, chat_key: ChatKey, message_id: str, segments: Sequence[Segment]
    ) -> Receipt:
        """Replace the segments of a sent message."""


class PictureCopies(Protocol):
    """Copies pictures for a model (`nekro_core.media.converter.MediaConverter`)."""

    async def picture_to_show(self, picture: Path | bytes, *, longer_side: int) -> Picture:
        """Make a small copy of a picture, by decoding it and encoding it again. Raises
        `UnusableMedia`."""


class Journal(Protocol):
    """Reads a chat's history and adds system lines to it."""

    async def note(
        self, chat_key: ChatKey, text: str, *, run_id: str = "", trigger: bool = False
    ) -> None:
        """Add a system line. With ``trigger``, the agent of the chat answers it."""

    async def newest(self, chat_key: ChatKey, limit: int) -> list[Record]:
        """Get the newest records since the last reset of the conversation, oldest first."""


class UsageMeter(Protocol):
    """Counts a turn's requests to models (`nekro_core.policy.limits.Limits`)."""

    def refusal(self) -> str:
        """Get the reason why the turn may make no further request; empty if it may."""

    def spend_extra(self, usage: RequestUsage, cost: float = 0.0) -> None:
        """Count a request to a model that is not a step of the turn."""


class BoxFiles(Protocol):
    """The files of a run's box (`nekro_core.sandbox.Box`). Paths are paths inside the box."""

    async def read_file(self, path: str, *, limit: int) -> bytes:
        """Read the bytes of a file. Raises `BoxFileError`."""

    async def write_file(self, path: str, data: bytes, *, read_only: bool = False) -> int:
        """Write or replace a file. Returns the size of the file. Raises `BoxFileError`."""


class PluginBoxSource(Protocol):
    """Makes boxes (`nekro_core.sandbox.supply.BoxSupply`)."""

    async def take(self, image: str = "") -> Box:
        """Get a new box, which the caller must close. Raises `BackendUnavailable` and
        `ImageUnavailable`."""


class PluginDataStore(Protocol):
    """Stores texts of plugins (`nekro_core.store.Store.plugin_data`)."""

    async def get(
        self, plugin: str, *, chat_key: str = "", user_key: str = "", store_key: str = ""
    ) -> str | None:
        """Get a stored text; None if there is none."""

    async def set(
        self,
        plugin: str,
        value: str,
        *,
        chat_key: str = "",
        user_key: str = "",
        store_key: str = "",
    ) -> int:
        """Store a text. Returns 0 if the text is new, 1 if it replaced one."""

    async def delete(
        self, plugin: str, *, chat_key: str = "", user_key: str = "", store_key: str = ""
    ) -> int:
        """Delete a text. Returns 0 if there was one, 1 if there was none."""


class ModelEndpoints(Protocol):
    """The models that plugins may use (`nekro_core.plugins.models.endpoints.PluginModels`)."""

    @property
    def ledger(self) -> RequestLedger:
        """The ledger that counts all requests."""

    async def chat(
        self, model: str, *, base_url: str = "", api_key: str = "", proxy: str = ""
    ) -> ChatModel:
        """Get the model of this name at this URL. Without a URL, this is the bot's own model,
        whatever the name. Raises `RequestRejected` if the values are not valid for an endpoint."""

    def role(self, role: str) -> ChatModel | None:
        """Get the model of a role, such as ``quick``; None if the operator configured none. Raises
        `RequestRejected` if there is no such role."""

    def groups_of(self, role: str) -> tuple[str, ...]:
        """Get the names of the model groups of a role in the order in which they are to be asked,
        for roles such as ``draw`` whose models do not answer chats. Raises `RequestRejected` if
        there is no such role."""

    def price(self, base_url: str, model: str) -> Price:
        """Get the operator's price of a model; zero if the operator configured no such model."""


class PayloadRedactor(Protocol):
    """Removes a person from payloads. A payload is the data that is stored with a vector."""

    def is_about(self, payload: dict[str, Any]) -> bool:
        """Return True if a payload is about the person. The vector and its payload are then
        deleted."""

    def value(self, payload: Any) -> Any:
        """Get the payload without the person."""


class VectorStore(Protocol):
    """Stores vectors of plugins and finds similar ones (`nekro_core.compat.qdrant`)."""

    async def client(self) -> Any:
        """Get the client through which plugins use the store. All plugins share one client."""

    def open_client(self) -> Any:
        """Get the same client as `client`. Call this only in a thread: it blocks while the client's
        code is imported."""

    async def forget(self, forgotten: PayloadRedactor) -> int:
        """Delete the points (vectors with their payloads) that are about a person, and remove the
        person from other payloads. Returns how many points were deleted or changed."""


def _adapter_of(instance: str) -> str:
    return instance.partition(".")[0]


def _no_name(_: ChatKey) -> str:
    return ""


Extension = TypeVar("Extension")


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The parts of the bot that a plugin can use. None means that the bot does not have the part.

    Attributes:
        outgoing: Sends messages.
        journal: Reads chats' histories and adds lines to them.
        media: Stores media.
        plugin_data: Stores the texts of ``plugin.store``.
        speaker: Speaks texts.
        data_dir: The data folder of the bot.
        adapter_of: Returns the name of the adapter of an instance.
        chat_name: Returns the name of a group or channel; empty if it is not known.
        may_send_elsewhere: Keys of the plugins that may write to other chats than the chat of the
            call. The set changes when the operator changes this setting.
        shared_bytes: The maximum size of a chat's shared folder, in bytes.
        editor: Edits sent messages.
        pictures: Makes copies of pictures for a model.
        boxes: Makes new boxes for cells (`nekro_core.reactive`).
        pool_of: Returns the named boxes of a chat.
        model: The bot's own model. Requests to it are counted.
        fetcher: Fetches URLs.
        packages: The folder with the packages of plugins.
        tasks: Runs plugins' tasks.
        timers: Wakes chats' agents at set times.
        models: Gives access to other models.
        vectors: Stores vectors.
        search: Finds messages of chats.
        bring_media: Copies a stored medium to this machine by its path, if another process of the
            bot has stored it.
        memory: Keeps notes of chats.
        uses: Counts the calls of tools and the errors of plugins.
        tool_choices: Which tools the operator has switched off in a chat.
        extensions: Objects of rooms on higher floors, which this room cannot import, by their
            class; see `extension`.
    """

    outgoing: MessageSender
    journal: Journal
    media: MediaKeeper
    plugin_data: PluginDataStore
    speaker: Speaker
    data_dir: Path
    adapter_of: Callable[[str], str] = _adapter_of
    chat_name: Callable[[ChatKey], str] = _no_name
    may_send_elsewhere: AbstractSet[str] = frozenset()
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
    memory: MemoryKeeper | None = None
    uses: PluginUses | None = None
    search: MessageFinder | None = None
    bring_media: Callable[[str], Awaitable[None]] | None = None
    tool_choices: ToolChoices = field(default_factory=ToolChoices)

    def extension(self, kind: type[Extension]) -> Extension | None:
        """Get the object of this class from ``extensions``; None if there is none."""
        return self.extensions.get(kind)
