"""Lets the model search for tools that a prompt does not show in full, and remembers which tools it
found.

A deferred tool is a tool of which a prompt shows one line instead of the full stub. A sleeping
plugin has only one line for all its tools. The model finds these tools with `tool_search`. The
number of found tools of a chat is limited; above the limit, the tool that was found longest ago is
dropped.
"""

import itertools
import json
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial

import anyio.to_thread
import msgspec
from loguru import logger

from nekro_core.agent.prompt.functions import FunctionSet, function_set, tool_outline, tool_text
from nekro_core.chat import ChatKey
from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.plugins.authoring.services import PluginDataStore
from nekro_core.store import StoreError
from nekro_core.tools.describe import describe
from nekro_core.tools.discovery import (
    SEARCH,
    SEARCH_OWNER,
    TextSimilarity,
    deferred_lines,
    deferred_tools_of,
    search_index_of,
)
from nekro_core.tools.names import NamedTool, ToolSet
from nekro_core.tools.outcome import ToolFailure
from nekro_core.tools.stub import doc
from nekro_core.tools.tool import Tool, ToolKind

Key = tuple[str, str]
"""Identifies a tool by its owner and name, and a sleeping plugin by its key and an empty name."""
_CHATS = 1000
"""Maximum number of chats in memory. Above this number, the least recently used chat is dropped
from memory. Its row stays in the store."""
_ROW = "found"
_MAX_ROW = 64 * 1024


class FoundTools:
    """Remembers which tools each chat has found: at most ``most`` for a chat. Without a ``store``
    they are forgotten at a restart."""

    def __init__(self, most: int, store: PluginDataStore | None = None) -> None:
        self._most = most
        self._store = store
        self._chats: OrderedDict[ChatKey, dict[Key, None]] = OrderedDict()

    def of(self, chat_key: ChatKey) -> Iterable[Key]:
        """Return the keys that a chat has found, the one found longest ago first. Keys from before
        a restart are included only after `recall`."""
        return self._chats.get(chat_key, {})

    async def recall(self, chat_key: ChatKey) -> None:
        """Load the keys that the chat found before this process started. Loads them only once.
        Never raises."""
        if self._store is None or chat_key in self._chats:
            return
        try:
            row = await self._store.get(SEARCH_OWNER, chat_key=str(chat_key), store_key=_ROW)
        except StoreError as error:
            logger.warning("{}: the found tools cannot be read: {}", chat_key, error)
            return
        self._found_in(chat_key).update(dict.fromkeys(_read(row)[-self._most :]))

    async def add(self, chat_key: ChatKey, keys: Iterable[Key]) -> None:
        """Add found keys, the newest last. Never raises."""
        await self.recall(chat_key)
        known = self._found_in(chat_key)
        for key in keys:
            known.pop(key, None)
            known[key] = None
        while len(known) > self._most:
            del known[next(iter(known))]
        if self._store is None:
            return
        row = msgspec.json.encode(list(known)).decode()
        try:
            await self._store.set(SEARCH_OWNER, row, chat_key=str(chat_key), store_key=_ROW)
        except StoreError as error:
            logger.warning("{}: the found tools cannot be stored: {}", chat_key, error)

    async def forget(self, chat_key: ChatKey) -> None:
        """Forget what a chat found. Raises `StoreError`."""
        self._chats.pop(chat_key, None)
        if self._store is not None:
            await self._store.delete(SEARCH_OWNER, chat_key=str(chat_key), store_key=_ROW)

    def _found_in(self, chat_key: ChatKey) -> dict[Key, None]:
        known = self._chats.setdefault(chat_key, {})
        self._chats.move_to_end(chat_key)
        while len(self._chats) > _CHATS:
            self._chats.popitem(last=False)
        return known


def _read(row: str | None) -> list[Key]:
    """Return the keys that a row contains. A damaged row counts as empty; then the model searches
    again."""
    try:
        return msgspec.json.decode((row or "[]")[:_MAX_ROW], type=list[Key])
    except msgspec.MsgspecError:
        return []


MOST_HITS = 10
"""Maximum number of tools that one search returns."""
_MODULE = "discovery"
_FOUND_CHARS = 60_000
"""Maximum number of characters of the found tools in a prompt: about 15,000 tokens."""
_MOST_QUERY = 1000
"""Maximum number of characters of a query. Normalizing combining marks that follow each other
takes time that grows with the square of their number: 60,000 marks blocked all chats for 8 s."""
_NAMED = 40
"""Maximum number of plugins that the answer names if no tool fits."""


