"""Checks which packages are not imported at the start of a bot, by the check of a plugin, and by a
small command.

Importing each of these packages takes time and memory, and the package is needed only later or
rarely. So it is imported where it is used (see "Style" in CONTRIBUTING.md). `make bench` measures
the times.
"""

import asyncio
import os
import subprocess
import sys
import textwrap
from collections.abc import Collection, Mapping
from pathlib import Path

import pytest

from nekro_core.cli.commands import FUNCTIONS
from nekro_core.cli.plugin_kit.new import write_new

ROOT = Path(__file__).parents[2]

OF_PAGES = frozenset({"nicegui", "socketio", "aiohttp", "jinja2", "nekro_core.console.pages"})
"""These modules are needed when a person opens the console."""
OF_TEXTS = frozenset({"latex2mathml", "nh3", "pygments.lexers.python", "regex"})
"""These modules are needed to make HTML of a text with markup, and to match a text with a plugin's
pattern."""
OF_MEDIA = frozenset({"av", "pypdf", "docx", "openpyxl", "lxml", "semantic_text_splitter"})
"""These modules are needed to decode a sound and to read a document."""
OF_DATABASES = frozenset({"tortoise", "pypika_tortoise", "asyncpg", "nekro_core.store.models"})
"""These modules are needed to migrate older tables, to use PostgreSQL, and by plugins for
nekro-agent."""
OF_SEARCHES = frozenset({"numpy"})
"""This module is needed to search messages, and to merge the segments of the index after each
thousand new messages of a chat."""
OF_OPERATORS = frozenset(
    {
        "argon2",
        "cryptography",
        "nekro_core.app.operator_areas",
        "nekro_core.console.operator_api",
        "nekro_core.llm.probe.endpoint",
        "nekro_core.operator.operator",
        "nekro_core.plugins.installation.manager",
        "pyotp",
        "ruamel",
        "segno",
        "tomlkit",
    }
)
"""These modules are needed when an operator opens a page, calls the HTTP API, gives a password or a
second factor, makes a backup with secrets, changes a file, or tests an endpoint."""
OF_CLUSTERS = frozenset(
    {
        "nekro_core.app.shared_plugins",
        "nekro_core.cluster.box_storage",
        "nekro_core.cluster.plugin_objects",
        "nekro_core.cluster.shared_media",
    }
)
"""These modules are needed by a process of a cluster."""
OF_CHECKS = frozenset(
    {"nekro_core.agent.prompt.small_prompt", "nekro_core.llm.gbnf", "packaging", "yaml"}
)
"""A running bot needs these modules for the embedded model, when a plugin is installed, and for
configurations of plugins. The check of a plugin imports all of them."""
OF_OTHERS = frozenset(
    {
        "anthropic",
        "docker",
        "maibot_sdk",
        "mcp",
        "nekro_core.compat.maibot.gateways",
        "nekro_core.compat.nekro_agent.legacy_message",
        "openai",
        "pandas",
        "pytest",
        "xllamacpp",
    }
)
"""Each of these modules is needed by a backend, a plugin or a model that few bots use."""
OF_MONITORING = frozenset({"prometheus_client", "opentelemetry.sdk"})
"""These modules are needed when a program first reads the metrics, and to trace. FastAPI itself
imports OpenTelemetry's small API, if it is installed."""
LATER = (
    OF_PAGES
    | OF_TEXTS
    | OF_MEDIA
    | OF_DATABASES
    | OF_SEARCHES
    | OF_OPERATORS
    | OF_CLUSTERS
    | OF_OTHERS
    | OF_MONITORING
)

OF_THE_BOT = frozenset(
    {"fastapi", "uvicorn", "httpx", "nekro_core.app.app", "nekro_core.agent.turn"}
)
"""A command that only reads a setting or sends a signal does not need these modules."""

_RUN = """
import json, os, signal, sys, threading, time
from pathlib import Path
from nekro_core.system.start_imports import quicken_imports

quicken_imports()
from nekro_core.app.server import run

def look():
    ready = Path(os.environ["NEKRO_DATA_DIR"], "running.json")
    while not ready.exists():
        time.sleep(0.05)
    Path("modules.txt").write_text("\\n".join(sorted(sys.modules)))
    os.kill(os.getpid(), signal.SIGTERM)

threading.Thread(target=look, daemon=True).start()
sys.exit(run())
"""
_COMMAND = """
import sys
from nekro_core.cli.commands import find_command
find_command(sys.argv[1])
print(*sorted(sys.modules), sep="\\n")
"""
_SEGMENT = """
import sys
import nekro_core.memory.search.indexer
from nekro_core.memory.search.message import message_terms
from nekro_core.memory.search.segments import make_page
from nekro_core.store.search_blocks import IndexedMessage, encode_facts
assert make_page([message_terms('[{"type": "text", "text": "a kiln"}]', "person", "1", "tom")])
assert encode_facts([IndexedMessage(1, 2.5, 300, 4)])
print(*sorted(sys.modules), sep="\\n")
"""


def _found(modules: Collection[str], forbidden: Collection[str]) -> list[str]:
    return sorted({*forbidden} & {*modules})


async def _output(*arguments: str, at: Path, environment: Mapping[str, str]) -> str:
    """Run Python and return what it printed, also to standard error."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *arguments,
        cwd=at,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    said, _ = await process.communicate()
    assert process.returncode == 0, said.decode()[-4000:]
    return said.decode()


async def test_a_running_bot_has_not_imported_packages_that_are_needed_only_later(
    tmp_path: Path,
) -> None:
    settings = {
        "NEKRO_DATA_DIR": str(tmp_path / "data"),
        "NEKRO_LLM__BASE_URL": "http://127.0.0.1:9/v1",
        "NEKRO_LLM__MODEL": "none",
        "PORT": "0",
    }
    await _output("-c", _RUN, at=tmp_path, environment=settings)
    modules = (tmp_path / "modules.txt").read_text().split()
    assert "nekro_core.agent.turn.turn" in modules
    assert _found(modules, LATER | OF_CHECKS) == []


async def test_a_plugin_check_imports_no_more_than_a_bot(tmp_path: Path) -> None:
    write_new(tmp_path, "dice_cup", "you")
    code = tmp_path / "dice_cup" / "__init__.py"
    printed = """

    import sys

    print("loaded", *sys.modules)
    """
    code.write_text(code.read_text("utf-8") + textwrap.dedent(printed), "utf-8")
    arguments = ("-m", "nekro_core", "plugin", "check", "dice_cup")
    said = await _output(*arguments, at=tmp_path, environment={})
    (line,) = (each for each in said.splitlines() if each.startswith("loaded "))
    modules = line.split()
    assert "nekro_core.cli.plugin_kit.check_report" in modules
    assert _found(modules, LATER) == []


@pytest.mark.parametrize("command", ["restart", "get"])
async def test_a_small_command_does_not_import_the_bot(tmp_path: Path, command: str) -> None:
    assert command in FUNCTIONS
    modules = (await _output("-c", _COMMAND, command, at=tmp_path, environment={})).split()
    assert "nekro_core.app.settings" in modules
    assert _found(modules, LATER | OF_THE_BOT) == []


async def test_a_small_segment_of_the_search_index_is_made_without_numpy(tmp_path: Path) -> None:
    modules = (await _output("-c", _SEGMENT, at=tmp_path, environment={})).split()
    assert _found(modules, OF_SEARCHES) == []
