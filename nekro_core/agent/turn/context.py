"""Collects a turn's data (history, steps, runs) and writes its prompts."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from zoneinfo import ZoneInfo

from nekro_core.agent.prompt.chat_place import ChatPlace
from nekro_core.agent.prompt.discovery import (
    deferred_functions_text,
    deferred_tools_text,
    found_tools_text,
)
from nekro_core.agent.prompt.functions import FunctionSet, tools_text
from nekro_core.agent.prompt.prompt import CallAnswer, FinishedStep, PromptView, build_prompt
from nekro_core.agent.prompt.quoting import PromptContent, PromptLines
from nekro_core.agent.prompt.small_step import SmallPromptStep
from nekro_core.agent.prompt.sources import SHARED, PromptSources
from nekro_core.agent.prompt.system_prompt import native_system_prompt, system_prompt
from nekro_core.agent.prompt.transcript import media_of
from nekro_core.agent.turn.history_window import in_window
from nekro_core.agent.turn.new_lines import NewLines
from nekro_core.agent.turn.reply import End, ModelReply
from nekro_core.agent.turn.services import PromptServices
from nekro_core.chat import Author, ChatKey, File, Image, Media, Record, Video, Voice
from nekro_core.delivery.inbound.voice_transcriber import VoiceTranscriber
from nekro_core.llm.model import (
    ChatRequest,
    FailoverOptions,
    FunctionCall,
    ImagePart,
    ModelProfile,
    message_text,
)
from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.policy.resolver import ChatPolicy
from nekro_core.store import MessageDecision, TurnRow
from nekro_core.tools.names import NamedTool, ToolSet

_MEDIA = frozenset({Image, Voice, Video, File})
"""The types of segments that have a file."""
_SHOWN_CODES = 6
"""Maximum number of past runs whose code a small model's prompt shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryMarks:
    """Sets of sequence numbers that say how a turn must treat records of the chat. The turn answers
    the records in ``unanswered``. The records in ``waiting`` are questions of other people, who get
    the next turns. The records in ``hidden`` must not be in a prompt. The records in ``unheard``
    were not passed to the plugins' hooks yet, which may change or hide them."""

    unanswered: frozenset[int]
    waiting: frozenset[int] = frozenset()
    hidden: frozenset[int] = frozenset()
    unheard: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRequest:
    """The input of a turn. ``trigger_record`` woke the turn. The turn answers this record's author
    and has the author's rights. ``mark`` returns the marks of records at this moment; they change
    when people write while the turn runs. ``listen`` passes new messages to the plugins' hooks,
    which may change or hide them. ``new_lines`` tells the turn when the asker writes again.
    ``judge`` says why a record is answered. ``resumed`` says that an earlier process began the
    turn."""

    chat_key: ChatKey
    trigger_record: Record
    mark: Callable[[Sequence[Record]], HistoryMarks]
    listen: Callable[[], Awaitable[None]] | None = None
    new_lines: NewLines | None = None
    judge: Callable[[Record], MessageDecision] | None = None
    resumed: bool = False


