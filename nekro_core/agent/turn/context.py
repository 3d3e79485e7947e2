"""What a turn knows so far, and the prompt that it makes of it."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from zoneinfo import ZoneInfo

from nekro_core.agent.prompt.discovery import (
    deferred_functions_text,
    deferred_tools_text,
    found_tools_text,
)
from nekro_core.agent.prompt.functions import FunctionSet, tools_text
from nekro_core.agent.prompt.prompt import CallAnswer, FinishedStep, PromptView, build_prompt
from nekro_core.agent.prompt.quoting import PromptContent, PromptLines
from nekro_core.agent.prompt.small_prompt import (
    SmallPromptStep,
    small_prompt,
    small_tools,
    with_found,
)
from nekro_core.agent.prompt.system_prompt import native_system_prompt, system_prompt
from nekro_core.agent.prompt.transcript import media_of
from nekro_core.agent.turn.ports import Ports
from nekro_core.agent.turn.reply import ModelReply
from nekro_core.chat import Author, ChatKey, Image, Media, Record
from nekro_core.llm.model import ChatRequest, ImagePart
from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.store import TurnRow
from nekro_core.tools.names import NamedTool, ToolSet

_CODES = 6
"""Past runs whose code a small model is shown."""


def _nobody(_: Sequence[Record]) -> frozenset[int]:
    return frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRequest:
    """Why a turn is there. ``asks`` is the record that woke it; whoever wrote it is who the turn
    answers, with their rights. ``is_unanswered`` tells of any record whether it is theirs and waits
    for an answer, ``waiting`` which of these records other people ask, who get the next turns.
    ``hidden`` are records that no prompt may show. ``resumed`` marks a turn that a dead process
    left."""

    chat_key: ChatKey
    trigger_record: Record
    is_unanswered: Callable[[Record], bool]
    waiting: Callable[[Sequence[Record]], Collection[int]] = _nobody
    hidden: Collection[int] = ()
    resumed: bool = False


class TurnContext:
    """The chat's records, the steps that were taken, and the turn's own runs."""

    def __init__(self, ports: Ports, task: TurnRequest) -> None:
        self._ports = ports
        self._task = task
        self._began = ports.wall()
        self._zone = ZoneInfo(ports.settings.timezone) if ports.settings.timezone else None
        self._steps: list[FinishedStep] = []
        self._codes: list[SmallPromptStep] = []
        self.records: list[Record] = []
        self.through_seq = 0
        """The newest record that was looked at."""
        self.runs: set[str] = set()
        self.preface: PromptLines | None = None
        self._found: tuple[NamedTool, ...] | None = None

    @property
    def media(self) -> list[Media]:
        """Everything that was received with the records."""
        return [media for record in self.records for media in media_of(record)]

    async def look(self) -> None:
        """Read what the chat has by now, voices with their words where those come in time."""
        hearing, wanted = self._ports.hearing, self._ports.settings.prompt.history * 2
        if hearing is not None:
            await hearing.settled(self._task.chat_key)
        found = await self._ports.store.messages.newest(self._task.chat_key, wanted)
        working = [self._begin_hearing(record) for record in found if self._task.resumed]
        if hearing is not None and any(working):
            await hearing.settled(self._task.chat_key)
            found = await self._ports.store.messages.newest(self._task.chat_key, wanted)
        if not found or found[0].seq > self._task.trigger_record.seq:
            found = [self._task.trigger_record, *found]  # a flood came after what is to be answered
        begun = max((place for place, each in enumerate(found) if each.begins_anew), default=-1)
        found = found[begun + 1 :] or [self._task.trigger_record]
        self.records = [record for record in found if record.seq not in self._task.hidden]
        self.through_seq = max(self.through_seq, found[-1].seq)

    def _begin_hearing(self, record: Record) -> bool:
        """Of what is to be answered, write down what a dead process did not come to."""
        hearing = self._ports.hearing
        return hearing is not None and self._task.is_unanswered(record) and hearing.begin(record)

    def remember(self, reply: ModelReply, parts: tuple[PromptContent, ...]) -> None:
        """Keep a step for the prompt of the next one."""
        self._steps.append(
            FinishedStep(reply=reply.kept, report=parts, through_seq=self.through_seq)
        )
        told = PromptLines(
            tuple(line for each in parts if isinstance(each, PromptLines) for line in each.lines)
        )
        self._codes.append(SmallPromptStep(code=reply.code.strip() or reply.kept, observation=told))

    def add_calls(
        self, prose: str, calls: tuple[CallAnswer, ...], parts: tuple[PromptContent, ...]
    ) -> None:
        """Keep a step of a model that calls functions natively."""
        self._steps.append(
            FinishedStep(reply=prose, report=parts, through_seq=self.through_seq, calls=calls)
        )

    async def prompt(
        self, tools: ToolSet, ctx: AgentCtx, functions: FunctionSet | None = None
    ) -> tuple[ChatRequest, bool]:
        """The request, and whether its reply is code without a fence. With ``functions`` the model
        calls them natively."""
        manner, settings = self._ports.policies.of(self._task.chat_key), self._ports.settings
        profile = manner.model.profile
        chat_key, discovery = self._task.chat_key, self._ports.discovery
        found = discovery.found(chat_key, tools)
        if profile.prefers_examples and small_tools(tools):
            codes, turns = await self._past_runs()
            request = small_prompt(
                with_found(tools, found),
                self._up_to_what_is_asked(turns),
                persona=manner.persona,
                language=settings.language,
                codes=codes,
                steps=self._codes,
            )
            return replace(request, chat=str(chat_key)), profile.grammar
        # What the turn itself finds, its steps tell: the prefix of their prompts stays the same.
        self._found = found if self._found is None else self._found
        asleep = discovery.asleep(chat_key, tools)
        injections = await self._ports.plugins.prompt_injections(ctx, asleep)
        notes = "\n\n".join(f"[{each.plugin}]\n{each.text}" for each in injections)
        view = PromptView(
            chat_key=self._task.chat_key,
            records=self.records,
            unanswered={r.seq for r in self.records if self._task.is_unanswered(r)},
            waiting=self._task.waiting(self.records),
            asker=self._task.trigger_record.sender,
            run_ids=self.runs,
            steps=self._steps,
            own_accounts=self._ports.store.accounts.own(self._task.chat_key.instance),
            now=self._began,
            zone=self._zone,
            pictures=await self._pictures() if profile.vision else {},
            preface=self.preface,
        )
        names, persona = manner.names, manner.persona
        if functions is None:
            code, more = tools.once(tools_text), tools.once(deferred_tools_text)
            end = "\n\n".join(filter(None, (notes, found_tools_text(self._found))))
            system = system_prompt(code, names=names, persona=persona, more=more, notes=end)
        else:
            more = tools.once(deferred_functions_text)
            system = native_system_prompt(names=names, persona=persona, more=more, notes=notes)
        request = build_prompt(
            system,
            view,
            settings=settings.prompt,
            profile=profile,
            max_tokens=min(settings.turn.reply_tokens, profile.context_tokens // 4),
            functions=functions,
        )
        return request, False

    def _up_to_what_is_asked(self, turns: Mapping[str, TurnRow]) -> list[Record]:
        """A small model answers the last lines that it sees, so those have to be the questions of
        who asks. Of the past, each answer stands behind what it answers: people ask at once, and
        are answered one after another."""
        asked = [record for record in self.records if self._task.is_unanswered(record)]
        left_out = {*self._task.waiting(self.records), *(record.seq for record in asked)}
        past: list[Record] = []
        for record in self.records:
            if record.seq in left_out:
                continue
            if record.author is Author.BOT:
                if record.run_id in self.runs:
                    continue
                past = _asked_last(past, turns, record.run_id)
            past.append(record)
        return [*past, *asked]

    async def _past_runs(self) -> tuple[dict[str, str], dict[str, TurnRow]]:
        """Code behind the bot's latest answers, by run, and the turns that they were given in."""
        runs = [r.run_id for r in self.records if r.author is Author.BOT and r.run_id]
        newest = [each for each in dict.fromkeys(reversed(runs)) if each not in self.runs]
        codes: dict[str, str] = {}
        turns: dict[str, TurnRow] = {}
        for run_id in newest[:_CODES]:
            if run := await self._ports.store.runs.get(run_id):
                codes[run_id] = run.code.strip()
                if turn := await self._ports.store.turns.of_run(run_id):
                    turns[run_id] = turn
        return codes, turns

    async def _pictures(self) -> dict[str, ImagePart]:
        """The newest pictures of the history, by path."""
        paths = [
            segment.media.path
            for record in reversed(self.records)
            if not record.recalled
            for segment in reversed(record.segments)
            if isinstance(segment, Image) and segment.media.path
        ]
        found: dict[str, ImagePart] = {}
        for path in paths[: self._ports.settings.prompt.images]:
            if part := await self._ports.pictures.part(path):
                found[path] = part
        return found


def _asked_last(
    records: Sequence[Record], turns: Mapping[str, TurnRow], run_id: str
) -> list[Record]:
    """The same records, those at the end that this run answers."""
    turn = turns.get(run_id)
    if turn is None:
        return [*records]
    mine = (place for place, each in enumerate(records) if turns.get(each.run_id) == turn)
    since = records[max(mine, default=-1) + 1 :]
    before = records[: len(records) - len(since)]
    theirs = [
        each
        for each in since
        if each.seq >= turn.trigger_seq and each.sender.user_id == turn.user_id
    ]
    return [*before, *(each for each in since if each not in theirs), *theirs]
