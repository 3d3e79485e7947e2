"""Builds the sessions of all chats, with the model, the policies and the commands that they use."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Self, assert_never

from anyio.abc import TaskGroup
from loguru import logger

from nekro_core.agent.commands.actions import ActionsInForce
from nekro_core.agent.commands.services import CommandServices
from nekro_core.agent.erasure.erasure import Eraser, PersonErasure
from nekro_core.agent.erasure.marks import FILE_NAME as MARKS
from nekro_core.agent.erasure.marks import ErasureMarks
from nekro_core.agent.erasure.shared_erasure import SharedErasure
from nekro_core.agent.participation.upgrade import keep_participation
from nekro_core.agent.prompt.captions import PictureCaptions
from nekro_core.agent.prompt.discovery import ToolDiscovery
from nekro_core.agent.prompt.pictures import PromptPictures
from nekro_core.agent.prompt.sandbox_facts import sandbox_facts
from nekro_core.agent.session.services import SessionServices
from nekro_core.agent.session.sessions import Sessions
from nekro_core.agent.turn.file_looks import FileLooks
from nekro_core.agent.turn.notices import NoticeSender
from nekro_core.app.adapter_host import Admission
from nekro_core.app.boxes import BoxServices
from nekro_core.app.erasure import from_overrides, personal_data
from nekro_core.app.extensions import Extensions
from nekro_core.app.memory import PromptMemory
from nekro_core.app.message_io import MessageIO
from nekro_core.app.models import ModelRegistry, ModelSources
from nekro_core.app.settings import Settings
from nekro_core.app.shared_marks import SharedMarks
from nekro_core.app.unasked import RoleJudge
from nekro_core.chat import ChatKey
from nekro_core.chat.catalogue import Catalogue
from nekro_core.compat.nekro_agent.box_runs import ChatCodeRunner
from nekro_core.delivery.inbound.inbox import InboxEvent, RecalledRecord, StoredRecord
from nekro_core.delivery.outbound.chat_signs import ChatSigns
from nekro_core.llm.chains import ModelChains
from nekro_core.llm.current import CurrentModel
from nekro_core.llm.embedded.settings import EmbeddedSettings
from nekro_core.llm.model import ChatModel
from nekro_core.llm.roles import RoleModels
from nekro_core.llm.settings import LLMSettings
from nekro_core.media.file_look import FileLooker
from nekro_core.plugins.commands.router import CommandRouter
from nekro_core.policy import PolicyFile
from nekro_core.policy.permissions import CommandAccess
from nekro_core.policy.personas import PersonaLibrary
from nekro_core.policy.resolver import PolicyResolver
from nekro_core.store import ChangeTopic
from nekro_core.system.background_tasks import background_tasks
from nekro_core.system.documents import DocumentFolder
from nekro_core.system.logs.book import LogBook
from nekro_core.system.secrets import kept_secret


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRuntime:
    """The sessions of all chats, and the task that gives the sessions the records from the inbox.

    Attributes:
        services: The objects that all sessions use, such as the store and the policies.
        sessions: The sessions.
        admission: Decides which arriving messages are stored.
        command_actions: Carries out the changes that chat commands ask for.
        erasure: Erases what the bot has stored about a person.
        models: The models. They can be replaced while the bot runs.
        roles: The models for the bot's own work, such as summaries; each kind of work is a role.
        personas: The library of personas.
        tasks: The task group of the task that gives the sessions their records. The group ends
            before the sessions end.
    """

    services: SessionServices
    sessions: Sessions
    admission: Admission
    command_actions: ActionsInForce
    erasure: PersonErasure
    models: ModelRegistry
    roles: RoleModels
    personas: PersonaLibrary
    tasks: TaskGroup

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        settings: Settings,
        data: Path,
        *,
        message_io: MessageIO,
        boxes: BoxServices,
        extensions: Extensions,
        sources: ModelSources,
        chains: ModelChains,
        roles: RoleModels,
        make_model: Callable[[LLMSettings, EmbeddedSettings], ChatModel],
        logs: LogBook,
        documents: DocumentFolder,
        clock: Callable[[], float],
        wall: Callable[[], float],
    ) -> AsyncIterator[Self]:
        """Build the runtime. When the block ends, all turns end."""
        policy_file = PolicyFile(documents)
        await policy_file.look()
        await keep_participation(message_io.store, policy_file)
        personas = PersonaLibrary(data, wall, documents)
        maibot = extensions.maibot
        async with AsyncExitStack() as stack:
            chains.staged = maibot.hooked
            named_models = sources.named
            turn_model = CurrentModel(lambda: chains.of_turns() or maibot.hooked(sources.default))
            policies = PolicyResolver(
                policy_file,
                settings.nekro_agent,
                settings.nekro_trigger,
                turn_model,
                chains.of_turns,
                personas=personas.text,
                adapter_of=message_io.store.accounts.adapter_of,
                saving=chains.saving,
            )
            extensions.plugins.services.tool_choices.use(lambda chat: policies.of(chat).tools)
            named_models.listen(chains.changed)  # first, because the policies use the chains
            named_models.listen(policies.recompute)
            personas.listen(policies.recompute)
            models = ModelRegistry(
                settings.nekro_llm,
                sources,
                chains,
                extensions.models,
                make_model,
                settings.nekro_embedded,
            )
            catalogue = Catalogue.load()
            router = CommandRouter(
                extensions.commands,
                settings.commands,
                extensions.plugins.context_for,
                message_io.store.accounts.adapter_of,
                catalogue,
                language=lambda: settings.nekro_agent.language,
                keeper=message_io.store.waiting,
                wall=wall,
                access=CommandAccess(settings.commands, policy_file),
            )
            message_io.outbox.overrides = policy_file.of
            signs = await stack.enter_async_context(
                ChatSigns(message_io.outbox.adapter, settings.nekro_delivery, policy_file.of)
            )
            prompt = settings.nekro_agent.prompt
            services = SessionServices(
                store=message_io.store,
                inbox=message_io.inbox,
                outbox=message_io.outbox,
                editor=message_io.outbox,
                signs=signs,
                notices=NoticeSender(
                    message_io.outbox, catalogue, lambda: settings.nekro_agent.language
                ),
                activity=message_io.activity,
                plugins=extensions.plugins,
                boxes=boxes.of_chats,
                pictures=PromptPictures(
                    message_io.converter,
                    longer_side=prompt.image_pixels,
                    bring=message_io.media.bring,
                ),
                settings=settings.nekro_agent,
                trigger=settings.nekro_trigger,
                policies=policies,
                run_limits=settings.nekro_sandbox.limits,
                clock=clock,
                wall=wall,
                discovery=ToolDiscovery(
                    prompt.found_tools, message_io.store.plugin_data, message_io.sentences
                ),
                transcriber=message_io.transcriber,
                captions=PictureCaptions(roles),
                looks=FileLooks(message_io.store, message_io.media, FileLooker()),
                capabilities=message_io.outbox.capabilities,
                sandbox=lambda: sandbox_facts(settings.nekro_sandbox, boxes.packages()),
                memory=PromptMemory(message_io.memory),
                quick_judge=RoleJudge(roles),
                telemetry=message_io.telemetry,
            )
            older = extensions.older
            marks = ErasureMarks(data / MARKS, partial(kept_secret, data, "erased"), wall)
            message_io.memory.scope.know_erased(marks.was_erased)
            shared_marks: tuple[Eraser, ...] = ()
            if settings.nekro_store.node:
                shared = SharedMarks(marks, message_io.store.documents)
                await shared.publish()
                message_io.store.changes.listen(ChangeTopic.DOCUMENTS, shared.take_over)
                shared_marks = (shared.erase,)
            erasure = PersonErasure(
                message_io.store,
                marks,
                outbox=message_io.outbox.admin,
                boxes=boxes.of_chats,
                timers=message_io.timers,
                media=message_io.media,
                data=data,
                erasers=personal_data(
                    data,
                    vectors=extensions.vectors,
                    older=older,
                    logs=logs,
                    memory=message_io.memory,
                    requests=message_io.requests,
                    announcements=message_io.announcements,
                ),
                shared_erasers=(*shared_marks, partial(from_overrides, policy_file)),
            )
            command_actions = ActionsInForce()
            commands = CommandServices(
                router=router,
                catalogue=catalogue,
                store=message_io.store,
                outbox=message_io.outbox.admin,
                policies=policies,
                actions=command_actions,
                settings=settings.nekro_agent,
                inbox=message_io.inbox,
                memory=message_io.memory,
                clock=clock,
                wall=wall,
            )
            sessions = await stack.enter_async_context(
                Sessions(services, commands, turn_model, erasure)
            )
            message_io.store.changes.listen(ChangeTopic.ERASED, sessions.forget_erased)
            older.reset = sessions.reset
            older.code_runner = ChatCodeRunner(services)
            tasks = await stack.enter_async_context(background_tasks())
            tasks.start_soon(personas.follow, name="a look at the personas")
            if settings.nekro_store.node:
                others = SharedErasure(message_io.store, sessions.erase_here)
                erasure.elsewhere = others.erase_elsewhere
                tasks.start_soon(others.live, name="erasures that other processes ask for")
            admission = Admission(policies, router, erasure)
            yield cls(
                services=services,
                sessions=sessions,
                admission=admission,
                command_actions=command_actions,
                erasure=erasure,
                models=models,
                roles=roles,
                personas=personas,
                tasks=tasks,
            )

    async def start(self) -> None:
        """Resume the work of an earlier process, then begin to give records to the sessions. Raises
        `StoreError`."""
        await self.sessions.recover()
        self.tasks.start_soon(self.feed_sessions, name="stored records to the sessions")

    async def feed_sessions(self) -> None:
        """Take stored records and recalls from the inbox, in the order of their commit, and hand
        each to the sessions. Never returns."""
        while True:
            event = await self.services.inbox.next_event()
            try:
                self._feed(event)
            except Exception:  # noqa: BLE001 (one bad record must not end this task)
                record = event.record
                logger.exception("{}: record {} is skipped", record.chat_key, record.seq)

    def _feed(self, event: InboxEvent) -> None:
        match event:
            case StoredRecord(record, arrived):
                self.sessions.on_record(record, self.services.clock() - arrived)
            case RecalledRecord(record):
                self.sessions.on_recall(record)
            case _:
                assert_never(event)

    def at_work(self, chat_key: ChatKey) -> bool:
        """Return True if a message of the chat is queued in the inbox, or if the chat's session is
        busy (see `Sessions.at_work`)."""
        queued = any(event.record.chat_key == chat_key for event in self.services.inbox.queued)
        return queued or self.sessions.at_work(chat_key)
