"""Runs a small bot for tests. Only the platform and the model are fakes."""

import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from nekro_core.agent.commands.actions import ActionsInForce
from nekro_core.agent.commands.services import CommandServices
from nekro_core.agent.erasure.erasure import PersonErasure
from nekro_core.agent.erasure.marks import ErasureMarks
from nekro_core.agent.participation.unasked import QuickJudge
from nekro_core.agent.prompt.captions import PictureCaptions
from nekro_core.agent.prompt.memory_sections import MemoryReader, NoMemory
from nekro_core.agent.prompt.pictures import PromptPictures
from nekro_core.agent.session.services import SessionServices
from nekro_core.agent.session.sessions import Sessions
from nekro_core.agent.settings import AgentSettings
from nekro_core.agent.turn.boxes import BoxSource, ChatBoxes
from nekro_core.agent.turn.file_looks import FileLooks
from nekro_core.agent.turn.notices import NoticeSender
from nekro_core.app.adapter_host import AdapterHost, Admission
from nekro_core.app.agent_runtime import AgentRuntime
from nekro_core.app.message_io import MessageIO
from nekro_core.chat import ChatKey, ChatMessage, Record, plain_text
from nekro_core.chat.catalogue import Catalogue
from nekro_core.delivery.accounts import AccountDirectory
from nekro_core.delivery.activity import Broadcast, Working
from nekro_core.delivery.inbound.inbox import ChatJournal, Inbox
from nekro_core.delivery.inbound.voice_transcriber import VoiceTranscriber
from nekro_core.delivery.media.store import MediaStore
from nekro_core.delivery.outbound.chat_signs import ChatSigns
from nekro_core.delivery.outbound.outbox import Outbox
from nekro_core.delivery.platforms.requests import ContactRequests
from nekro_core.delivery.settings import DeliverySettings
from nekro_core.llm.model import ChatModel, ChatRequest, TextPart
from nekro_core.media.converter import MediaConverter
from nekro_core.media.file_look import FileLooker
from nekro_core.memory.keeper import MemoryKeeper
from nekro_core.memory.settings import MemorySettings
from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.plugins.authoring.declarations import MsgSignal
from nekro_core.plugins.authoring.services import Services
from nekro_core.plugins.commands.book import CommandRegistry
from nekro_core.plugins.commands.router import CommandRouter
from nekro_core.plugins.host.hooks import MessageSignal, PromptInjection
from nekro_core.plugins.host.kinds import NO_BOX_EXTRAS, BoxExtras
from nekro_core.policy import PolicyFile
from nekro_core.policy.permissions import CommandAccess, CommandSettings
from nekro_core.policy.resolver import PolicyResolver
from nekro_core.policy.settings import TriggerSettings
from nekro_core.sandbox.box import BackendUnavailable, Box, RunLimits
from nekro_core.speech.settings import TranscriberSettings
from nekro_core.speech.speaker import Transcriber
from nekro_core.store import Store, StoreSettings
from nekro_core.store import TurnRow as StoredTurn
from nekro_core.system.background_tasks import background_tasks
from nekro_core.system.documents import FileDocuments
from nekro_core.tools.describe import describe
from nekro_core.tools.names import ToolSet, tool_set
from nekro_core.tools.tool import ToolKind
from tests.delivery.fakes import FakeAdapter, message

LIN = ChatKey.parse("fake-private_lin")
GROUP = ChatKey.parse("fake-group_30003")
SOON_SETTLED = DeliverySettings(settle_s=0.5)
"""Settings for platforms that show a message as soon as they have it."""


async def send_channel_message(_ctx: AgentCtx, text: str) -> str:
    """Say something.

    Args:
        text: The words.
    """
    (receipt, *_) = await _ctx.send_text(text)
    return receipt.state.value


def fence(code: str) -> str:
    """Return a reply that consists of this code in a fence."""
    return f"```python\n{code}\n```"


def text_of(request: ChatRequest, *, from_message: int = 0) -> str:
    """Return the text of all messages of a request, from message number ``from_message`` on."""
    return "\n".join(
        part.text
        for message in request.messages[from_message:]
        for part in message.parts
        if isinstance(part, TextPart)
    )


def kind_of(kind: str, name: str = "", **options: Any) -> Callable[[Any], tuple[Any, Any]]:
    """Make a decorator that gives a test's handler its tool kind and options."""

    def mark(handler: Any) -> tuple[Any, Any]:
        return handler, (ToolKind(kind), name or handler.__name__, options)

    return mark


