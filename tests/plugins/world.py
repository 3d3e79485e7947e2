"""A small bot for tests of plugins. All its services are in memory and record what plugins do."""

import hashlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from nekro_core.chat import (
    ChatKey,
    DeliveryState,
    Media,
    Receipt,
    Record,
    Segment,
    plain_text,
)
from nekro_core.plugins.authoring.binding import PluginBinding
from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.plugins.authoring.services import Services
from nekro_core.plugins.host.kinds import (
    NO_LEGACY_SUPPORT,
    NO_REGISTRARS,
    LegacySupport,
    PluginKind,
    Registrars,
)
from nekro_core.plugins.host.registry import PluginRegistry
from nekro_core.plugins.host.settings import PluginSettings
from nekro_core.plugins.tasks.runner import TaskRunner
from nekro_core.sandbox.box import BoxFileError
from nekro_core.speech.speaker import Speech, VoiceInfo

GROUP = ChatKey.parse("onebot_v11-group_30003")


@dataclass
class MemoryOutgoing:
    """An outbox that stores every message and returns ``answer``."""

    sent: list[tuple[ChatKey, tuple[Segment, ...], str]] = field(default_factory=list)
    answer: Receipt = field(
        default_factory=lambda: Receipt(state=DeliveryState.SENT, message_id="1")
    )

    async def send(
        self, chat_key: ChatKey, segments: Sequence[Segment], *, run_id: str = ""
    ) -> tuple[Receipt, ...]:
        self.sent.append((chat_key, tuple(segments), run_id))
        return (self.answer,)

    @property
    def texts(self) -> list[str]:
        return [plain_text(segments) for _, segments, _ in self.sent]


@dataclass
class MemoryEditor:
    """A platform that can edit messages, unless ``every_s`` is None."""

    every_s: float | None = 0.0
    edits: list[tuple[str, tuple[Segment, ...]]] = field(default_factory=list)
    answer: DeliveryState = DeliveryState.SENT

    def edit_every_s(self, chat_key: ChatKey) -> float | None:
        return self.every_s

    async def edit(
        self, chat_key: ChatKey, message_id: str, segments: Sequence[Segment]
    ) -> Receipt:
        self.edits.append((message_id, tuple(segments)))
        return Receipt(state=self.answer, message_id=message_id, reason="as it was told")

    @property
    def texts(self) -> list[str]:
        return [plain_text(segments) for _, segments in self.edits]


@dataclass
class MemoryJournal:
    notes: list[tuple[ChatKey, str, bool]] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)

    async def note(
        self, chat_key: ChatKey, text: str, *, run_id: str = "", trigger: bool = False
    ) -> None:
        self.notes.append((chat_key, text, trigger))

    async def newest(self, chat_key: ChatKey, limit: int) -> list[Record]:
        return self.records[-limit:]


@dataclass
class FolderMedia:
    """Stores media in a folder. Fetching an address returns the bytes in ``pages``."""

    folder: Path
    pages: dict[str, bytes] = field(default_factory=dict)

    async def keep_bytes(
        self, chat_key: ChatKey, data: bytes, *, name: str = "", expect: str = ""
    ) -> Media:
        digest = hashlib.sha256(data).hexdigest()
        self.folder.mkdir(exist_ok=True)
        path = self.folder / digest
        path.write_bytes(data)
        return Media(path=str(path), name=name, size=len(data), sha256=digest)

    async def keep_url(
        self, chat_key: ChatKey, url: str, *, name: str = "", expect: str = ""
    ) -> Media:
        if url not in self.pages:
            return Media(url=url, problem=f"{url} answers 404")
        return await self.keep_bytes(chat_key, self.pages[url], name=name)


@dataclass
class MemoryPluginData:
    kept: dict[tuple[str, ...], str] = field(default_factory=dict)

    async def get(
        self, plugin: str, *, chat_key: str = "", user_key: str = "", store_key: str = ""
    ) -> str | None:
        return self.kept.get((plugin, chat_key, user_key, store_key))

    async def set(
        self,
        plugin: str,
        value: str,
        *,
        chat_key: str = "",
        user_key: str = "",
        store_key: str = "",
    ) -> int:
        key = (plugin, chat_key, user_key, store_key)
        replaced = key in self.kept
        self.kept[key] = value
        return int(replaced)

    async def delete(
        self, plugin: str, *, chat_key: str = "", user_key: str = "", store_key: str = ""
    ) -> int:
        return int(self.kept.pop((plugin, chat_key, user_key, store_key), None) is None)


