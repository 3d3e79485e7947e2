"""What a plugin can reach of the bot, as protocols: the app fills them, a test puts its own."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from nekro_core.chat import ChatKey, Receipt, Record, Segment
from nekro_core.compat.qdrant.home import VectorStore
from nekro_core.delivery.host import MediaKeeper
from nekro_core.llm.model import ChatModel, RequestUsage
from nekro_core.media.converter import Picture
from nekro_core.plugins.authoring.shared_folder_quota import MOST_BYTES
from nekro_core.plugins.packages import PackageFolder
from nekro_core.plugins.tasks.runner import TaskRunner
from nekro_core.sandbox.box import Box
from nekro_core.sandbox.tools import SandboxPool
from nekro_core.speech.speaker import Speaker
from nekro_core.timers import TimerService

if TYPE_CHECKING:
    from nekro_core.plugins.models.endpoints import PluginModels


class UrlFetcher(Protocol):
    """The network for plugins (`nekro_core.plugins.authoring.chat_network.PluginFetcher`)."""

    async def fetch(self, url: str) -> bytes:
        """The bytes behind a URL. Raises `NotFetched`."""


class MessageSender(Protocol):
    """The way out (`nekro_core.delivery.Outbox`)."""

    async def send(
        self, chat_key: ChatKey, segments: Sequence[Segment], *, run_id: str = ""
    ) -> tuple[Receipt, ...]:
        """Send segments, one platform call or several, and say what the platform answered."""


class MessageEditor(Protocol):
    """Changing what was sent (`nekro_core.delivery.Outbox`)."""

    def edit_every_s(self, chat_key: ChatKey) -> float | None:
        """How often a message of this chat may be changed; None where it cannot be."""

    async def edit(
        self, chat_key: ChatKey, message_id: str, segments: Sequence[Segment]
    ) -> Receipt:
        """Put other segments in the place of a sent message's."""


class PictureCopies(Protocol):
    """Strangers' pictures for a model's eyes (`nekro_core.media.converter.MediaConverter`)."""

    async def picture_to_show(self, picture: Path | bytes, *, longer_side: int) -> Picture:
        """A small copy, encoded afresh. Raises `UnusableMedia`."""


class Journal(Protocol):
    """A chat's record."""

    async def note(
        self, chat_key: ChatKey, text: str, *, run_id: str = "", trigger: bool = False
    ) -> None:
        """Add a system line; with ``trigger`` the agent of the chat answers it."""

    async def newest(self, chat_key: ChatKey, limit: int) -> list[Record]:
        """The newest records since the conversation last began, oldest first."""


class UsageMeter(Protocol):
    """What a turn may use of models (`nekro_core.policy.limits.Limits`)."""

    def refusal(self) -> str:
        """Why no more may be asked; empty where more may."""

    def spend_extra(self, usage: RequestUsage, cost: float = 0.0) -> None:
        """A request that is no step of the turn was paid for."""


class BoxFiles(Protocol):
    """The files of the box that a run has (`nekro_core.sandbox.Box`); paths are the box's own."""

    async def read_file(self, path: str, *, limit: int) -> bytes:
        """The bytes of a file. Raises `BoxFileError`."""

    async def write_file(self, path: str, data: bytes, *, read_only: bool = False) -> int:
        """Replace a file; give its size. Raises `BoxFileError`."""


class PluginBoxSource(Protocol):
    """Where boxes come from (`nekro_core.sandbox.supply.BoxSupply`)."""

    async def take(self, image: str = "") -> Box:
        """A fresh box of one's own. Raises `BackendUnavailable` and `ImageUnavailable`."""


class PluginDataStore(Protocol):
    """What plugins keep (`nekro_core.store.Store.plugin_data`)."""

    async def get(
        self, plugin: str, *, chat_key: str = "", user_key: str = "", store_key: str = ""
    ) -> str | None:
        """The text kept there."""

    async def set(
        self,
        plugin: str,
        value: str,
        *,
        chat_key: str = "",
        user_key: str = "",
        store_key: str = "",
    ) -> int:
        """Keep a text: 0 where it was created, 1 where one was replaced."""

    async def delete(
        self, plugin: str, *, chat_key: str = "", user_key: str = "", store_key: str = ""
    ) -> int:
        """Forget a text: 0 where there was one, 1 where there was none."""


class LegacyServices(Protocol):
    """What existing plugins ask of a context beyond its own words
    (`nekro_core.compat.nekro_agent.host`): the rows of its chat and its user, the platform's own
    objects, the configuration, presets."""

    def chat_channel(self, ctx: Any) -> Any:
        """The row of the context's chat."""

    def user(self, ctx: Any) -> Any:
        """The row of who asks; nothing where nobody does."""

    def adapter(self, ctx: Any) -> Any:
        """The adapter of the context's chat."""

    def core_config(self) -> Any:
        """The configuration of the bot."""

    async def onebot_bot(self, ctx: Any) -> Any:
        """NoneBot's `Bot` of the context's account. Raises `ToolFailure` where there is none."""

    async def preset(self, preset_id: int) -> Any:
        """One preset; nothing where there is none of that id."""

    async def current_preset(self, ctx: Any) -> Any:
        """The preset of the context's chat."""

    def keeps_silent(self, ctx: Any) -> bool:
        """Whether a plugin wants nobody answered in this chat, or not this person."""

    async def persona(self, ctx: Any) -> str:
        """Who the bot is in this chat, where a plugin gave it a preset; else an empty text."""

    async def set_preset(self, ctx: Any, preset_id: int | None) -> bool:
        """Give the chat another preset; None gives it the bot's own. False where there is none."""


def _adapter_of(instance: str) -> str:
    return instance.partition(".")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """Everything at once. ``adapter_of`` names the adapter of an instance, ``may_send_elsewhere``
    the plugins that may write to other chats than the one that asks, ``shared_bytes`` how much a
    chat's shared folder may hold; ``editor`` changes what was
    sent, where that can be, ``pictures`` makes copies for a model. ``boxes``, ``pool_of`` (a
    chat's boxes), ``model`` and ``fetcher`` are what cells work with (`nekro_core.reactive`);
    ``older`` is what existing plugins find in their context, ``tasks`` those that plugins run,
    ``timers`` what wakes chats at a time, ``models`` what plugins may ask,
    ``vectors`` what they keep to find by nearness."""

    outgoing: MessageSender
    journal: Journal
    media: MediaKeeper
    plugin_data: PluginDataStore
    speaker: Speaker
    data_dir: Path
    adapter_of: Callable[[str], str] = _adapter_of
    may_send_elsewhere: frozenset[str] = frozenset()
    shared_bytes: int = MOST_BYTES
    editor: MessageEditor | None = None
    pictures: PictureCopies | None = None
    boxes: PluginBoxSource | None = None
    pool_of: Callable[[ChatKey], SandboxPool] | None = None
    model: ChatModel | None = None
    fetcher: UrlFetcher | None = None
    packages: PackageFolder | None = None
    older: LegacyServices | None = None
    tasks: TaskRunner = field(default_factory=TaskRunner)
    timers: TimerService | None = None
    models: "PluginModels | None" = None
    vectors: VectorStore | None = None