class NoBoxes:
    """A machine on which no backend works."""

    unavailable = "user namespaces are forbidden here"
    pool_bytes = 0

    async def take(self, image: str = "") -> Box:
        raise BackendUnavailable(self.unavailable)


class FakePlugins:
    """Stands in for the bot's plugins. It has the tools of one plugin, and hooks that a test can
    set."""

    def __init__(self, services: Services, tools: ToolSet) -> None:
        self.services = services
        self.tools = tools
        self.signal: Callable[[Any], MsgSignal] = lambda _message: MsgSignal.CONTINUE
        self.injections: tuple[PromptInjection, ...] = ()
        self.asked: list[Callable[[], Awaitable[object]]] = []
        """`prompt_injections` takes the next of these functions at each call, and awaits it
        first."""
        self.looked: anyio.Event | None = None
        """If set, `on_user_message` waits for this event."""
        self.contexts: list[AgentCtx] = []
        self.resets: list[ChatKey] = []
        self.erased: list[str] = []
        self.extras = NO_BOX_EXTRAS

    def tools_for(self, chat_key: ChatKey) -> ToolSet:
        return self.tools

    async def tools_in(self, ctx: AgentCtx) -> ToolSet:
        return self.tools

    def box_extras(self, ctx: AgentCtx) -> BoxExtras:
        return self.extras

    def context_for(self, chat_key: ChatKey, **known: Any) -> AgentCtx:
        names = {"user_id": "from_user_id", "user_name": "from_user_name"}
        ctx = AgentCtx(
            services=self.services,
            chat=chat_key,
            **{names.get(name, name): value for name, value in known.items()},
        )
        self.contexts.append(ctx)
        return ctx

    async def prompt_injections(
        self, ctx: AgentCtx, asleep: Collection[str] = ()
    ) -> tuple[PromptInjection, ...]:
        if self.asked:
            await self.asked.pop(0)()
        return tuple(each for each in self.injections if each.plugin not in asleep)

    def has_message_hooks(self, ctx: AgentCtx) -> bool:
        return True

    async def on_user_message(self, ctx: AgentCtx, message: Any) -> MessageSignal:
        if self.looked is not None:
            await self.looked.wait()
        signal = self.signal(message)
        return MessageSignal(signal, "tests.hook" if signal else "")

    async def on_channel_reset(self, ctx: AgentCtx) -> None:
        self.resets.append(ctx.chat)

    async def on_user_erase(
        self, ctx: AgentCtx, adapter: str, user_id: str
    ) -> tuple[int, list[str]]:
        self.erased.append(f"{adapter}:{user_id}")
        return 1, []


LONG = TriggerSettings(debounce_s=30)
"""The bot waits 30 seconds for a person to type more, unless a test calls `Bot.typed`."""


class AheadClock:
    """The monotonic clock, plus the seconds by which a test has moved it ahead."""

    ahead_s = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.ahead_s


