"""Makes a request to a model again from its recipe, and estimates the tokens of each section. A
recipe says from which stored texts and records the request was made."""

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta, timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

import msgspec

from nekro_core.agent.prompt.lines import LINE_FORMS, WriteLine
from nekro_core.agent.prompt.pictures import PromptPictures
from nekro_core.agent.prompt.transcript import media_of
from nekro_core.chat import Author, DeliveryState, Record, Segments, Voice
from nekro_core.llm.dialect import body_text
from nekro_core.llm.tokens import IMAGE_TOKENS, estimate_tokens
from nekro_core.store import Step, Store
from nekro_core.store.prompt_recipe import (
    Inline,
    PartRef,
    Piece,
    Recipe,
    RecipeJson,
    RecipeMedium,
    RecipeText,
    RecordLines,
    ReplyText,
    decode_recipe,
    line_hash,
)
from nekro_core.store.prompts import PromptRow, UnknownPartForm
from nekro_core.system.errors import NekroError

NOT_STORED = "no longer stored: erased, or deleted because of its age"
CHANGED = "changed since: redacted, or edited"
_MESSAGE_TOKENS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownSection:
    """A section of a prompt.

    Attributes:
        message: The number of the section's message, from 0; -1 for the list of functions.
        role: The message's role; ``tools`` for the list of functions.
        kind: The kind of section: ``rules``, ``names``, ``persona``, ``functions``,
            ``more_functions``, ``found_functions``, ``chat``, ``summary``, ``notes``, ``history``,
            ``ran`` (code of earlier turns), ``plugin NAME``, ``now`` (the time), ``before`` (what a
            resumed turn had done), ``task`` (what to answer), ``picture``, ``reply``, ``text`` (a
            report, an answer to a call, or text that a plugin changed) or ``tools``.
        text: The text, without the line ends around it. If the text is no longer stored, a note.
        tokens: The estimated number of tokens.
        seqs: For ``history``: the records' numbers.
        gap: Why ``text`` is not the text that was sent; empty if it is.
        unchanged: Whether the section belongs to the prefix that was also the beginning of the
            chat's previous prompt.
    """

    message: int
    role: str
    kind: str
    text: str
    tokens: int
    seqs: tuple[int, ...] = ()
    gap: str = ""
    unchanged: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPrompt:
    """What the model was shown in one step.

    ``body`` is the JSON body of the request, with notes in place of what is no longer stored. If
    ``exact`` is true, there are no such notes, and ``json`` returns the bytes that were sent.
    ``unchanged_tokens`` is the estimated length of the prefix that was also the beginning of the
    previous prompt of the chat; a provider may have cached this prefix. ``previous`` is the turn
    and the step of that prompt. ``error`` says why there was no reply.
    """

    turn_id: int
    position: int
    sections: tuple[ShownSection, ...]
    body: Mapping[str, Any]
    tokens: int
    unchanged_tokens: int = 0
    previous: tuple[int, int] | None = None
    error: str = ""

    @property
    def messages(self) -> Sequence[Mapping[str, Any]]:
        """The messages of the body."""
        messages: Sequence[Mapping[str, Any]] = self.body.get("messages", ())
        return messages

    @property
    def tools(self) -> Sequence[Mapping[str, Any]]:
        """The functions of the body."""
        tools: Sequence[Mapping[str, Any]] = self.body.get("tools", ())
        return tools

    @property
    def gaps(self) -> tuple[ShownSection, ...]:
        """The sections whose text is not the text that was sent."""
        return tuple(each for each in self.sections if each.gap)

    @property
    def exact(self) -> bool:
        """Whether ``body`` is equal to the body that was sent."""
        return not self.gaps

    @property
    def json(self) -> bytes:
        """The body as bytes."""
        return body_text(self.body).encode("utf-8", "replace")


class UnknownPromptForm(NekroError):
    """A prompt is stored in a form that this version of the bot does not know."""

    def __init__(self, turn_id: int, position: int) -> None:
        super().__init__(
            f"what the model was shown in step {position} of turn {turn_id} is stored in a form "
            "that this version of the bot does not know: a newer version stored it, and shows it; "
            "or the row is damaged"
        )


