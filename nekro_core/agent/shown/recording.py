"""Writes the recipe of a request that was sent to a model. A recipe says which texts of the request
are records and which are stored parts.

The recipe describes the JSON body that was sent, so it is also right if something, such as a hook
of a plugin, has changed the request. The prompt was written from *sources*: records and other texts
(`PromptSources`). Texts in which no source is recognized become parts that belong to the chat.
"""

import json
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from nekro_core.agent.prompt.lines import LINE_FORM
from nekro_core.agent.prompt.sources import OWN, SHARED, PromptSources, ShownRecord, SourceText
from nekro_core.llm.dialect import body_text
from nekro_core.llm.model import ChatRequest, Function, ImagePart
from nekro_core.store.prompt_recipe import (
    Inline,
    PartRef,
    Piece,
    Recipe,
    RecipeJson,
    RecipeMedium,
    RecipeMessage,
    RecipeText,
    RecordLines,
    ReplyText,
    cached_line_hash,
    line_hash,
)
from nekro_core.store.prompts import PromptPart

LARGEST_MEDIUM = 2 * 1024 * 1024
"""Maximum number of characters of the JSON of a picture or sound that does not belong to a record.
A larger picture or sound is not stored, so the recipe has a gap there."""
_CACHED_TOOLS = 32


@lru_cache(128)
def _shared_part(text: str) -> PromptPart:
    """Return the stored part for a text that is the same in many prompts."""
    return PromptPart.of("", text)


class PromptDescriber:
    """Writes recipes. It remembers the JSON of the last lists of functions, which are long and
    seldom change."""

    def __init__(self) -> None:
        self._tools: OrderedDict[int, tuple[Sequence[Function], PromptPart]] = OrderedDict()

    def describe(
        self,
        request: ChatRequest,
        body: Mapping[str, Any],
        sources: PromptSources,
        replies: Mapping[int, str],
    ) -> tuple[Recipe, list[PromptPart]]:
        """Return the recipe of a request, and the parts that it refers to. ``replies`` are the
        stored replies of the turn's earlier steps."""
        return _Description(request, body, sources, replies, self._tools_part).write()

    def _tools_part(self, functions: Sequence[Function], tools: Any) -> PromptPart:
        known = self._tools.get(id(functions))
        if known is None or known[0] is not functions:
            part = PromptPart.of("", body_text(tools))
            known = self._tools[id(functions)] = (functions, part)
            while len(self._tools) > _CACHED_TOOLS:
                self._tools.popitem(last=False)
        return known[1]