class ToolDiscovery:
    """The tool search of a bot. For each chat it remembers at most ``most_found`` tools or sleeping
    plugins. With a ``store`` it still knows them after a restart. ``nearness`` compares the meaning
    of texts; without it, the search compares only words."""

    def __init__(
        self,
        most_found: int = 16,
        store: PluginDataStore | None = None,
        nearness: TextSimilarity | None = None,
    ) -> None:
        self._found = FoundTools(most_found, store)
        self._nearness = nearness

    async def recall(self, chat_key: ChatKey, tools: ToolSet) -> None:
        """Load the tools that the chat found before this process started, if ``tools`` has deferred
        tools. Call this before a prompt is written."""
        if tools.once(deferred_tools_of).deferred:
            await self._found.recall(chat_key)

    def with_search_tool(self, tools: ToolSet, *, natively: bool = False) -> ToolSet:
        """Return the set with `tool_search` added, if the set has deferred tools. With ``natively``
        the search describes its results as functions, for a model that calls functions natively."""
        if not tools.once(deferred_tools_of).deferred:
            return tools
        return tools.once(self._for_calls if natively else self._for_code)

    def found(self, chat_key: ChatKey, tools: ToolSet) -> tuple[NamedTool, ...]:
        """Return the tools that were found in this chat and still exist, the tool found longest ago
        first. For a sleeping plugin that was found, all its tools are returned. If all of them
        together are longer than `_FOUND_CHARS`, those found longest ago are left out."""
        keys = self._found.of(chat_key)
        if not keys:
            return ()
        shelf = tools.once(deferred_tools_of)
        by_key: dict[tuple[str, str], tuple[NamedTool, ...]] = {
            (each.tool.owner, each.tool.python_name): (each,) for each in shelf.single
        }
        by_key |= {(owner, ""): awake for owner, awake in shelf.asleep.items()}
        found = [each for key in keys for each in by_key.get(key, ())]
        sizes = itertools.accumulate(_size(each.tool) for each in reversed(found))
        fitting = sum(1 for size in sizes if size <= _FOUND_CHARS)
        return tuple(found[len(found) - fitting :])

    def asleep(self, chat_key: ChatKey, tools: ToolSet) -> frozenset[str]:
        """Return the keys of the plugins that are sleeping in this chat."""
        awake = {owner for owner, name in self._found.of(chat_key) if not name}
        return frozenset(tools.once(deferred_tools_of).asleep) - awake

    def functions(self, chat_key: ChatKey, tools: ToolSet) -> FunctionSet:
        """Return the functions for a model with native calls: the visible tools, and the deferred
        tools that the chat has found."""
        functions = tools.once(function_set)
        found = self.found(chat_key, tools)
        return functions.with_tools(each.tool for each in found) if found else functions

    async def forget(self, chat_key: ChatKey) -> None:
        """Forget what a chat found. Raises `StoreError`."""
        await self._found.forget(chat_key)

    def _for_code(self, tools: ToolSet) -> ToolSet:
        return self._with_search(tools, natively=False)

    def _for_calls(self, tools: ToolSet) -> ToolSet:
        return self._with_search(tools, natively=True)

    def _with_search(self, tools: ToolSet, *, natively: bool) -> ToolSet:
        async def tool_search(_ctx: AgentCtx, query: str, limit: int = 5) -> str:
            """Find functions that are not shown in full, by what they should do or by name.

            Args:
                query: What is wanted, in a few words of any language.
                limit: How many at most, up to 10.

            Returns:
                How to call those that fit best; they are yours from then on.

            Example:
                # User: what will the weather be like in Paris
                tool_search(query="weather forecast")

                # User: 帮我查一下快递到哪了
                tool_search(query="快递 查询")

                # User: この文章を英語に翻訳して
                tool_search(query="翻訳 英語")
            """
            hits = await self._search(_ctx.chat, tools, query, limit)
            return _as_functions(hits, searchable) if natively else _as_stubs(hits)

        kind, owner = ToolKind.TOOL, SEARCH_OWNER
        described = describe(tool_search, kind, name=SEARCH, module=_MODULE, owner=owner)
        assert described.tool is not None, described.problems
        tool = _fitted(described.tool, tools)
        names = (SEARCH,) if tools.resolve(SEARCH) is None else ()
        search = NamedTool(tool, (*names, f"{_MODULE}.{SEARCH}"))
        searchable = ToolSet((*tools.named, search), tools.clashes, tools.off)
        return searchable

    async def _search(
        self, chat_key: ChatKey, tools: ToolSet, query: str, limit: int
    ) -> Sequence[NamedTool]:
        if not query.strip():
            raise ToolFailure("query is empty: say in a few words what is wanted")
        if len(query) > _MOST_QUERY:
            raise ToolFailure(
                f"a query of {len(query)} characters: at most {_MOST_QUERY}, a few words"
            )
        index = await anyio.to_thread.run_sync(partial(tools.once, search_index_of))
        near = await self._nearness.of(query, index.sentences) if self._nearness else ()
        hits = [hit.named for hit in index.search(query, max(1, min(limit, MOST_HITS)), near)]
        if not hits:
            there = tools.once(deferred_tools_of).modules
            named = ", ".join(there[:_NAMED])
            raise ToolFailure(
                f"nothing fits {query[:200]!r}; try other words. These have functions: {named}"
            )
        # Add the best hit last: the model will most likely call it again, and the last key is
        # dropped last.
        keys = [
            (hit.tool.owner, "" if hit.tool.sleep_brief else hit.tool.python_name) for hit in hits
        ]
        await self._found.add(chat_key, reversed(keys))
        return hits


