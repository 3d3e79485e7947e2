"""One turn: from what woke it until there is no more to do.

Each step asks the model once and runs what it wrote. What comes after a step is decided by
`Turn._after` alone; every reply was executed or shown by then.
"""

import uuid
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from zoneinfo import ZoneInfo

import anyio
from loguru import logger

from nekro_core.agent.accounting import StepCost, TurnBook
from nekro_core.agent.already_sent import OutgoingOnce
from nekro_core.agent.boxes import KeptBox
from nekro_core.agent.limits import (
    DAY_S,
    Limit,
    LimitExceeded,
    Limits,
    TokenLimit,
    total,
    turn_limits,
)
from nekro_core.agent.ports import Ports
from nekro_core.agent.prompt import DoneStep, View, build_prompt, system_text
from nekro_core.agent.python_text import is_call
from nekro_core.agent.reply import Reply, ReplyReader
from nekro_core.agent.report import LEFT, empty_report, report, sent_lines
from nekro_core.agent.run_calls import RunCalls, guest_functions, tools_text
from nekro_core.agent.small_prompt import PastStep, small_prompt, small_tools
from nekro_core.agent.transcript import media_of, shortened
from nekro_core.catalogue import language_of
from nekro_core.chat import Author, ChatKey, Image, Record, Text
from nekro_core.delivery import DeliveryError
from nekro_core.llm.model import (
    ChatRequest,
    ImagePart,
    KeyRejected,
    ModelError,
    ModelRefused,
    ModelUnreachable,
    Part,
    QuotaExceeded,
    ReplyBroken,
    RequestRejected,
    TextPart,
)
from nekro_core.plugin.context import AgentCtx
from nekro_core.sandbox.box import BackendUnavailable, BoxLost, Run, StopReason
from nekro_core.store import DeliveryRow, StoreError
from nekro_core.tools.names import ToolSet