@dataclass
class MemoryBox:
    files: dict[str, bytes] = field(default_factory=dict)

    async def read_file(self, path: str, *, limit: int) -> bytes:
        if path not in self.files:
            raise BoxFileError("not_found", "no such file")
        if len(self.files[path]) > limit:
            raise BoxFileError("too_large", f"over {limit} bytes")
        return self.files[path]

    async def write_file(self, path: str, data: bytes, *, read_only: bool = False) -> int:
        self.files[path] = data
        return len(data)


class Mute:
    """A speaker without sound."""

    name = "mute"

    async def voices(self) -> tuple[VoiceInfo, ...]:
        return ()

    async def speak(self, text: str, *, voice: str | None = None, speed: float = 1.0) -> Speech:
        return Speech(wav=b"RIFF", seconds=0.0, voice="mute")

    async def aclose(self) -> None:
        return


class World:
    """Everything that a plugin can reach. Its files are under ``data_dir``."""

    def __init__(
        self,
        data_dir: Path,
        legacy: LegacySupport = NO_LEGACY_SUPPORT,
    ) -> None:
        self.legacy = legacy
        self.data_dir = data_dir
        self.outgoing = MemoryOutgoing()
        self.editor = MemoryEditor()
        self.journal = MemoryJournal()
        self.media = FolderMedia(data_dir / "media")
        self.plugin_data = MemoryPluginData()
        self.box = MemoryBox()
        self.services = Services(
            outgoing=self.outgoing,
            journal=self.journal,
            media=self.media,
            plugin_data=self.plugin_data,
            speaker=Mute(),
            data_dir=data_dir,
            editor=self.editor,
            tasks=TaskRunner(),
        )
        self.binding = PluginBinding(
            data_dir=data_dir, plugin_data=self.plugin_data, changed=lambda: None
        )

    def ctx(self, **fields: Any) -> AgentCtx:
        """The context of a run that a person called Lin caused."""
        context = self.legacy.make_context(
            services=self.services,
            chat=GROUP,
            from_user_id="10001",
            from_user_name="Lin",
            message_id="77",
            run_id="run-1",
            box=self.box,
        )
        return replace(context, **fields)

    def write(self, name: str, source: str) -> Path:
        """Write a plugin into the folder of local plugins."""
        path = self.data_dir / "plugins" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source, encoding="utf-8")
        return path

    @asynccontextmanager
    async def bot(
        self,
        builtin: Path | None = None,
        *,
        kinds: Sequence[PluginKind] = (),
        registrars: Registrars = NO_REGISTRARS,
        **settings: Any,
    ) -> AsyncIterator[PluginRegistry]:
        """Open the plugin registry. Without ``builtin`` it has only local plugins."""
        async with PluginRegistry.open(
            self.services,
            PluginSettings(**settings),
            builtin=builtin or self.data_dir / "no-builtin",
            kinds=kinds,
            registrars=registrars,
            legacy=self.legacy,
        ) as registry:
            yield registry


HEADER = """
from nekro_core.api.plugin import NekroPlugin, SandboxMethodType
from nekro_core.api.schemas import AgentCtx

plugin = NekroPlugin("{name}", "{name}", "A plugin.", "1", "{author}")
"""

TOOL = '''
@plugin.mount_sandbox_method(SandboxMethodType.TOOL, "{name}", "A tool.")
async def {name}(_ctx: AgentCtx, text: str = "") -> str:
    """Do {name}."""
    return "{author}: " + text
'''


def plugin_source(name: str, *tools: str, author: str = "ann", more: str = "") -> str:
    """The source of a small plugin with these tools."""
    body = "".join(TOOL.format(name=tool, author=author) for tool in tools)
    return HEADER.format(name=name, author=author) + body + more