class _Description:
    """Writes one recipe."""

    def __init__(
        self,
        request: ChatRequest,
        body: Mapping[str, Any],
        sources: PromptSources,
        replies: Mapping[int, str],
        tools_part: Any,
    ) -> None:
        self._request = request
        self._body = body
        self._sources = sources
        self._replies = replies
        self._tools_part = tools_part
        self._texts = [*sources.texts]
        self._records = sorted(sources.records, key=lambda each: each.seq)
        self._parts: list[PromptPart] = []

    def write(self) -> tuple[Recipe, list[PromptPart]]:
        """Return the recipe and its parts."""
        body, tools = self._body, ""
        frame = {**body, "messages": []}
        if "tools" in body:
            part = self._tools_part(self._request.functions, body["tools"])
            self._parts.append(part)
            frame["tools"], tools = [], part.hash
        messages = list(self._messages(body["messages"]))
        recipe = Recipe(
            lines=LINE_FORM,
            frame=self._part(body_text(frame), shared=True),
            tools=tools,
            zone=self._sources.zone,
            offset=self._sources.offset,
            own=[*self._sources.own],
            messages=messages,
        )
        return recipe, self._parts

    def _messages(self, messages: Sequence[Mapping[str, Any]]) -> Iterator[RecipeMessage]:
        for index, message in enumerate(messages):
            given, role = message["content"], message["role"]
            rest = {key: each for key, each in message.items() if key not in ("role", "content")}
            pieces = self._cut(body_text(rest), role) if rest else []
            content: list[Any] = []
            form = "null"
            if isinstance(given, str):
                form, content = "text", [RecipeText(self._cut(given, role))]
            elif given is not None:
                form, content = "list", [*self._parts_of(index, role, given)]
            yield RecipeMessage(role, form, content, pieces)

    def _parts_of(
        self, index: int, role: str, given: Sequence[Mapping[str, Any]]
    ) -> Iterator[RecipeText | RecipeMedium | RecipeJson]:
        pictures = iter(
            part for part in self._request.messages[index].parts if isinstance(part, ImagePart)
        )
        for part in given:
            if part.keys() == {"type", "text"}:
                yield RecipeText(self._cut(part["text"], role))
                continue
            picture = next(pictures, None) if part.get("type") == "image_url" else None
            place = self._sources.pictures.get(id(picture.data)) if picture else None
            text = json.dumps(part, ensure_ascii=False)
            if place is not None:
                seq, number = place
                yield RecipeMedium(line_hash(part["image_url"]["url"]), seq, number)
            elif len(text) > LARGEST_MEDIUM:
                yield RecipeMedium(line_hash(text))
            else:
                yield RecipeJson(self._part(text))

    def _cut(self, text: str, role: str) -> list[Piece]:
        """Cut a text into pieces, in order: references to what is stored elsewhere, and the text
        between them."""
        if not text:
            return []
        for position, reply in self._replies.items():
            if reply.startswith(text):
                return [ReplyText(position, len(text), line_hash(text))]
        found = sorted(self._found(text, role), key=lambda each: each[0])
        pieces: list[Piece] = []
        run: list[ShownRecord] = []
        at = 0

        def end_run() -> None:
            if run:
                pieces.append(_lines(run))
                run.clear()

        for begin, source in found:
            between = text[at:begin]
            if not isinstance(source, ShownRecord):
                end_run()
                pieces += self._unknown(between)
                pieces.append(self._known(source))
                at = begin + len(source.text)
                continue
            if between != "\n" or not run or run[-1].limit != source.limit:
                end_run()
                pieces += self._unknown(between)
            run.append(source)
            at = begin + len(source.line)
        end_run()
        pieces += self._unknown(text[at:])
        return pieces

    def _found(self, text: str, role: str) -> Iterator[tuple[int, SourceText | ShownRecord]]:
        """Yield the sources that the text contains, with their positions in it. Two sources never
        overlap, and each source is found at most once in a request. Records are found only in the
        order of their numbers."""
        taken: list[tuple[int, int]] = []
        left: list[SourceText] = []
        for source in self._texts:
            begin = text.find(source.text)
            end = begin + len(source.text)
            if begin < 0 or _overlaps(begin, end, taken):
                left.append(source)
                continue
            taken.append((begin, end))
            yield begin, source
        self._texts = left
        if role == "system":
            return
        at = 0
        missing: list[ShownRecord] = []
        for record in self._records:
            # Usually a record's lines follow directly after the previous record's lines. Check this
            # first, because comparing is faster than searching.
            follows = text.startswith(record.line, at + 1)
            begin = at + 1 if follows else text.find(record.line, at)
            end = begin + len(record.line)
            if begin < 0 or _overlaps(begin, end, taken):
                missing.append(record)
                continue
            at = end
            yield begin, record
        self._records = missing

    def _known(self, source: SourceText) -> Piece:
        if source.scope == OWN:
            return Inline(source.text, source.kind)
        return PartRef(self._part(source.text, shared=source.scope == SHARED), source.kind)

    def _unknown(self, text: str) -> list[Piece]:
        if not text:
            return []
        if not text.strip():
            return [Inline(text)]
        return [PartRef(self._part(text), "text")]

    def _part(self, text: str, *, shared: bool = False) -> str:
        part = _shared_part(text) if shared else PromptPart.of(self._request.chat, text)
        self._parts.append(part)
        return part.hash


def _overlaps(begin: int, end: int, taken: Sequence[tuple[int, int]]) -> bool:
    for start, stop in taken:  # noqa: SIM110 - a generator takes three times as long
        if begin < stop and start < end:
            return True
    return False


def _lines(run: Sequence[ShownRecord]) -> RecordLines:
    seqs = [each.seq for each in run]
    return RecordLines(
        run[0].limit,
        [seq - before for seq, before in zip(seqs, [0, *seqs], strict=False)],
        "".join(cached_line_hash(each.line) for each in run),
        {index: each.mark for index, each in enumerate(run) if each.mark},
    )
