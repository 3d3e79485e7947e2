"""Loads a plugin to check it, and writes the report: the text that a model reads about the plugin,
the number of its tokens, and problems."""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from typing import Any

import anyio
from loguru import logger
from msgspec import structs

from nekro_core.agent.prompt.functions import tools_text
from nekro_core.agent.prompt.small_prompt import small_tools
from nekro_core.chat import ChatKey
from nekro_core.cli.plugin_kit.lint import blocking_calls, tool_advice
from nekro_core.llm.tokens import estimate_tokens
from nekro_core.plugins.host.links import LOCAL_FOLDER, link_plugin
from nekro_core.plugins.host.listing import PluginInfo
from nekro_core.plugins.host.settings import PluginSettings
from nekro_core.plugins.installation.attempts import Attempt, AttemptLog
from nekro_core.plugins.installation.check_order import DATA, CheckOrder, CheckResult
from nekro_core.plugins.installation.inspection import MANIFEST, inspect_plugin
from nekro_core.plugins.installation.report import abilities_text, with_author_paths
from nekro_core.plugins.packages import InvalidRequirements, PackagesRefused
from nekro_core.sandbox.settings import BackendName, SandboxSettings
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


_COUNTING_MODULE = "_bindings"
"""The module of `bpe_openai` that counts. It is written in Rust, with the vocabularies compiled in.
The package around it parses three of them as text when it is imported, which takes 1 s."""


def token_counter() -> TokenCounter:
    """Return a counter that uses the vocabulary of today's large models. If `bpe-openai` is not
    installed, return a counter that estimates."""
    package = find_spec("bpe_openai")
    if package is None:
        return TokenCounter("estimated", estimate_tokens)
    counting = PathFinder.find_spec(_COUNTING_MODULE, package.submodule_search_locations)
    if counting is None or counting.loader is None:
        return TokenCounter("estimated", estimate_tokens)
    bindings: Any = module_from_spec(counting)
    counting.loader.exec_module(bindings)
    return TokenCounter("o200k_base", bindings.tokenizer_for_encoding("o200k_base").count)


_NOWHERE = ChatKey.parse("test-private_check")


def carry_out(order: CheckOrder, folder: Path, *, confined: bool) -> CheckResult:
    """Load a plugin in a new, empty bot, and write the report. ``folder`` is the folder of this
    check, which is deleted afterwards. ``confined`` says whether the kernel refuses changes outside
    of this folder."""
    plugin, data = Path(order.plugin), folder / DATA
    item = link_plugin(plugin, data)
    link = data / LOCAL_FOLDER / (plugin.name if plugin.is_file() else item.partition("/")[2])
    attempts = AttemptLog(link, folder, refuse=not confined)
    attempts.start()
    os.environ.pop("PYTHONPATH", None)  # it was set only for this process
    logger.disable("nekro_core")  # the report itself names the problems

    def shown(text: str) -> str:
        text = with_author_paths(text, data, Path(order.shown))
        return text.replace(order.plugin, order.shown)

    try:
        loaded = anyio.run(_loaded, order, data)
    except (PluginNotLoaded, PackagesRefused, InvalidRequirements) as error:
        tried = [_shown_attempt(each, shown) for each in attempts.found]
        lines = [shown(str(error)), *map(str, _attempt_problems(tried))]
        report = "".join(f"{line}\n" for line in lines)
        return CheckResult(
            status=1, report=report, problems=report.rstrip(), attempts=tried, confined=confined
        )
    tried = [_shown_attempt(each, shown) for each in attempts.found]
    report = "\n".join(_report(plugin, loaded, [*_attempt_problems(tried)])) + "\n"
    info = loaded.info
    broken = [each for each in info.problems if each.severity is ProblemSeverity.ERROR]
    return CheckResult(
        status=1 if broken else 0,
        report=shown(report),
        loaded=True,
        attempts=tried,
        confined=confined,
    )


@dataclass(frozen=True, slots=True)
class _Loaded:
    """What a loaded plugin offers, and the texts that it adds to every prompt."""

    info: PluginInfo
    tools: ToolSet
    notes: Sequence[str]


async def _loaded(order: CheckOrder, data: Path) -> _Loaded:
    settings = {
        "nekro_plugin": PluginSettings.model_validate_json(order.settings),
        # No code runs in a check: keep no box ready, and no packages for boxes.
        "nekro_sandbox": SandboxSettings(backend=BackendName.JAIL, pool_size=0, packages=False),
    }
    async with Bot.open(data, Path(order.plugin), settings=settings) as bot:
        # If the plugin supports only some adapters, use a chat of one of these adapters, because it
        # offers its tools only in such chats.
        (adapter, *_) = (*bot.plugin.support_adapter, _NOWHERE.instance)
        ctx = bot.app.plugins.context_for(replace(_NOWHERE, instance=adapter))
        tools = _own(await bot.app.plugins.tools_in(ctx), bot.info)
        notes = [
            each.text
            for each in await bot.app.plugins.prompt_injections(ctx)
            if each.plugin == bot.info.key
        ]
        return _Loaded(bot.info, tools, notes)


def _shown_attempt(attempt: Attempt, shown: Callable[[str], str]) -> Attempt:
    return structs.replace(attempt, text=shown(attempt.text), where=shown(attempt.where))


def _attempt_problems(attempts: Sequence[Attempt]) -> Iterator[PluginProblem]:
    for each in attempts:
        if each.packages:
            names = " ".join(each.packages)
            remedy = f"name {names} in requirements.txt: nekro plugin install gets it, pip need not"
        elif each.text.startswith("starts "):
            remedy = "start programs where the plugin is used, not while it is loaded"
        else:
            remedy = "write below plugin.get_plugin_data_dir()"
        yield PluginProblem(
            severity=ProblemSeverity.WARNING,
            message=f"while it was loaded: {each.text}; a check lets nothing outside be changed",
            where=each.where,
            remedy=remedy,
        )


def _own(tools: ToolSet, info: PluginInfo) -> ToolSet:
    return ToolSet(tuple(each for each in tools.named if each.tool.owner == info.key))


def _report(plugin: Path, loaded: _Loaded, attempts: Sequence[PluginProblem]) -> Iterator[str]:
    counter = token_counter()
    info, tools, notes = loaded.info, loaded.tools, loaded.notes
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
    yield from _findings(plugin, [*info.problems, *attempts], visible, counter)


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
    plugin: Path,
    known: Sequence[PluginProblem],
    visible: Sequence[NamedTool],
    counter: TokenCounter,
) -> Iterator[str]:
    costs = [_code_cost(each, counter) for each in visible]
    found: list[PluginProblem] = [
        *known,
        *blocking_calls(plugin.resolve()),
        *tool_advice(
            [each.tool for each in visible], costs, can_teach=not (plugin / MANIFEST).exists()
        ),
    ]
    for problem in found:
        yield f"{problem.severity.value}: {problem}"
    count = "1 finding" if len(found) == 1 else f"{len(found)} findings"
    yield count if found else "nothing to mend"
