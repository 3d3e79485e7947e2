"""Implements ``nekro plugin check``: loads a plugin, shows the text that a model reads about it,
and reports problems."""

import json
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TextIO

from loguru import logger

from nekro_core.agent.prompt.functions import tools_text
from nekro_core.agent.prompt.small_prompt import small_tools
from nekro_core.chat import ChatKey
from nekro_core.cli.plugin_kit.inspection import MANIFEST, inspect_plugin
from nekro_core.cli.plugin_kit.lint import blocking_calls, tool_advice
from nekro_core.cli.plugin_kit.packages import fetch_packages
from nekro_core.cli.plugin_kit.report import abilities_text, with_author_paths
from nekro_core.llm.tokens import estimate_tokens
from nekro_core.plugins.host.listing import PluginInfo, PluginState
from nekro_core.plugins.host.settings import PluginSettings
from nekro_core.plugins.packages import InvalidRequirements, PackagesRefused
from nekro_core.testing import Bot, PluginNotLoaded
from nekro_core.tools.discovery import deferred_lines
from nekro_core.tools.names import NamedTool, ToolSet
from nekro_core.tools.problem import PluginProblem, ProblemSeverity
from nekro_core.tools.schema import function_schema
from nekro_core.tools.stub import signature_text
from nekro_core.tools.tool import Visibility


@dataclass(frozen=True, slots=True)
class TokenCounter:
    """Counts the tokens of a text. ``name`` is the name of the vocabulary, or ``estimated``."""

    name: str
    count: Callable[[str], int]


def token_counter() -> TokenCounter:
    """Return a counter that uses the vocabulary of today's large models. If `bpe-openai` is not
    installed, return a counter that estimates."""
    if find_spec("bpe_openai") is None:
        return TokenCounter("estimated", estimate_tokens)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # raised by bpe_openai
        import bpe_openai  # noqa: PLC0415 - optional, and takes 40 MB

        encoding = bpe_openai.get_encoding("o200k_base")
    return TokenCounter("o200k_base", lambda text: len(encoding.encode(text)))


_NOWHERE = ChatKey.parse("test-private_check")


async def check(plugin: Path, out: TextIO, settings: PluginSettings | None = None) -> int:
    """Load a plugin in a new, empty bot, and print a report.

    Returns 0, or 1 if the plugin or one of its tools cannot be used. Raises `NoPlugin`.
    """
    counter = token_counter()
    settings = settings or PluginSettings()
    strict = PluginSettings(strict_host_range=settings.strict_host_range)
    logger.disable("nekro_core")  # the report has the same problems
    try:
        with tempfile.TemporaryDirectory(prefix="nekro-check-") as folder:
            data = Path(folder) / "data"
            try:
                await fetch_packages(plugin, data, settings, out)
                async with Bot.open(data, plugin, settings={"nekro_plugin": strict}) as bot:
                    ctx = bot.app.plugins.context_for(_NOWHERE)
                    tools = _own(await bot.app.plugins.tools_in(ctx), bot.info)
                    notes = [
                        each.text
                        for each in await bot.app.plugins.prompt_injections(ctx)
                        if each.plugin == bot.info.key
                    ]
                    info = bot.info
            except (PluginNotLoaded, PackagesRefused, InvalidRequirements) as error:
                out.write(f"{with_author_paths(str(error), data, plugin)}\n")
                return 1
    finally:
        logger.enable("nekro_core")
    report = "\n".join(_report(plugin, info, tools, notes, counter)) + "\n"
    out.write(with_author_paths(report, data, plugin))
    broken = [each for each in info.problems if each.severity is ProblemSeverity.ERROR]
    return 1 if broken or info.state is not PluginState.LOADED else 0


def _own(tools: ToolSet, info: PluginInfo) -> ToolSet:
    return ToolSet(tuple(each for each in tools.named if each.tool.owner == info.key))


def _report(
    plugin: Path, info: PluginInfo, tools: ToolSet, notes: Sequence[str], counter: TokenCounter
) -> Iterator[str]:
    yield f"{info.key} {info.version}: {info.name}. {info.description}"
    yield from abilities_text(inspect_plugin(plugin))
    visible = [each for each in tools.named if each.tool.visibility is Visibility.VISIBLE]
    deferred = [each for each in tools.named if each.tool.visibility is Visibility.DEFERRED]
    if visible:
        yield "\nWhat a model reads that answers in Python:\n"
        yield tools_text(tools)
        yield "\nWhat a model reads that calls functions:\n"
        yield from (json.dumps(_function(each), ensure_ascii=False) for each in visible)
    for note in notes:
        yield f"\nWhat it adds to every prompt:\n\n{note}"
    if small := small_tools(tools):
        yield "\nWhat the built-in small model is offered:\n"
        yield from (signature_text(each.tool, each.name) for each in small)
    lines = deferred_lines([(each.name, each) for each in deferred])
    if lines:
        yield "\nWhat a model reads of those that it finds by searching (tool_search):\n"
        yield from lines
    yield f"\nWhat it costs in tokens ({counter.name}):\n"
    yield from _costs(visible, notes, lines, counter)
    yield ""
    yield from _findings(plugin, info, visible, counter)


def _function(named: NamedTool) -> object:
    return function_schema(named.tool, named.name)["function"]


def _code_cost(named: NamedTool, counter: TokenCounter) -> int:
    return counter.count(tools_text(ToolSet((named,))))


def _costs(
    visible: Sequence[NamedTool], notes: Sequence[str], lines: Sequence[str], counter: TokenCounter
) -> Iterator[str]:
    noted, listed = sum(map(counter.count, notes)), counter.count("\n".join(lines))
    as_code = [_code_cost(each, counter) for each in visible]
    as_function = [counter.count(json.dumps(_function(each))) for each in visible]
    for each, code, function in zip(visible, as_code, as_function, strict=True):
        yield f"{code:6} as Python, {function:6} as a function: {each.name}"
    if noted:
        yield f"{noted:6} what it adds to every prompt"
    if lines:
        yield f"{listed:6} the lines of those that are found by searching"
    code, function = sum(as_code) + noted + listed, sum(as_function) + noted + listed
    yield f"{code:6} of every prompt in code mode, {function} in tool mode"


def _findings(
    plugin: Path, info: PluginInfo, visible: Sequence[NamedTool], counter: TokenCounter
) -> Iterator[str]:
    costs = [_code_cost(each, counter) for each in visible]
    found: list[PluginProblem] = [
        *info.problems,
        *blocking_calls(plugin.resolve()),
        *tool_advice(
            [each.tool for each in visible], costs, can_teach=not (plugin / MANIFEST).exists()
        ),
    ]
    for problem in found:
        yield f"{problem.severity.value}: {problem}"
    yield f"{len(found)} findings" if found else "nothing to mend"