class PromptViewer:
    """Makes prompts again from what is stored. Its methods raise `StoreUnavailable`."""

    def __init__(self, store: Store, pictures: PromptPictures) -> None:
        self._store = store
        self._pictures = pictures

    async def shown(self, turn_id: int, position: int) -> StepPrompt | None:
        """Make the prompt of one step again. Returns None if nothing is stored about it. Raises
        `UnknownPromptForm`."""
        rows = await self._store.prompts.of_turn(turn_id)
        row = next((each for each in rows if each.position == position), None)
        if row is None or not row.recipe:  # An erasure empties a recipe that it cannot read.
            return None
        prompt = await self._made(row)
        earlier = [each for each in rows if each.position < position]
        previous = (
            earlier[-1] if earlier else await self._store.prompts.before(row.chat_key, turn_id)
        )
        try:
            before = await self._made(previous) if previous else None
        except UnknownPromptForm:
            return prompt
        if previous is None or before is None:
            return prompt
        compared = _compared(prompt, before)
        return replace(compared, previous=(previous.turn_id, previous.position))

    async def _made(self, row: PromptRow) -> StepPrompt:
        recipe = decode_recipe(row.recipe)
        if recipe is None or recipe.lines not in LINE_FORMS:
            raise UnknownPromptForm(row.turn_id, row.position)
        steps = await self._store.turns.steps(row.turn_id)
        try:
            made = await _Making.of(self._store, self._pictures, recipe, steps)
        except UnknownPartForm:
            raise UnknownPromptForm(row.turn_id, row.position) from None
        body = await made.body()
        return StepPrompt(
            turn_id=row.turn_id,
            position=row.position,
            sections=tuple(made.sections),
            body=body,
            tokens=sum(each.tokens for each in made.sections) + _MESSAGE_TOKENS * made.messages,
            error=row.error,
        )


@dataclass(slots=True)
class _Making:
    """Makes one request from its recipe."""

    recipe: Recipe
    records: Mapping[int, Record]
    parts: Mapping[str, bytes]
    versions: Mapping[int, Sequence[Segments]]
    replies: Mapping[int, str]
    pictures: PromptPictures
    sections: list[ShownSection] = field(default_factory=list)
    messages: int = 0
    _role: str = ""

    @classmethod
    async def of(
        cls, store: Store, pictures: PromptPictures, recipe: Recipe, steps: Sequence[Step]
    ) -> "_Making":
        media = [each for each in _contents(recipe) if isinstance(each, RecipeMedium)]
        seqs = recipe.seqs | {each.seq for each in media if each.seq}
        names = {piece.hash for piece in recipe.pieces() if isinstance(piece, PartRef)}
        names |= {each.hash for each in _contents(recipe) if isinstance(each, RecipeJson)}
        names |= {recipe.frame, recipe.tools} - {""}
        return cls(
            recipe,
            {record.seq: record for record in await store.messages.numbered(seqs)},
            await store.prompts.parts(names),
            await store.messages.versions(seqs),
            {step.position: step.reply for step in steps},
            pictures,
        )

    async def body(self) -> dict[str, Any]:
        """Return the body, and fill ``sections``."""
        recipe = self.recipe
        frame = self._json(recipe.frame, {"messages": []}, -1, "frame")
        if recipe.tools:
            text = self.parts.get(recipe.tools, b"").decode()
            self._add(-1, "tools", text, gap="" if text else NOT_STORED)
            frame["tools"] = json.loads(text or "[]")
        frame["messages"] = [await self._message(index) for index, _ in enumerate(recipe.messages)]
        self.messages = len(recipe.messages)
        return frame

    async def _message(self, index: int) -> dict[str, Any]:
        stored = self.recipe.messages[index]
        self._role = stored.role
        contents = [await self._content(index, each) for each in stored.content]
        made: dict[str, Any] = {"role": stored.role}
        match stored.form:
            case "text":
                made["content"] = contents[0]["text"] if contents else ""
            case "list":
                made["content"] = contents
            case _:
                made["content"] = None
        if stored.rest:
            try:
                made |= json.loads(self._text(index, stored.rest))
            except ValueError:
                made["tool_calls"] = []  # The stored calls have a gap, so they are not valid JSON.
        return made

    async def _content(
        self, index: int, content: RecipeText | RecipeMedium | RecipeJson
    ) -> dict[str, Any]:
        match content:
            case RecipeText(pieces):
                return {"type": "text", "text": self._text(index, pieces)}
            case RecipeJson(name):
                return self._json(name, {"type": "text", "text": _note(NOT_STORED)}, index, "media")
        record = self.records.get(content.seq)
        media = media_of(record)[content.index : content.index + 1] if record else []
        part = await self.pictures.part(media[0].path) if media else None
        if part is not None:
            address = f"data:{part.mime};base64,{base64.b64encode(part.data).decode()}"
            if line_hash(address) == content.hash:
                self._add(index, "picture", "picture", tokens=IMAGE_TOKENS, seqs=(content.seq,))
                return {"type": "image_url", "image_url": {"url": address}}
        gap = NOT_STORED if part is None else CHANGED
        seqs = (content.seq,) if content.seq else ()
        self._add(index, "picture", _note(gap), tokens=IMAGE_TOKENS, seqs=seqs, gap=gap)
        return {"type": "text", "text": _note(gap, "picture")}

    def _json(self, name: str, otherwise: dict[str, Any], index: int, kind: str) -> dict[str, Any]:
        data = self.parts.get(name)
        if data is None:
            self._add(index, kind, _note(NOT_STORED), gap=NOT_STORED)
            return otherwise
        found: dict[str, Any] = json.loads(data)
        if kind != "frame":
            self._add(index, kind, str(found.get("type", kind)), tokens=IMAGE_TOKENS)
        return found

    def _text(self, index: int, pieces: Sequence[Piece]) -> str:
        return "".join(self._piece(index, piece) for piece in pieces)

    def _piece(self, index: int, piece: Piece) -> str:
        match piece:
            case Inline(text, kind):
                self._add(index, kind or "text", text)
                return text
            case PartRef(name, kind):
                data = self.parts.get(name)
                text = data.decode() if data is not None else _note(NOT_STORED, kind)
                self._add(index, kind or "text", text, gap="" if data is not None else NOT_STORED)
                return text
            case ReplyText(position, length, digest):
                text = self.replies.get(position, "")[:length]
                gap = "" if line_hash(text) == digest else CHANGED if text else NOT_STORED
                self._add(index, "reply", text if not gap else _note(gap), gap=gap)
                return text if not gap else _note(gap, "reply")
            case RecordLines():
                return self._lines(index, piece)

    def _lines(self, index: int, piece: RecordLines) -> str:
        lines: list[str] = []
        run: list[tuple[int, str]] = []

        def end_run() -> None:
            if run:
                text = "\n".join(line for _, line in run)
                self._add(index, "history", text, seqs=tuple(seq for seq, _ in run))
                run.clear()

        for seq, digest, mark in piece.lines():
            line, gap = self._line(seq, digest, piece.limit, mark)
            if gap:
                end_run()
                self._add(index, "history", line, seqs=(seq,), gap=gap)
            else:
                run.append((seq, line))
            lines.append(line)
        end_run()
        return "\n".join(lines)

    def _line(self, seq: int, digest: str, limit: int, mark: int) -> tuple[str, str]:
        """Return a record's line as it was shown, and an empty text. If the record has changed too
        much for that, return the line as it would be shown now, and the reason."""
        record = self.records.get(seq)
        if record is None:
            return _note(NOT_STORED, f"record {seq}"), NOT_STORED
        write: WriteLine = LINE_FORMS[self.recipe.lines]
        own = frozenset(self.recipe.own)
        now = ""
        for zone in _zones(self.recipe):
            for each in _versions(record, self.versions.get(seq, ())):
                line = write(each, zone, limit, mark, own)
                if line_hash(line) == digest:
                    return line, ""
                now = now or line
        return now, CHANGED

    def _add(
        self,
        index: int,
        kind: str,
        text: str,
        *,
        tokens: int | None = None,
        seqs: tuple[int, ...] = (),
        gap: str = "",
    ) -> None:
        if not text.strip():
            return
        self.sections.append(
            ShownSection(
                message=index,
                role=self._role if index >= 0 else "tools",
                kind=kind,
                text=text,
                tokens=estimate_tokens(text) if tokens is None else tokens,
                seqs=seqs,
                gap=gap,
            )
        )


