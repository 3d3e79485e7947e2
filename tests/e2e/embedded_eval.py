"""Measures how well the embedded model answers prompts with the built-in plugins' tools, and prints
a table.

Run by hand: ``python -m tests.e2e.embedded_eval [--half held_out] [--set FILE] [--file MODEL]``.
The prompts are the 60 of ``embedded_prompts.toml``, or those of another file in this form. In
such a file, ``expect`` is a regular expression that must match what the code posts, and ``tools``
may be left out: then any tool is right if there is an ``expect``, else those that quote the chat's
past.
The code is executed with the functions of a box. There it is Saturday 2026-11-28, 12:00.
"""

import argparse
import contextlib
import importlib
import os
import re
import statistics
import sys
import time
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import anyio

from nekro_core.agent.prompt.small_prompt import beginnings, small_prompt
from nekro_core.chat import Author, ChatKey, ChatKind, Record, Sender, Text
from nekro_core.llm.embedded.model import EmbeddedModel
from nekro_core.llm.embedded.settings import EmbeddedSettings
from nekro_core.llm.model import ChatModel, TextDelta
from nekro_core.plugins.host.builtin import NAMESPACE, builtin_folder, items_in, namespace
from nekro_core.tools.describe import describe
from nekro_core.tools.names import ToolSet, tool_set
from nekro_core.tools.tool import REQUIRED

PROMPTS = Path(__file__).with_name("embedded_prompts.toml")
FOLDER = Path("data/models")
NOW = datetime(2026, 11, 28, 12, 0)  # noqa: DTZ001 - the local time of a box
GUEST = Path("nekro_core/sandbox/guest")
_CHAT = ChatKey("web", ChatKind.PRIVATE, "eval")
_PAST = ["quote_messages", "find_messages", "recent_messages"]


@dataclass(frozen=True)
class Prompt:
    """What a person says, and what a right answer does: it calls one of ``tools`` (any tool if
    ``tools`` is empty) with ``arguments``, and posts a text that matches ``expect``."""

    half: str
    language: str
    says: str
    tools: list[str]
    arguments: dict[str, dict[str, Any]]
    expect: str = ""


@dataclass(frozen=True)
class Outcome:
    prompt: Prompt
    code: str
    tool_right: bool
    arguments_right: bool
    seconds: float


def read_prompts(half: str, file: Path = PROMPTS) -> list[Prompt]:
    data = tomllib.loads(file.read_text("utf-8"))["prompt"]
    prompts = [
        Prompt(**_without_alias(each, [] if "expect" in each else _PAST, file.stem))
        for each in data
    ]
    return [each for each in prompts if half in ("all", each.half)]


def _without_alias(given: dict[str, Any], tools: list[str], half: str) -> dict[str, Any]:
    filled = {"half": half, "tools": tools, "arguments": {}, **given}
    if "find_messages" in filled["tools"]:  # small models get quote_messages instead
        filled["tools"] = [*filled["tools"], "quote_messages"]
    return filled


def builtin_tools() -> ToolSet:
    """The tools of the built-in plugins as a chat has them, made without a bot."""
    package = namespace(f"{NAMESPACE}.plugins", builtin_folder("plugins"))
    found = []
    for name in items_in(builtin_folder("plugins")):
        plugin = importlib.import_module(f"{package}.{name}").plugin
        for method in plugin.sandbox_methods:
            described = describe(
                method.func,
                method.method_type,
                name=method.name,
                description=method.description,
                module=plugin.module_name,
                owner=plugin.key,
                for_small_models=plugin.for_small_models,
                visibility=method.visibility,
                examples=method.examples,
            )
            assert described.tool, described.problems
            found.append(described.tool)
    return tool_set(found)


def said(text: str) -> Record:
    return Record(
        seq=1,
        chat_key=_CHAT,
        author=Author.PERSON,
        segments=(Text(text),),
        time=0.0,
        sender=Sender("lin", "Lin"),
        to_bot=True,
    )


async def answer(
    model: ChatModel, tools: ToolSet, text: str, unread: frozenset[str] = frozenset()
) -> str:
    request = small_prompt(tools, [said(text)], unread=unread)
    async with model.stream(request) as deltas:
        return "".join([each.text async for each in deltas if isinstance(each, TextDelta)])


def box_functions() -> dict[str, Any]:
    """Return the functions that a box has as builtins, with a fixed time."""
    sys.path.insert(0, str(GUEST))
    try:
        found: dict[str, Any] = importlib.import_module("guest_calculations").functions(lambda: NOW)
    finally:
        sys.path.remove(str(GUEST))
    return found


@dataclass(frozen=True)
class Call:
    name: str
    arguments: dict[str, Any]


