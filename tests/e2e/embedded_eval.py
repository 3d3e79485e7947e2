"""Measures how well the embedded model answers 60 prompts with the built-in plugins' tools, and
prints a table.

Run by hand: ``python -m tests.e2e.embedded_eval [--half held_out] [--file MODEL.gguf]``.
"""

import argparse
import ast
import importlib
import os
import statistics
import time
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
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

PROMPTS = Path(__file__).with_name("embedded_prompts.toml")
FOLDER = Path("data/models")
_CHAT = ChatKey("web", ChatKind.PRIVATE, "eval")


@dataclass(frozen=True)
class Prompt:
    half: str
    language: str
    says: str
    tools: list[str]
    arguments: dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Outcome:
    prompt: Prompt
    code: str
    tool_right: bool
    arguments_right: bool
    seconds: float


def read_prompts(half: str) -> list[Prompt]:
    data = tomllib.loads(PROMPTS.read_text("utf-8"))["prompt"]
    prompts = [Prompt(**{"arguments": {}, **each}) for each in data]
    return [each for each in prompts if half in ("all", each.half)]


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


async def answer(model: ChatModel, tools: ToolSet, text: str) -> str:
    async with model.stream(small_prompt(tools, [said(text)])) as deltas:
        return "".join([each.text async for each in deltas if isinstance(each, TextDelta)])


def judge(tools: ToolSet, prompt: Prompt, code: str) -> tuple[bool, bool]:
    """Return whether a right tool is called, and whether such a call has the right arguments."""
    try:
        body = ast.parse(code).body
    except SyntaxError:  # cut off at the token limit
        return False, False
    calls = [node.value for node in body if isinstance(node, ast.Expr)]
    right = [
        call
        for call in calls
        if isinstance(call, ast.Call) and ast.unparse(call.func) in prompt.tools
    ]
    return bool(right), any(_holds(tools, prompt, call) for call in right)


def _holds(tools: ToolSet, prompt: Prompt, call: ast.Call) -> bool:
    tool = tools.resolve(ast.unparse(call.func))
    assert tool is not None
    bound = {each.name: each.default for each in tool.parameters}
    bound |= dict(zip(bound, map(ast.literal_eval, call.args), strict=False))
    bound |= {str(each.arg): ast.literal_eval(each.value) for each in call.keywords}
    if {"labels", "values"} <= bound.keys() and len(bound["labels"]) != len(bound["values"]):
        return False
    return all(_meets(bound[name], check) for name, check in prompt.arguments.items())


def _meets(value: Any, check: dict[str, Any]) -> bool:
    text = str(value).casefold()
    if "equals" in check:
        return bool(value == check["equals"])
    if "contains_any" in check:
        return any(word.casefold() in text for word in check["contains_any"])
    return all(word.casefold() in text for word in check["contains_all"])


async def evaluate(model: EmbeddedModel, prompts: Sequence[Prompt]) -> list[Outcome]:
    tools = builtin_tools()
    await model.prepare(beginnings(tools))
    outcomes = []
    for prompt in prompts:
        started = time.perf_counter()
        code = await answer(model, tools, prompt.says)
        seconds = time.perf_counter() - started
        outcomes.append(Outcome(prompt, code, *judge(tools, prompt, code), seconds))
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
    parser.add_argument("--half", choices=["tuning", "held_out", "all"], default="all")
    parser.add_argument("--file", type=Path, help="a GGUF file instead of the usual one")
    parser.add_argument("--failures", action="store_true", help="show those of the tuning half")
    arguments = parser.parse_args()
    model = EmbeddedModel(EmbeddedSettings(model_file=arguments.file), FOLDER, report=print)
    try:
        outcomes = await evaluate(model, read_prompts(arguments.half))
    finally:
        await model.aclose()
    print(table(arguments.file.name if arguments.file else "embedded model", outcomes))
    print(f"load of the machine while measuring: {os.getloadavg()[0]:.1f}")
    for each in outcomes:
        failed = not each.arguments_right and each.prompt.half == "tuning"
        if arguments.failures and failed:
            print(f"{each.prompt.says}\n    {each.code}")


if __name__ == "__main__":
    anyio.run(main)
