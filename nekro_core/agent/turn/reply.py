"""Reads one reply while the model writes it, and runs the reply's code at the same time."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import anyio
from anyio.abc import TaskGroup

from nekro_core.agent.turn.code_statements import CodeStatement
from nekro_core.agent.turn.code_stream import CodeStream, Prose, StreamEvent
from nekro_core.agent.turn.live_words import LiveWords
from nekro_core.agent.turn.python_text import count_statements
from nekro_core.llm.model import (
    ChatModel,
    ChatRequest,
    ModelError,
    ReplyFinished,
    RequestUsage,
    TextDelta,
)
from nekro_core.llm.tokens import estimate_usage
from nekro_core.sandbox.box import Run, RunResult, SandboxError, StopReason

_CANCEL_S = 2.0
"""Maximum wait in seconds for the end of a cancelled run. A box confirms the end within 0.1 s or is
destroyed."""

End = Literal["whole", "cut", "length", "broken"]
"""How a reply ended: by itself (``whole``), because its run had ended (``cut``), at a length limit
(``length``), or because the connection broke (``broken``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReply:
    """The part of a reply that arrived, and the result of its code.

    ``kept`` is the part that the next prompt shows: the whole reply, or the reply up to the end of
    the statement at which the run stopped. ``tail`` is the rest. ``result`` is set if code ran.
    ``model_error`` says why the reply broke off, and ``box_error`` why its code could not run to
    the end.
    """

    kept: str
    tail: str
    end: End
    prose: str
    code: str
    statements: tuple[CodeStatement, ...]
    usage: RequestUsage
    result: RunResult | None
    model_error: ModelError | None = None
    box_error: SandboxError | None = None

    def without_lines(self, texts: Sequence[str]) -> "ModelReply":
        """Return the reply without these texts in the output of its code. Of each text, the first
        occurrence that fills whole lines is removed."""
        result = self.result
        if result is None or not any(text in result.output for text in texts):
            return self
        output, fresh = result.output, result.fresh_output
        for text in texts:
            output, fresh = _without_lines(output, text), _without_lines(fresh, text)
        return replace(self, result=replace(result, output=output, fresh_output=fresh))

    @property
    def shows(self) -> str:
        """The output that finished code printed after it sent its last message; may be empty. The
        model must see this output."""
        if self.result is None or self.result.stop is not StopReason.FINISHED:
            return ""
        return self.result.fresh_output.strip()

    @property
    def text(self) -> str:
        """The whole text that arrived."""
        return self.kept + self.tail


def _without_lines(output: str, text: str) -> str:
    if not text.strip():
        return output
    return f"\n{output}\n".replace(f"\n{text}\n", "\n", 1)[1:-1]


StartRun = Callable[[], Awaitable[Run]]
"""Starts the run when a code block begins, so that the run is ready for the first statement. Raises
`SandboxError`."""


def _ignore() -> None:
    return None


class ReplyReader:
    """Reads one reply. ``text`` is the part that has arrived so far, also after a cancellation."""

    def __init__(
        self,
        model: ChatModel,
        start_run: StartRun,
        *,
        bare_code: bool,
        keeps_values: bool,
        stream_code: bool,
        max_chars: int,
        is_call: Callable[[str], bool],
        words: LiveWords | None = None,
        on_text: Callable[[], object] = _ignore,
        on_end: Callable[[], object] = _ignore,
    ) -> None:
        """``bare_code`` says that the reply will be code without a fence. ``is_call`` says whether
        a text without a fence is a call of a tool; then it is run. ``keeps_values`` says that the
        run continues with the variables of earlier code. ``words`` sends words while the model
        writes. ``on_text`` is called with each piece of the reply. ``on_end`` is called when the
        reply has ended; its code may still run."""
        self._on_text = on_text
        self._on_end = on_end
        self._model = model
        self._start_run = start_run
        self._keeps_values = keeps_values
        self._stream_code = stream_code
        self._max_chars = max_chars
        self._is_call = is_call
        self._words = words
        self._code = CodeStream(bare_code=bare_code)
        self._chunks: list[str] = []
        self._prose: list[str] = []
        self._statements: list[CodeStatement] = []
        self._usage: RequestUsage | None = None
        self._end: End = "whole"
        self._fed = False
        self._run: Run | None = None
        self._run_decided: anyio.Event | None = None
        self._reading = anyio.CancelScope()
        self._model_error: ModelError | None = None
        self._box_error: SandboxError | None = None

    def expect(self, *, bare_code: bool) -> None:
        """Change whether the reply will be code without a fence. Call this before the first piece
        of the reply, if another model answers than was expected."""
        self._code = CodeStream(bare_code=bare_code)

    @property
    def text(self) -> str:
        """The part of the reply that has arrived."""
        return "".join(self._chunks)

    @property
    def begun(self) -> bool:
        """Whether the reply has had an effect, so that it must not be dropped. An effect is: words
        were sent to the chat, or a statement was sent to the box. If the run uses the variables of
        earlier code, starting the run is an effect too, because dropping the run would lose the
        variables."""
        if self._words is not None and self._words.begun:
            return True
        return self._fed or (self._keeps_values and self._run_decided is not None)

    def usage(self, request: ChatRequest) -> RequestUsage:
        """Return the usage that the provider reported, or an estimate from the part that has
        arrived."""
        return self._usage or estimate_usage(request, self.text)

    async def read(self, request: ChatRequest) -> ModelReply:
        """Ask the model, read its reply and run the code. Raises `ModelError` only if no part of
        the reply arrived. All other errors are returned in the result: the arrived part was paid
        for, so it must be recorded."""
        result: RunResult | None = None
        try:
            async with anyio.create_task_group() as watchers:
                if self._words is not None:
                    watchers.start_soon(self._words.send_finished, name="words of a reply")
                with self._reading:
                    await self._read_stream(request, watchers)
                if self._reading.cancelled_caught:
                    self._end = "cut"
                self._on_end()
                result = await self._finish(watchers)
                if self._words is not None:
                    self._words.end()
        finally:
            if self._run is not None and result is None:
                with anyio.move_on_after(_CANCEL_S, shield=True):
                    await self._run.cancel()
        if self._model_error is not None and not self._chunks:
            raise self._model_error
        return self._reply(request, result)

    async def _read_stream(self, request: ChatRequest, watchers: TaskGroup) -> None:
        length = 0
        try:
            async with self._model.stream(request) as deltas:
                async for delta in deltas:
                    match delta:
                        case TextDelta(text):
                            self._on_text()
                            self._chunks.append(text)
                            length += len(text)
                            events = self._code.feed(text)
                            if self._code.begun and self._stream_code:
                                self._prepare(watchers)
                            if self._code.begun and self._words is not None:
                                self._words.block_began()
                            await self._take(events, watchers)
                            if self._words is not None and not self._code.begun:
                                self._words.write("", self._code.line)
                        case RequestUsage():
                            self._usage = delta
                        case ReplyFinished("length"):
                            self._end = "length"
                    if length > self._max_chars or self._box_error is not None:
                        self._end = "length"
                        return
        except ModelError as error:
            self._model_error = error
            self._end = "broken"

    async def _take(self, events: Sequence[StreamEvent], watchers: TaskGroup) -> None:
        for event in events:
            if isinstance(event, Prose):
                self._prose.append(event.text)
                if self._words is not None and not self._statements:
                    self._words.write(event.text)
                continue
            self._statements.append(event)
            if self._stream_code:
                await self._execute(event, watchers)

    def _prepare(self, watchers: TaskGroup) -> anyio.Event:
        """Start the run in a separate task, if it is not started yet."""
        if self._run_decided is None:
            self._run_decided = anyio.Event()
            watchers.start_soon(self._make_run, self._run_decided, name="beginning of the run")
        return self._run_decided

    async def _make_run(self, decided: anyio.Event) -> None:
        try:
            self._run = await self._start_run()
        except SandboxError as error:
            self._box_error = error
        finally:
            decided.set()
        if self._run is not None:
            await self._watch(self._run)

    async def _execute(self, statement: CodeStatement, watchers: TaskGroup) -> None:
        await self._prepare(watchers).wait()
        if self._run is None or self._box_error is not None:
            return
        self._fed = True
        try:
            await self._run.feed(statement.source, statement.line)
        except SandboxError as error:
            self._box_error = error

    async def _watch(self, run: Run) -> None:
        """Stop reading when the run has ended, even if the model still writes."""
        await run.wait()
        self._reading.cancel()

    async def _finish(self, watchers: TaskGroup) -> RunResult | None:
        """Finish after the reply has ended: run its last statement, then wait for the end of the
        run. Return None if no code was run or if the box failed."""
        if self._end != "cut":
            last = self._code.finish()
            if self._end != "whole":
                # Do not run an incomplete statement: the model may have meant more.
                last = [event for event in last if isinstance(event, Prose)]
            await self._take(last, watchers)
            if not self._statements and self._end == "whole" and self._is_call(self.text):
                # Small or hasty models forget the fence around a call.
                self._prose.clear()
                bare = CodeStream(bare_code=True)
                await self._take([*bare.feed(self.text), *bare.finish()], watchers)
        if not self._stream_code:
            for statement in self._statements:
                await self._execute(statement, watchers)
        if self._run_decided is not None:
            await self._run_decided.wait()
        if self._run is None or self._box_error is not None:
            return None
        return await self._run.finish()

    def _reply(self, request: ChatRequest, result: RunResult | None) -> ModelReply:
        text = self.text
        stopped = result is not None and result.stop is not StopReason.FINISHED
        kept = self._kept(text, result.statements) if result is not None and stopped else text
        return ModelReply(
            kept=kept,
            tail=text[len(kept) :],
            end=self._end,
            prose="".join(self._prose).strip(),
            code="".join(self._numbered()),
            statements=tuple(self._statements),
            usage=self.usage(request),
            result=result,
            model_error=self._model_error,
            box_error=self._box_error,
        )

    def _kept(self, text: str, ran: int) -> str:
        """Return the text up to the end of the last statement that began to run."""
        last: CodeStatement | None = None
        for last in self._statements:
            ran -= count_statements(last.source)
            if ran < 0:
                break
        if last is None:
            return text
        return "".join(_lines(text)[: last.line - 1 + last.source.count("\n")])

    def _numbered(self) -> list[str]:
        """Return the code with empty lines in place of prose, so that lines keep their numbers."""
        parts: list[str] = []
        line = 1
        for statement in self._statements:
            parts.append("\n" * (statement.line - line))
            parts.append(statement.source)
            line = statement.line + statement.source.count("\n")
        return parts


def _lines(text: str) -> list[str]:
    """Split a text into lines with their ends. Lines are counted as `CodeStream` counts them."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    with_ends: list[str] = []
    position = 0
    for line in lines:
        end = position + len(line)
        end += 2 if text.startswith("\r\n", end) else 1
        with_ends.append(text[position:end])
        position = end
    return with_ends