@dataclass
class Bot:
    """A running bot, and what a test does with it."""

    store: Store
    inbox: Inbox
    outbox: Outbox
    adapter: FakeAdapter
    activity: Broadcast
    journal: ChatJournal
    plugins: FakePlugins
    sessions: Sessions
    runtime: AgentRuntime
    memory: MemoryKeeper
    host: AdapterHost
    model: Any
    services: SessionServices
    commands: CommandRouter
    media: MediaStore
    clock: AheadClock

    def typed(self, chat: ChatKey = LIN) -> None:
        """End the wait for more text in the chat, so that the bot answers the messages that it has
        so far. If the bot was started with `LONG`, it does not answer them before this call, even
        on a slow machine."""
        self.clock.ahead_s += self.services.trigger.debounce_s
        self.sessions._sessions[chat]._news.set()

    async def say(self, text: str, chat: ChatKey = LIN, **more: Any) -> Record:
        """Send the bot a message from a person. Returns the stored record."""
        known = {"message_id": uuid.uuid4().hex[:8], "time": time.time()} | more
        record = await self.accept(message(chat, text, **known))
        assert record is not None
        return record

    async def store_only(self, text: str, chat: ChatKey = LIN) -> Record:
        """Store a message as another process does: nobody hands it to the sessions. The bot must
        have been started without ``feeds``."""
        said = message(chat, text, message_id=uuid.uuid4().hex[:8], time=time.time())
        await self.host.accept(said)
        await self.inbox.next_event()
        record = await self.store.messages.by_message_id(chat, said.message_id)
        assert record is not None
        return record

    async def accept(self, said: ChatMessage) -> Record | None:
        """Hand over a message as an adapter does, and wait until the sessions have received it.
        Returns the stored record, or None if the message was dropped."""
        await self.host.accept(said)
        await self.fed()
        if said.message_id:
            return await self.store.messages.by_message_id(said.chat_key, said.message_id)
        newest = await self.store.messages.newest(said.chat_key, 1)
        return newest[0] if newest and newest[0].segments == said.segments else None

    async def fed(self) -> None:
        """Wait until the sessions have received every stored record."""
        while self.inbox.queued:
            await anyio.sleep(0)

    async def ask(self, text: str, chat: ChatKey = LIN, **more: Any) -> list[str]:
        """Send a message and wait for the end of the turn. Return what the bot sent during the
        turn."""
        before = len(self.adapter.said(chat))
        async with self.turn(chat):
            await self.say(text, chat, **more)
        return self.said(chat)[before:]

    @asynccontextmanager
    async def turn(self, chat: ChatKey = LIN) -> AsyncIterator[None]:
        """A context manager. The block must start a turn; leaving the block waits for the end of
        the turn."""
        async with self.activity.watch(chat) as activities:
            yield
            with anyio.fail_after(30):
                async for activity in activities:
                    if activity == Working(chat, busy=False):
                        break
                await self.settled(chat)

    async def settled(self, chat: ChatKey = LIN) -> None:
        """Wait until no turn of the chat is marked as running in the store."""
        while any(turn.running for turn in await self.turns(chat)):
            await anyio.sleep(0.005)

    def said(self, chat: ChatKey = LIN) -> list[str]:
        """Return the texts that the bot has sent to the chat."""
        return [plain_text(segments) for segments in self.adapter.said(chat)]

    async def turns(self, chat: ChatKey = LIN) -> list[StoredTurn]:
        """Return the chat's turns in the store."""
        return await self.store.turns.latest(chat)

    async def last_turn(self, chat: ChatKey = LIN) -> StoredTurn:
        """Return the newest of the chat's turns in the store."""
        return (await self.turns(chat))[-1]

    def prompt(self, index: int = -1) -> str:
        """Return the text of a request to the model, without the system message."""
        return text_of(self.model.requests[index], from_message=1)


def tools_of(handlers: Iterable[Any]) -> ToolSet:
    """Make tools of handlers, as a plugin would mount them. A handler that `kind_of` has not marked
    is a ``tool``."""
    tools = []
    for each in handlers:
        handler, (kind, name, options) = (
            each if isinstance(each, tuple) else (each, (ToolKind.TOOL, each.__name__, {}))
        )
        described = describe(handler, kind, name=name, module="chat", owner="nekro.chat", **options)
        assert described.tool is not None, described.problems
        tools.append(described.tool)
    return tool_set(tools)