_LAST_WORDS_S = 5.0
"""Longest wait for what is written down when a turn is cut."""
_CODES = 6
"""Past runs whose code a small model is shown."""
_MODEL_ERRORS: tuple[tuple[type[ModelError], str], ...] = (
    (KeyRejected, "key"),
    (QuotaExceeded, "quota"),
    (ModelUnreachable, "unreachable"),
    (ModelRefused, "refused"),
    (RequestRejected, "rejected"),
    (ReplyBroken, "broken"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Why a turn is there. ``asks`` is the record that woke it, ``is_unanswered`` tells of any
    record whether it waits for an answer; ``hidden`` are records that no prompt may show.
    ``resumed`` marks a turn that a dead process left."""

    chat_key: ChatKey
    asks: Record
    is_unanswered: Callable[[Record], bool]
    hidden: Collection[int] = ()
    resumed: bool = False


class Turn:
    """Runs once. The book has been begun, and is ended by the caller with what `run` returns."""

    def __init__(self, ports: Ports, task: Task, book: TurnBook) -> None:
        self._ports = ports
        self._task = task
        self._book = book
        self._settings = ports.settings.turn
        self._limits = Limits(turn_limits(self._settings, ports.clock))
        self._began = ports.wall()
        self._zone = ZoneInfo(ports.settings.timezone) if ports.settings.timezone else None
        self._box: KeptBox | None = None
        self._steps: list[DoneStep] = []
        self._codes: list[PastStep] = []
        self._runs: set[str] = set()
        self._before: list[DeliveryRow] = []
        self._preface = ""
        self._records: list[Record] = []
        self._sent = False
        self._ran = False
        self._failures = 0
        self._empty = 0

    async def run(self) -> str:
        """Take steps until there is no more to do. Returns why it is over, in a word."""
        if self._task.resumed and await self._is_done_already():
            return "finished"
        stop = "limit_seconds"
        try:
            with anyio.move_on_after(self._settings.max_seconds):
                stop = await self._take_steps()
            if stop == "limit_seconds":
                await self._say("limit.seconds", limit=f"{self._settings.max_seconds:g}")
        finally:
            if self._box is not None:
                with anyio.move_on_after(_LAST_WORDS_S, shield=True):
                    await self._ports.boxes.close(self._task.chat_key, self._box, changed=self._ran)
        return stop

    async def _is_done_already(self) -> bool:
        """What the dead process did. Its turn was over if its last run had come to its end."""
        await self._book.continue_after(await self._ports.store.turns.steps(self._book.turn_id))
        runs = await self._ports.store.runs.of_turn(self._book.turn_id)
        self._before = await self._book.sent()
        self._runs = {run.run_id for run in runs}
        self._sent = any(row.state in LEFT for row in self._before)
        lines = ["[note] A restart interrupted you. Answer now, unless it is done.\n"]
        self._preface = "\n".join([*lines, *sent_lines(self._before)]) if runs else ""
        return self._sent and runs[-1].stop in (StopReason.FINISHED.value, "said")

    async def _take_steps(self) -> str:
        try:
            await self._open_box()
        except (BackendUnavailable, BoxLost) as error:
            logger.error("no code can run for {}: {}", self._task.chat_key, error)
            await self._say("turn.no_backend")
            return "no_backend"
        self._limits.add(*await self._day_limits())
        while True:
            try:
                self._limits.check()
            except LimitExceeded as error:
                await self._say(f"limit.{error.kind}", limit=f"{error.limit:g}")
                return f"limit_{error.kind}"
            try:
                stop = await self._step()
            except ModelError as error:
                return await self._tell_of(error)
            if stop:
                return stop

    async def _day_limits(self) -> list[Limit]:
        """What the operator lets a chat and a person use in 24 hours."""
        turns, since = self._ports.store.turns, self._ports.wall() - DAY_S
        limits: list[Limit] = []
        if most := self._settings.chat_tokens_a_day:
            used = await turns.usage(since=since, chat_key=self._task.chat_key)
            limits.append(TokenLimit(most, total(used), kind="chat_day"))
        user_id = self._task.asks.sender.user_id
        if (most := self._settings.user_tokens_a_day) and user_id:
            used = await turns.usage(since=since, user_id=user_id)
            limits.append(TokenLimit(most, total(used), kind="user_day"))
        return limits

    async def _open_box(self) -> KeptBox:
        boxes, chat_key = self._ports.boxes, self._task.chat_key
        if self._box is not None:
            if self._box.box.alive:
                return self._box
            await boxes.close(chat_key, self._box, changed=False)
            self._box = None
        self._box = await boxes.open(chat_key)
        return self._box

    async def _step(self) -> str:
        """Ask once, run what came. Returns why the turn is over, or nothing."""
        ports, asks = self._ports, self._task.asks
        run_id = uuid.uuid4().hex
        kept = await self._open_box()
        tools = ports.plugins.tools_for(self._task.chat_key)
        ctx = ports.plugins.context_for(
            self._task.chat_key,
            user_id=asks.sender.user_id,
            user_name=asks.sender.name,
            message_id=asks.message_id,
            run_id=run_id,
            box=kept.box,
        )
        if self._before:
            once = OutgoingOnce(ctx.services.outgoing, self._before)
            ctx = replace(ctx, services=replace(ctx.services, outgoing=once))
        await self._look()
        await kept.put_uploads(m for record in self._records for m in media_of(record))
        request, bare_code = await self._prompt(tools, ctx)
        calls = RunCalls(
            tools,
            ctx,
            note=lambda text: ports.inbox.note(self._task.chat_key, text, run_id=run_id),
            clock=ports.clock,
            wall=ports.wall,
        )
        reply = await self._read(request, run_id, tools, calls, bare_code=bare_code)
        return await self._after(reply, run_id, calls)

    async def _read(
        self,
        request: ChatRequest,
        run_id: str,
        tools: ToolSet,
        calls: RunCalls,
        *,
        bare_code: bool,
    ) -> Reply:
        """The model's reply and the run that it caused, both written down in any case."""
        ran = False

        async def start_run() -> Run:
            nonlocal ran
            kept = await self._open_box()
            await self._book.begin_run(run_id)
            ran = self._ran = True
            self._runs.add(run_id)
            await kept.put_uploads(m for record in self._records for m in media_of(record))
            return await kept.box.start_run(
                guest_functions(tools), calls.answer, self._ports.run_limits
            )

        reader = ReplyReader(
            self._ports.model,
            start_run,
            bare_code=bare_code,
            stream_code=self._ports.settings.stream_code,
            max_chars=self._settings.reply_chars,
            is_call=lambda text: is_call(text, tools),
        )
        started, began = self._ports.wall(), self._ports.clock()

        def cost() -> StepCost:
            usage = reader.usage(request)
            model = self._ports.model.profile.name
            seconds = self._ports.clock() - began
            return StepCost(started=started, seconds=seconds, usage=usage, model=model)

        try:
            reply = await reader.read(request)
        except anyio.get_cancelled_exc_class():
            with anyio.move_on_after(_LAST_WORDS_S, shield=True):
                if ran:
                    await self._book.cut_run(run_id, calls)
                if reader.text:
                    await self._book.end_step("", reader.text, cost())
            raise
        spent = cost()
        self._limits.spend(spent.usage)
        if ran:
            await self._book.end_run(run_id, reply, calls)
        await self._book.end_step(reply.kept, reply.tail, spent)
        return reply

    async def _after(self, reply: Reply, run_id: str, calls: RunCalls) -> str:
        """What a step leads to: nothing for another step, else why the turn is over."""
        if not reply.statements:
            return await self._after_words(reply)
        sent = await self._book.sent_by(run_id)
        self._sent = self._sent or any(row.state in LEFT for row in sent)
        result = reply.result
        again = self._remember(reply, report(reply, calls, sent))
        if isinstance(reply.box_error, BackendUnavailable):
            await self._say("turn.no_backend")
            return "no_backend"
        if calls.observed:
            self._failures = 0
            return again
        if result is None or result.stop is not StopReason.FINISHED or reply.end != "whole":
            self._failures += 1
            if self._failures > self._settings.max_repairs:
                await self._say("limit.repairs", limit=self._settings.max_repairs)
                return "limit_repairs"
            return again
        self._failures = 0
        if any(row.state in LEFT for row in sent):
            return "finished"
        if result.output.strip():
            return again
        if reply.prose:
            return await self._send_prose(reply.prose)
        return "finished"

    async def _after_words(self, reply: Reply) -> str:
        """A reply without code."""
        if reply.prose:
            return await self._send_prose(reply.prose)
        if self._sent:
            return "finished"
        self._empty += 1
        if self._empty > 1:
            await self._say("turn.empty_reply")
            return "empty_reply"
        return self._remember(reply, empty_report())

    async def _send_prose(self, prose: str) -> str:
        """Words that were meant for the chat. They get a run of their own, so that a turn taken up
        after a crash knows of them."""
        run_id = uuid.uuid4().hex
        await self._book.begin_run(run_id)
        outgoing = OutgoingOnce(self._ports.outbox, self._before)
        try:
            text = shortened(prose, self._settings.prose_chars)
            await outgoing.send(self._task.chat_key, (Text(text),), run_id=run_id)
            self._sent = True
        except DeliveryError as error:
            logger.warning("a reply to {} was not sent: {}", self._task.chat_key, error)
            await self._say("turn.failed")
        await self._book.said(run_id)
        return "finished"

    def _remember(self, reply: Reply, parts: tuple[Part, ...]) -> str:
        """Keep a step for the prompt of the next one."""
        through = self._book.through_seq
        self._steps.append(DoneStep(reply=reply.kept, report=parts, through_seq=through))
        words = "\n".join(part.text for part in parts if isinstance(part, TextPart))
        self._codes.append(PastStep(code=reply.code.strip() or reply.kept, observation=words))
        return ""

    async def _look(self) -> None:
        """Read what the chat has by now."""
        settings, store = self._ports.settings, self._ports.store
        wanted = settings.prompt.history * 2
        found = await store.messages.newest(self._task.chat_key, wanted)
        if not found or found[0].seq > self._task.asks.seq:
            found = [self._task.asks, *found]  # a flood came after what is to be answered
        self._records = [record for record in found if record.seq not in self._task.hidden]
        await self._book.seen(found[-1].seq)

    async def _prompt(self, tools: ToolSet, ctx: AgentCtx) -> tuple[ChatRequest, bool]:
        """The request, and whether its reply is code without a fence."""
        profile, settings = self._ports.model.profile, self._ports.settings
        if profile.prefers_examples and small_tools(tools):
            request = small_prompt(
                tools,
                self._up_to_what_is_asked(),
                persona=settings.persona,
                language=settings.language,
                codes=await self._past_codes(),
                steps=self._codes,
            )
            return request, profile.grammar
        injections = await self._ports.plugins.prompt_injections(ctx)
        notes = "\n\n".join(f"[{each.plugin}]\n{each.text}" for each in injections)
        view = View(
            chat_key=self._task.chat_key,
            records=self._records,
            unanswered={r.seq for r in self._records if self._task.is_unanswered(r)},
            run_ids=self._runs,
            steps=self._steps,
            own_accounts=self._ports.store.accounts.own(self._task.chat_key.instance),
            now=self._began,
            zone=self._zone,
            pictures=await self._pictures() if profile.vision else {},
            preface=self._preface,
        )
        system = system_text(
            tools_text(tools), names=settings.names, persona=settings.persona, notes=notes
        )
        request = build_prompt(
            system,
            view,
            settings=settings.prompt,
            profile=profile,
            max_tokens=min(self._settings.reply_tokens, profile.context_tokens // 4),
        )
        return request, False

    def _up_to_what_is_asked(self) -> list[Record]:
        """A small model answers the last line that it sees, so that has to be a question."""
        last = max(
            (r.seq for r in self._records if self._task.is_unanswered(r)),
            default=self._records[-1].seq,
        )
        return [
            record
            for record in self._records
            if record.seq <= last
            and not (record.author is Author.BOT and record.run_id in self._runs)
        ]

    async def _past_codes(self) -> dict[str, str]:
        """Code behind the bot's latest answers, by run."""
        runs = [r.run_id for r in self._records if r.author is Author.BOT and r.run_id]
        newest = [each for each in dict.fromkeys(reversed(runs)) if each not in self._runs]
        codes: dict[str, str] = {}
        for run_id in newest[:_CODES]:
            if run := await self._ports.store.runs.get(run_id):
                codes[run_id] = run.code.strip()
        return codes

    async def _pictures(self) -> dict[str, ImagePart]:
        """The newest pictures of the history, by path."""
        paths = [
            segment.media.path
            for record in reversed(self._records)
            if not record.recalled
            for segment in reversed(record.segments)
            if isinstance(segment, Image) and segment.media.path
        ]
        found: dict[str, ImagePart] = {}
        for path in paths[: self._ports.settings.prompt.images]:
            if part := await self._ports.pictures.part(path):
                found[path] = part
        return found

    async def _tell_of(self, error: ModelError) -> str:
        """A model that does not answer: one sentence for the chat, the reason for the operator."""
        kind = next((word for known, word in _MODEL_ERRORS if isinstance(error, known)), "rejected")
        logger.error("the model did not answer {}: {}", self._task.chat_key, error)
        await self._say(f"model.{kind}")
        return f"model_{kind}"

    async def _say(self, key: str, **values: object) -> None:
        """A sentence of our own to the chat, unless people have got something already."""
        if not self._sent:
            said = [self._task.asks, *self._records]
            await say(self._ports, self._task.chat_key, said, key, **values)


async def say(
    ports: Ports, chat_key: ChatKey, records: Sequence[Record], key: str, **values: object
) -> None:
    """Send a sentence of the catalogue in the language of the chat. What fails is logged."""
    texts = [
        segment.text
        for record in records[-5:]
        if record.author is Author.PERSON
        for segment in record.segments
        if isinstance(segment, Text)
    ]
    sentence = ports.catalogue.say(key, ports.settings.language or language_of(texts), **values)
    try:
        await ports.outbox.send(chat_key, (Text(sentence),))
    except (DeliveryError, StoreError) as error:
        logger.error("{} could not be told {!r}: {}", chat_key, sentence, error)