def calls_of(tools: ToolSet, code: str) -> list[Call]:
    """Execute the code with tools that only record their calls, and return the calls. If the code
    fails, these are the calls before the failing line."""
    found: list[Call] = []

    def recorder(name: str) -> Any:
        tool = tools.resolve(name)
        assert tool is not None

        def call(*args: Any, **kwargs: Any) -> None:
            bound = {each.name: each.default for each in tool.parameters}
            bound |= dict(zip(bound, args, strict=False)) | kwargs
            found.append(Call(name, bound))

        return call

    scope = box_functions() | {each.name: recorder(each.name) for each in tools.named}
    with contextlib.suppress(SyntaxError, ValueError, ArithmeticError, TypeError, NameError):
        exec(code, scope)
    return found


def judge(tools: ToolSet, prompt: Prompt, code: str) -> tuple[bool, bool]:
    """Return whether a right tool is called, and whether such a call has the right arguments and
    posts what is expected."""
    calls = calls_of(tools, code)
    right = [each for each in calls if each.name in prompt.tools or not prompt.tools]
    holds = any(_holds(prompt, call) for call in right)
    return bool(right), holds and (not prompt.expect or _posts(prompt.expect, calls))


def _posts(expected: str, calls: Sequence[Call]) -> bool:
    texts = [
        str(value)
        for call in calls
        for value in call.arguments.values()
        if value is not REQUIRED and value is not None
    ]
    posted = re.sub(r"(?<=\d),(?=\d)", "", "\n".join(texts))
    return bool(re.search(expected, posted, re.IGNORECASE | re.DOTALL))


def _holds(prompt: Prompt, call: Call) -> bool:
    bound = call.arguments
    if {"labels", "values"} <= bound.keys() and len(bound["labels"]) != len(bound["values"]):
        return False
    return all(
        name in bound and _meets(bound[name], check) for name, check in prompt.arguments.items()
    )


def _meets(value: Any, check: dict[str, Any]) -> bool:
    text = str(value).casefold()
    if "equals" in check:
        return bool(value == check["equals"])
    if "contains_any" in check:
        return any(word.casefold() in text for word in check["contains_any"])
    return all(word.casefold() in text for word in check["contains_all"])


async def evaluate(
    model: EmbeddedModel, prompts: Sequence[Prompt], *, brief: bool = False, verbose: bool = False
) -> list[Outcome]:
    """Let the model answer each prompt, and judge the answers. With ``brief``, the model gets the
    short instructions that a bot uses in its first minute, while the model reads the long ones."""
    tools = builtin_tools()
    languages = {each.language for each in prompts}
    if not brief:
        await model.prepare([each for each in beginnings(tools) if each.cache_key in languages])
    outcomes = []
    for prompt in prompts:
        started = time.perf_counter()
        unread = frozenset(languages if brief else ())
        code = await answer(model, tools, prompt.says, unread)
        seconds = time.perf_counter() - started
        outcomes.append(Outcome(prompt, code, *judge(tools, prompt, code), seconds))
        if verbose:
            print(outcomes[-1].arguments_right, f"{seconds:.1f}", prompt.says, code, flush=True)
    return outcomes


def table(name: str, outcomes: Sequence[Outcome]) -> str:
    lines = [f"{name:<44} {'tool':>7} {'arguments':>10} {'p50 s':>6} {'p99 s':>6}"]
    for half in dict.fromkeys(each.prompt.half for each in outcomes):
        for language in ("en", "zh", "ja", "all"):
            some = [
                each
                for each in outcomes
                if each.prompt.half == half and language in (each.prompt.language, "all")
            ]
            seconds = sorted(each.seconds for each in some)
            p50, p99 = statistics.median(seconds), seconds[round(0.99 * (len(seconds) - 1))]
            tool = f"{sum(each.tool_right for each in some)}/{len(some)}"
            asked = f"{sum(each.arguments_right for each in some)}/{len(some)}"
            label = f"  {half}, {language}"
            lines.append(f"{label:<44} {tool:>7} {asked:>10} {p50:>6.2f} {p99:>6.2f}")
    return "\n".join(lines)


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--half", default="all")
    parser.add_argument("--file", type=Path, help="a GGUF file instead of the usual one")
    parser.add_argument("--set", type=Path, default=PROMPTS, help="another file of prompts")
    parser.add_argument("--brief", action="store_true", help="use the prompts of the first minute")
    parser.add_argument("--failures", action="store_true", help="show all but those of held_out")
    arguments = parser.parse_args()
    model = EmbeddedModel(EmbeddedSettings(model_file=arguments.file), FOLDER, report=print)
    try:
        outcomes = await evaluate(
            model,
            read_prompts(arguments.half, arguments.set),
            brief=arguments.brief,
            verbose=arguments.failures,
        )
    finally:
        await model.aclose()
    print(table(arguments.file.name if arguments.file else "embedded model", outcomes))
    print(f"load of the machine while measuring: {os.getloadavg()[0]:.1f}")
    for each in outcomes:
        failed = not each.arguments_right and each.prompt.half != "held_out"
        if arguments.failures and failed:
            print(f"{each.prompt.says}\n    {each.code}")


if __name__ == "__main__":
    anyio.run(main)