def deferred_tools_text(tools: ToolSet) -> str:
    """Return the prompt's lines about deferred tools, for a model that writes code. Call it through
    `ToolSet.once`."""
    return _more([(each.name, each) for each in tools.once(deferred_tools_of).single], tools)


def deferred_functions_text(tools: ToolSet) -> str:
    """Return the prompt's lines about deferred tools, for a model that calls functions natively."""
    functions = tools.once(function_set)
    return _more(
        [(functions.name_of(each.tool), each) for each in tools.once(deferred_tools_of).single],
        tools,
    )


def found_tools_text(found: Sequence[NamedTool]) -> str:
    """Return the full text of the tools that were found before."""
    if not found:
        return ""
    return "\n".join(["Found by tool_search before:", *map(tool_outline, found)])


def _more(single: Sequence[tuple[str, NamedTool]], tools: ToolSet) -> str:
    lines = deferred_lines(single)
    for sleeping in tools.once(deferred_tools_of).asleep.values():
        tool = sleeping[0].tool
        brief = " ".join(tool.sleep_brief.split())
        count = f"{len(sleeping)} function{'s'[: len(sleeping) > 1]}"
        lines.append(f"{tool.module}: {_short(brief)} ({count})")
    if not lines:
        return ""
    return "\n".join(["More functions; before you call one, tool_search shows how:", *lines])


def _short(brief: str, most: int = 80) -> str:
    return brief if len(brief) <= most else f"{brief[: most - 1]}…"


def _fitted(tool: Tool, tools: ToolSet) -> Tool:
    """Return the search tool with two properties that follow from the tools that it can find. It
    needs a chat if all of these tools need a chat. Small models get it if they get at least one of
    these tools."""
    deferred = [each.tool for each in tools.once(deferred_tools_of).deferred]
    return replace(
        tool,
        needs_chat=all(each.needs_chat for each in deferred),
        for_small_models=any(each.for_small_models for each in deferred),
    )


def _size(tool: Tool) -> int:
    return len(doc(tool)) + sum(len(repr(each.schema)) for each in tool.parameters)


def _as_stubs(hits: Sequence[NamedTool]) -> str:
    return "\n\n".join(["You can call these now:", *map(tool_text, hits)])


def _as_functions(hits: Sequence[NamedTool], tools: ToolSet) -> str:
    functions = tools.once(function_set)
    shown = []
    for each in hits:
        function = functions.function_of(each.tool)
        shown.append(
            {
                "name": function.name,
                "description": function.description,
                "parameters": function.parameters,
            }
        )
    head = "These are among your functions from your next reply on:"
    return "\n".join([head, *(json.dumps(each, ensure_ascii=False) for each in shown)])