class TurnContext:
    """A turn's data: the chat's records, the finished steps, and the turn's runs."""

    def __init__(self, services: PromptServices, request: TurnRequest) -> None:
        self.request = request
        self.chat_key = request.chat_key
        self.records: list[Record] = []
        """The chat's history at the last read, oldest first."""
        self.through_seq = 0
        """The sequence number of the newest record that was read."""
        self.runs: set[str] = set()
        """The ids of the turn's own runs."""
        self.preface: PromptLines | None = None
        """For a resumed turn: the text that tells the model what the turn did before the
        restart."""
        self._services = services
        self._settings = services.settings
        self._began = services.wall()
        self._zone = ZoneInfo(self._settings.timezone) if self._settings.timezone else None
        self._marks = HistoryMarks(unanswered=frozenset())
        self._steps: list[FinishedStep] = []
        self._reply_tokens = self._settings.turn.reply_tokens
        self._small_steps: list[SmallPromptStep] = []
        self._found_before: tuple[NamedTool, ...] | None = None

    @property
    def has_steps(self) -> bool:
        """Whether the turn has finished a step."""
        return bool(self._steps)

    def media(self) -> list[Media]:
        """Return all media of the records, those of the newest record first. If a box has no room
        for all, it gets the first ones."""
        # The types are looked at first, because the history can have hundreds of records.
        with_media = [
            each for each in self.records if not _MEDIA.isdisjoint(map(type, each.segments))
        ]
        return [media for record in reversed(with_media) for media in media_of(record)]

    async def read_history(self) -> None:
        """Read the chat's newest records. Voice messages have their transcript if it is ready in
        time."""
        trigger, transcriber = self.request.trigger_record, self._services.transcriber
        if transcriber is not None:
            await transcriber.settled(self.chat_key)
        records = await self._newest_records()
        if transcriber is not None and self._transcribe_unanswered(transcriber, records):
            await transcriber.settled(self.chat_key)
            records = await self._newest_records()
        if not records or records[0].seq > trigger.seq:
            # So many records arrived after the trigger that the trigger was not read.
            records = [trigger, *records]
        # The author is looked at first, because the history can have hundreds of records.
        notes = (i for i, each in enumerate(records) if each.author is Author.SYSTEM)
        beginning = max((i for i in notes if records[i].begins_anew), default=-1)
        records = records[beginning + 1 :] or [trigger]
        self._marks = self.request.mark(records)
        # Plugins' hooks have not seen some new messages yet. Stop before the first of them: it and
        # all later records are read before the next step. The bot's own messages are read now: the
        # owner before may have answered earlier questions after it, and must not answer twice.
        unheard = (i for i, each in enumerate(records) if each.seq in self._marks.unheard)
        first = next(unheard, len(records))
        heard = records[:first] or [trigger]
        through = heard[-1].seq
        own = [each for each in records[first:] if each.author is Author.BOT]
        records = sorted([*heard, *own], key=lambda each: each.seq) if own else heard
        if self._marks.hidden:
            records = [record for record in records if record.seq not in self._marks.hidden]
        if self._services.looks is not None:
            records = await self._services.looks.look_into(records)
        self.records = records
        self.through_seq = max(self.through_seq, through)

    async def _newest_records(self) -> list[Record]:
        if self.request.listen is not None:
            await self.request.listen()
        return await self._services.store.messages.window(
            self.chat_key,
            self._settings.prompt.history,
            since=self._services.windows.of(self.chat_key).begin,
        )

    def _transcribe_unanswered(
        self, transcriber: VoiceTranscriber, records: Sequence[Record]
    ) -> bool:
        """In a resumed turn, begin to transcribe the unanswered voice messages that have no
        transcript. Returns whether there are any."""
        if not self.request.resumed:
            return False
        unanswered = self.request.mark(records).unanswered
        begun = [transcriber.begin(record) for record in records if record.seq in unanswered]
        return any(begun)

    def add_step(self, reply: ModelReply, report: tuple[PromptContent, ...]) -> None:
        """Add a finished step, for the prompts of the next steps."""
        self._steps.append(
            FinishedStep(reply=reply.kept, report=report, through_seq=self.through_seq)
        )
        lines = (part.lines for part in report if isinstance(part, PromptLines))
        self._small_steps.append(
            SmallPromptStep(
                code=reply.code.strip() or reply.kept,
                observation=PromptLines(tuple(chain.from_iterable(lines))),
            )
        )

    def add_empty_step(self, reply: ModelReply, report: tuple[PromptContent, ...]) -> None:
        """Add a finished step whose reply was empty."""
        self.add_step(reply, report)
        self.note_empty(reply.end)

    def note_empty(self, end: End) -> None:
        """Note how an empty reply ended. If it ended at the limit of tokens, the model used all
        tokens for thinking, so the next request allows twice as many."""
        if end == "length":
            self._reply_tokens *= 2

    def add_native_step(
        self, prose: str, calls: tuple[CallAnswer, ...], report: tuple[PromptContent, ...]
    ) -> None:
        """Add a finished step of a model that calls functions natively."""
        self._steps.append(
            FinishedStep(reply=prose, report=report, through_seq=self.through_seq, calls=calls)
        )

    @property
    def native_calls(self) -> list[FunctionCall]:
        """The native calls of all steps so far."""
        return [answer.call for step in self._steps for answer in step.calls]

    async def write_prompt(
        self,
        tools: ToolSet,
        ctx: AgentCtx,
        functions: FunctionSet | None = None,
        profile: ModelProfile | None = None,
    ) -> tuple[ChatRequest, bool, PromptSources]:
        """Return the request, whether its reply will be code without a fence, and the sources from
        which the request is made. If ``functions`` is given, the model calls them natively. The
        prompt is written for the chat's model, unless ``profile`` belongs to another model."""
        sources = PromptSources()
        policy = self._services.policies.of(self.chat_key)
        profile = profile or policy.model.profile
        found = self._services.discovery.found(self.chat_key, tools)
        if profile.prefers_examples and (
            request := await self._write_small_prompt(tools, found, policy, profile.unread)
        ):
            sources.add_text("system", message_text(request.messages[0]), scope=SHARED)
            return _written_for(request, profile), profile.grammar, sources
        if self._found_before is None:
            # The prefix of the prompt shows the tools that were found before the turn's first step.
            # It does not change during the turn, so that providers can cache it. If the model finds
            # more tools, it reads about them in the results of its steps.
            self._found_before = found
        view = await self._view(ctx, tools, profile)
        request = build_prompt(
            self._write_system_prompt(
                tools, policy, sources, natively=functions is not None, vision=profile.vision
            ),
            view,
            settings=self._settings.prompt,
            profile=profile,
            max_tokens=self._max_tokens(profile),
            functions=functions,
            sources=sources,
        )
        return _written_for(request, profile), False, sources

    def _max_tokens(self, profile: ModelProfile) -> int:
        """Return the maximum number of tokens of the next reply."""
        usual = self._settings.turn.reply_tokens
        if self._reply_tokens > usual:
            return min(self._reply_tokens, profile.context_tokens // 2)
        return min(usual, profile.context_tokens // 4)

    async def _write_small_prompt(
        self,
        tools: ToolSet,
        found: Sequence[NamedTool],
        policy: ChatPolicy,
        unread: Collection[str],
    ) -> ChatRequest | None:
        """Write the request for a small model. Returns None if no tool suits such a model."""
        # This import takes 15 ms, and only the embedded model needs it. `Sessions.prepare` has
        # imported it already if this is the bot's model.
        from nekro_core.agent.prompt.small_prompt import (  # noqa: PLC0415
            small_prompt,
            small_tools,
            with_found,
        )

        if not tools.once(small_tools):
            return None
        codes, turns = await self._past_runs()
        request = small_prompt(
            with_found(tools, found),
            self._with_questions_last(turns),
            persona=policy.persona,
            language=self._settings.language,
            codes=codes,
            steps=self._small_steps,
            unread=unread,
        )
        return replace(request, chat=str(self.chat_key))

    def _write_system_prompt(
        self,
        tools: ToolSet,
        policy: ChatPolicy,
        sources: PromptSources,
        *,
        natively: bool,
        vision: bool,
    ) -> str:
        names, persona = policy.names, policy.persona
        place = chat_place(self._services, self.chat_key, now=self._began, vision=vision)
        if natively:
            more = tools.once(deferred_functions_text)
            return native_system_prompt(
                names=names,
                persona=persona,
                place=place,
                sandbox=self._services.sandbox(),
                more=more,
                sources=sources,
            )
        return system_prompt(
            tools.once(tools_text),
            names=names,
            persona=persona,
            place=place,
            sandbox=self._services.sandbox(),
            more=tools.once(deferred_tools_text),
            found=found_tools_text(self._found_before or ()),
            sources=sources,
        )

    async def _view(self, ctx: AgentCtx, tools: ToolSet, profile: ModelProfile) -> PromptView:
        services = self._services
        asleep = services.discovery.asleep(self.chat_key, tools)
        injections = await services.plugins.prompt_injections(ctx, asleep)
        captions, shown = services.captions, dict[str, ImagePart]()
        described = captions is not None and captions.possible and not profile.vision
        if profile.vision or described:
            shown = await self._pictures()
        window = PromptView(
            chat_key=self.chat_key,
            records=self.records,
            unanswered=self._marks.unanswered,
            waiting=self._marks.waiting,
            asker=self.request.trigger_record.sender,
            reasons=self._reasons(),
            run_ids=self.runs,
            steps=self._steps,
            own_accounts=services.store.accounts.own(self.chat_key.instance),
            now=self._began,
            zone=self._zone,
            pictures=shown if profile.vision else {},
            vision=profile.vision,
            captions=await captions.of(self.chat_key, shown) if captions and described else {},
            injections=[(each.plugin, each.text) for each in injections],
            preface=self.preface,
        )
        view = await in_window(
            window,
            runs=services.store.runs,
            windows=services.windows,
            written=services.written,
            settings=self._settings.prompt,
            profile=profile,
        )
        self.records = [*view.records]
        memory = await services.memory.sections(
            self.chat_key,
            before_seq=view.records[0].seq,
            people={each.sender.user_id for each in view.records if each.author is Author.PERSON},
        )
        return replace(view, memory=memory)

    def _reasons(self) -> dict[int, str]:
        """Return why each question is answered."""
        judge = self.request.judge
        if judge is None:
            return {}
        asked = (each for each in self.records if each.seq in self._marks.unanswered)
        return {each.seq: judge(each).reason.value for each in asked}

    def _with_questions_last(self, turns: Mapping[str, TurnRow]) -> list[Record]:
        """Return the records in an order for small models. The questions of the asker are last,
        because a small model answers the last lines that it sees. Each past answer directly follows
        its question. In the history, answers may follow other people's questions."""
        questions = [record for record in self.records if record.seq in self._marks.unanswered]
        past: list[Record] = []
        for record in self.records:
            if record.seq in self._marks.unanswered or record.seq in self._marks.waiting:
                continue
            if record.author is Author.BOT:
                if record.run_id in self.runs:
                    continue
                past = _answered_last(past, turns, record.run_id)
            past.append(record)
        return [*past, *questions]

    async def _past_runs(self) -> tuple[dict[str, str], dict[str, TurnRow]]:
        """Return the code of the bot's latest `_SHOWN_CODES` answers in the history, and their
        turns, both by run id. The runs of this turn are left out."""
        runs = [r.run_id for r in self.records if r.author is Author.BOT and r.run_id]
        newest = [each for each in dict.fromkeys(reversed(runs)) if each not in self.runs]
        codes: dict[str, str] = {}
        turns: dict[str, TurnRow] = {}
        for run_id in newest[:_SHOWN_CODES]:
            if run := await self._services.store.runs.get(run_id):
                codes[run_id] = run.code.strip()
                if turn := await self._services.store.turns.of_run(run_id):
                    turns[run_id] = turn
        return codes, turns

    async def _pictures(self) -> dict[str, ImagePart]:
        """Return the newest pictures of people in the history, by path."""
        paths = [
            segment.media.path
            for record in reversed(self.records)
            if record.author is Author.PERSON and not record.recalled
            for segment in reversed(record.segments)
            if isinstance(segment, Image) and segment.media.path
        ]
        pictures: dict[str, ImagePart] = {}
        for path in paths[: self._settings.prompt.images]:
            if part := await self._services.pictures.part(path):
                pictures[path] = part
        return pictures


def _written_for(request: ChatRequest, profile: ModelProfile) -> ChatRequest:
    return replace(request, failover=FailoverOptions(written_for=profile))


def chat_place(
    services: PromptServices, chat_key: ChatKey, *, now: float, vision: bool
) -> ChatPlace:
    """Return where a turn of the chat happens. ``now`` is in seconds since 1970; ``vision`` says
    whether the model sees pictures."""
    accounts, zone = services.store.accounts, services.settings.timezone
    return ChatPlace(
        chat_key=chat_key,
        platform=accounts.adapter_of(chat_key.instance),
        name=services.store.chats.name(chat_key),
        own=accounts.own(chat_key.instance),
        zone=ZoneInfo(zone) if zone else None,
        now=now,
        shows=services.capabilities(chat_key),
        vision=vision,
    )


def _answered_last(
    records: Sequence[Record], turns: Mapping[str, TurnRow], run_id: str
) -> list[Record]:
    """Move the records that this run answered to the end, and return the result."""
    turn = turns.get(run_id)
    if turn is None:
        return [*records]
    own = (index for index, each in enumerate(records) if turns.get(each.run_id) == turn)
    since = records[max(own, default=-1) + 1 :]
    before = records[: len(records) - len(since)]
    theirs = [
        each
        for each in since
        if each.seq >= turn.trigger_seq and each.sender.user_id == turn.user_id
    ]
    return [*before, *(each for each in since if each not in theirs), *theirs]
