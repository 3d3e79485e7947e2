"""The tables in docs/maibot.md are generated here from the code: capabilities, hooks and events.

``python -m tests.compat.maibot.test_table`` writes them again.
"""

import ast
import importlib
import inspect
import re
import textwrap
from pathlib import Path

import maibot_sdk.capabilities
import pytest
from maibot_sdk import types as sdk_types
from maibot_sdk.context import PluginContext

from nekro_core.compat.maibot.capabilities import CAPABILITIES
from nekro_core.compat.maibot.hooks.handlers import EVENTS, HOOKS
from nekro_core.compat.maibot.onebot_apis import SECTIONS, find_onebot_api, onebot_apis

PAGE = Path(__file__).parents[3] / "docs" / "maibot.md"
BEGIN, END = "<!-- generated: tests/compat/maibot/test_table.py -->", "<!-- end -->"
STATE = re.compile(r"works\b|partly: .+|not: .+")
LATER = ("statistics.", "market.", "webui.")
"""Families of capabilities that the bot need not offer."""
PROXIES = {
    "logger": "works",
    "plugin_id": "works",
    "paths.data_dir": "works; `data/plugin_data/<key>`",
    "paths.runtime_dir": "works; inside `data_dir`",
    "call_capability": "works",
    "call_host_method": "works; the three methods that the SDK allows",
}
METHODS = {
    "gateway.route_message": "works",
    "gateway.update_state": "works; the gateway becomes an adapter, beside the bot's own",
    "gateway.receive_external_message": "works",
    "gateway.update_runtime_state": "works",
}


def sdk_names() -> set[str]:
    """Every capability that the SDK's proxies call. The names are read from the SDK's source."""
    found: set[str] = set()
    folder = Path(maibot_sdk.capabilities.__file__).parent
    for path in folder.glob("*.py"):
        module = importlib.import_module(f"maibot_sdk.capabilities.{path.stem}")
        tree = ast.parse(textwrap.dedent(inspect.getsource(module)) or "pass")
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found |= set(re.findall(r"\A[a-z]+(?:\.[a-z]+)?\.[a-z_0-9]+\Z", node.value))
    return {name for name in found if not name.startswith(("host.", "cap."))}


def table(rows: dict[str, str], head: str) -> str:
    lines = [f"| {head} | here |", "|---|---|"]
    lines += [f"| `{name}` | {state} |" for name, state in rows.items()]
    return "\n".join(lines)


def apis() -> str:
    """The names that `find_onebot_api` knows, a line for each section."""
    rows = {"action": ["call", "call_data"]} | {name: [*words] for name, words in SECTIONS.items()}
    lines = ["| names | the last word |", "|---|---|"]
    for section, words in rows.items():
        names = ", ".join(f"`{word}`" for word in words)
        lines.append(f"| `adapter.napcat.{section}.*` | {names} |")
    return "\n".join(lines)


def generated() -> str:
    asked = {
        f"ctx.{name.replace('database.', 'db.')}": offered.state
        for name, offered in CAPABILITIES.items()
    }
    asked |= {f"ctx.{name}": state for name, state in {**METHODS, **PROXIES}.items()}
    parts = [
        "## What a plugin may ask",
        table(asked, "name"),
        "## Hooks",
        table(dict(HOOKS), "hook"),
        "## Events",
        table(dict(EVENTS), "event"),
        "## APIs of the OneBot adapter",
        apis(),
    ]
    return "\n\n".join([BEGIN, *parts, END])


def test_the_tables_of_the_page_agree_with_the_code() -> None:
    text = PAGE.read_text(encoding="utf-8")
    written = text[text.index(BEGIN) : text.index(END) + len(END)]
    assert written == generated(), "python -m tests.compat.maibot.test_table writes it again"


def test_every_capability_of_the_sdk_is_answered() -> None:
    missing = sdk_names() - set(CAPABILITIES)
    assert missing == set()
    assert len(sdk_names()) > 60


def test_every_proxy_of_the_context_is_in_the_table() -> None:
    context = PluginContext("a.b")
    proxies = {name for name in vars(context) if not name.startswith("_")} - {"paths"}
    families = {name.partition(".")[0] for name in [*CAPABILITIES, *METHODS]}
    assert proxies == {"db" if name == "database" else name for name in families}


def test_each_listed_api_of_the_onebot_adapter_is_found_by_its_names() -> None:
    listed = list(onebot_apis())
    assert len({each.name for each in listed}) == len(listed)
    for each in listed:
        assert find_onebot_api(each.name, "1") == each
        assert find_onebot_api(f"{each.provider}.{each.name}") == each
        assert find_onebot_api(each.name, "2") is None


@pytest.mark.parametrize("states", [HOOKS, EVENTS])
def test_every_state_begins_with_works_partly_or_not(states: dict[str, str]) -> None:
    assert all(STATE.fullmatch(state) for state in states.values())


def test_every_required_capability_works() -> None:
    for name, offered in CAPABILITIES.items():
        assert re.match(STATE, offered.state), name
        if not name.startswith(LATER):
            assert not offered.state.startswith("not"), name


def test_every_event_of_the_sdk_is_in_the_table() -> None:
    assert set(EVENTS) == {each.value for each in sdk_types.EventType} - {"unknown"}


if __name__ == "__main__":
    old = PAGE.read_text(encoding="utf-8")
    head, _, rest = old.partition(BEGIN)
    PAGE.write_text(head + generated() + rest.partition(END)[2], encoding="utf-8")