@asynccontextmanager
async def running_bot(
    folder: Path,
    boxes: BoxSource,
    model: ChatModel,
    *,
    tools: Sequence[Any] = (),
    settings: AgentSettings | None = None,
    trigger: TriggerSettings | None = None,
    command: CommandSettings | None = None,
    models: Callable[[str], ChatModel | None] = lambda _: None,
    saving: Callable[[float], ChatModel | None] = lambda _: None,
    captions: PictureCaptions | None = None,
    adapter: Any = None,
    account: str = "bot",
    run_limits: RunLimits | None = None,
    recover: bool = False,
    store_settings: StoreSettings | None = None,
    delivery: DeliverySettings | None = None,
    transcriber: Transcriber | None = None,
    wait_s: float = 10.0,
    memory: MemoryReader | None = None,
    quick_judge: QuickJudge | None = None,
    feeds: bool = True,
) -> AsyncIterator[Bot]:
    """Start a bot with its data in ``folder``. Without ``adapter`` it has a `FakeAdapter`;
    ``account`` is its account there. Without ``feeds`` the test takes the records out of the
    inbox."""
    settings, command = settings or AgentSettings(), command or CommandSettings()
    clock = AheadClock()
    trigger = trigger or TriggerSettings(debounce_s=0)
    adapter = adapter or FakeAdapter(text_length=4000)
    activity = Broadcast()
    folder.mkdir(exist_ok=True)
    conduct = PolicyFile(FileDocuments(folder))
    async with (
        Store.open(f"sqlite://{folder / 'nekro.sqlite3'}", store_settings) as store,
        MediaConverter() as converter,
        MediaStore(folder, converter=converter) as media,
        Outbox(store, {adapter.name: adapter}, activity, delivery, media=media) as outbox,
        ChatSigns(outbox.adapter, delivery or DeliverySettings(), conduct.of) as signs,
        VoiceTranscriber(
            store, activity, media, converter, transcriber, TranscriberSettings(wait_s=wait_s)
        ) as hearing,
    ):
        await store.accounts.bind(adapter.name, account)
        inbox = Inbox(store, activity, clock=clock)
        journal = ChatJournal(store, inbox)
        plugin_services = Services(
            outgoing=outbox,
            journal=journal,
            media=media,
            plugin_data=store.plugin_data,
            speaker=None,
            data_dir=folder,
        )
        await conduct.look()
        outbox.overrides = conduct.of
        plugins = FakePlugins(plugin_services, tools_of([send_channel_message, *tools]))
        catalogue = Catalogue.load()
        router = CommandRouter(
            CommandRegistry(),
            command,
            plugins.context_for,
            plugin_services.adapter_of,
            catalogue,
            access=CommandAccess(command, conduct),
        )
        services = SessionServices(
            store=store,
            inbox=inbox,
            outbox=outbox,
            editor=outbox,
            signs=signs,
            notices=NoticeSender(outbox, catalogue, lambda: settings.language),
            activity=activity,
            plugins=plugins,
            boxes=ChatBoxes(boxes, folder / "boxes", settings, clock=time.monotonic),
            pictures=PromptPictures(converter, longer_side=settings.prompt.image_pixels),
            settings=settings,
            trigger=trigger,
            policies=PolicyResolver(conduct, settings, trigger, model, models, saving=saving),
            run_limits=run_limits or RunLimits(),
            clock=clock,
            wall=time.time,
            transcriber=hearing,
            captions=captions,
            looks=FileLooks(store, media, FileLooker()),
            memory=memory or NoMemory(),
            quick_judge=quick_judge,
        )
        erasing = PersonErasure(
            store,
            ErasureMarks(folder / "erased.json", lambda: "secret", time.time),
            outbox=outbox.admin,
            boxes=services.boxes,
            media=media,
            data=folder,
        )
        memory = MemoryKeeper(store, MemorySettings(), data=folder, secret=lambda: "secret")
        await memory.load()
        commands = CommandServices(
            router=router,
            catalogue=catalogue,
            store=store,
            outbox=outbox.admin,
            policies=services.policies,
            actions=ActionsInForce(),
            settings=settings,
            inbox=inbox,
            memory=memory,
            clock=clock,
            wall=time.time,
        )
        unused: Any = None
        message_io = MessageIO(
            store=store,
            activity=activity,
            converter=converter,
            fetcher=unused,
            media=media,
            links=unused,
            inbox=inbox,
            adapters={adapter.name: adapter},
            outbox=outbox,
            journal=journal,
            transcriber=hearing,
            timers=unused,
            memory=memory,
            requests=ContactRequests(folder, {adapter.name: adapter}),
            announcements=unused,
            sentences=None,
            search=unused,
        )
        async with (
            AccountDirectory(store, folder) as accounts,
            Sessions(services, commands, model, erasing) as sessions,
            background_tasks() as tasks,
        ):
            host = AdapterHost(message_io, accounts, data_dir=folder, settings={})
            host.admission = Admission(services.policies, router, erasing)
            runtime = AgentRuntime(
                services=services,
                sessions=sessions,
                admission=host.admission,
                command_actions=commands.actions,
                erasure=erasing,
                models=unused,
                roles=unused,
                personas=unused,
                tasks=tasks,
            )
            if recover:
                await runtime.start()
            elif feeds:
                tasks.start_soon(runtime.feed_sessions)
            yield Bot(
                store=store,
                inbox=inbox,
                outbox=outbox,
                adapter=adapter,
                activity=activity,
                journal=journal,
                plugins=plugins,
                sessions=sessions,
                runtime=runtime,
                host=host,
                model=model,
                services=services,
                commands=router,
                memory=memory,
                media=media,
                clock=clock,
            )


def answer(text: str) -> str:
    return fence(f"send_channel_message({text!r})")


async def until(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(30):
        while not condition():
            await anyio.sleep(0.005)