def _note(why: str, what: str = "") -> str:
    """Return the note in place of what is no longer stored."""
    return f"⟨{what}: {why}⟩" if what else f"⟨{why}⟩"


def _contents(recipe: Recipe) -> Iterator[RecipeText | RecipeMedium | RecipeJson]:
    for message in recipe.messages:
        yield from message.content


def _zones(recipe: Recipe) -> Iterator[tzinfo | None]:
    """Yield the possible time zones of a recipe. If the recipe names no zone, the prompt had the
    zone of the machine. This zone may have changed since then, so the stored offset is tried
    too."""
    yield ZoneInfo(recipe.zone) if recipe.zone else None
    yield timezone(timedelta(seconds=recipe.offset))


def _versions(record: Record, earlier: Sequence[Segments]) -> Iterator[Record]:
    """Yield the record as it is, then forms that it may have had when the prompt was sent. For a
    message of the bot, these are its earlier edits and other states of delivery. For a voice, this
    is the voice without its transcript."""
    yield record
    if record.author is Author.BOT:
        for segments in (record.segments, *earlier):
            for state in DeliveryState:
                yield msgspec.structs.replace(record, segments=segments, state=state)
    elif any(isinstance(each, Voice) and each.text for each in record.segments):
        unheard = tuple(
            msgspec.structs.replace(each, text="") if isinstance(each, Voice) else each
            for each in record.segments
        )
        yield msgspec.structs.replace(record, segments=unheard)


def _compared(prompt: StepPrompt, before: StepPrompt) -> StepPrompt:
    """Return ``prompt`` with marks on the sections that both prompts have in common at the
    beginning."""
    unchanged, same = 0, prompt.body.get("model") == before.body.get("model")
    sections: list[ShownSection] = []
    for index, section in enumerate(prompt.sections):
        other = before.sections[index] if same and index < len(before.sections) else None
        whole = other is not None and (other.message, other.role, other.text) == (
            section.message,
            section.role,
            section.text,
        )
        if whole:
            unchanged += section.tokens
        elif same and other is not None and other.role == section.role:
            unchanged += estimate_tokens(_common(section.text, other.text))
        same = same and whole
        sections.append(replace(section, unchanged=whole))
    return replace(prompt, sections=tuple(sections), unchanged_tokens=unchanged)


def _common(one: str, other: str) -> str:
    length = next(
        (i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b),
        min(len(one), len(other)),
    )
    return one[:length]
