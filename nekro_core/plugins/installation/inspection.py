"""Reads a plugin's source and lists what its code can do. The code is not run.

A plugin is trusted code. The result tells an operator what the plugin does, but it does not protect
against a hostile plugin: only names in the source are checked, and code can hide what it does.
"""

import ast
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from nekro_core.plugins.authoring.pattern_usage import usage_of_pattern
from nekro_core.plugins.authoring.plugin_key import author_key, module_key

MANIFEST = "_manifest.json"
_LEFT_OUT = frozenset({"tests", "test", "docs", "__pycache__", ".git", "node_modules", ".venv"})
_MOST_FILES = 2_000
_LARGEST_SOURCE = 2_000_000

ABILITIES: Mapping[str, str] = MappingProxyType(
    {
        "reads_messages": "reads every message before the bot does, and may keep it from it",
        "reads_notes": "reads what the system notes in chats",
        "chat_reset": "acts when a chat is reset",
        "forgets_person": "forgets a person when asked to",
        "adds_to_prompts": "adds to every prompt",
        "web_pages": "opens web pages at /plugins/ of the bot's address",
        "webhook": "takes calls from the internet (webhook)",
        "background": "works in the background",
        "chooses_tools": "chooses its tools for each chat",
        "acts_at_start": "acts when the bot starts",
        "network": "talks to the network",
        "programs": "starts programs on this machine",
        "machine_code": "loads machine code",
        "files": "reads or writes files of this machine",
        "platform": "acts on the chat platform itself",
        "environment": "reads the environment, where keys may be",
        "own_code": "runs code that it makes itself",
        "installs": "installs packages by itself",
        "declared": "may use {detail}",
    }
)
"""The sentences that describe abilities of a plugin, by key. The console has the same sentences in
its languages."""
_MOUNTS: Mapping[str, str] = MappingProxyType(
    {
        "mount_on_user_message": "reads_messages",
        "mount_on_system_message": "reads_notes",
        "mount_on_channel_reset": "chat_reset",
        "mount_on_user_erase": "forgets_person",
        "mount_prompt_inject_method": "adds_to_prompts",
        "mount_router": "web_pages",
        "mount_webhook_method": "webhook",
        "mount_async_task": "background",
        "mount_collect_methods": "chooses_tools",
        "mount_init_method": "acts_at_start",
    }
)
_MODULES: Mapping[str, Sequence[str]] = MappingProxyType(
    {
        "network": (
            "httpx", "requests", "aiohttp", "socket", "urllib", "http", "websockets", "ftplib",
            "smtplib", "imaplib", "paramiko", "openai", "grpc", "urllib3",
        ),
        "programs": ("subprocess", "multiprocessing", "pty"),
        "machine_code": ("ctypes", "cffi"),
        "files": (
            "shutil", "tempfile", "sqlite3", "aiosqlite", "aiofiles", "glob",
        ),
        "platform": ("nonebot",),
    }
)  # fmt: skip
_CALLS: Mapping[str, str] = MappingProxyType(
    {
        "os.system": "programs",
        "os.popen": "programs",
        "os.getenv": "environment",
        "open": "files",
        "eval": "own_code",
        "exec": "own_code",
        "dynamic_import_pkg": "installs",
    }
)
_WRITES = frozenset({"write_text", "write_bytes", "unlink", "rmdir", "rename", "read_text"})


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectedAbility:
    """One ability that was found in the code. ``where`` is the ``file:line`` of its first use.
    ``code`` is its key in `ABILITIES`, and ``detail`` says more, for example the module's name."""

    text: str
    where: str
    code: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginInspection:
    """The result of reading a plugin's files. A value that only running code could compute is
    empty."""

    key: str = ""
    name: str = ""
    version: str = ""
    description: str = ""
    author: str = ""
    tools: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    spoken: tuple[str, ...] = ()
    """The usage texts of commands that the plugin finds in messages itself."""
    abilities: tuple[DetectedAbility, ...] = ()
    unreadable: tuple[str, ...] = ()


def inspect_plugin(plugin: Path) -> PluginInspection:
    """Read a plugin's file or folder. Python files that cannot be parsed are in ``unreadable``."""
    manifest = _manifest(plugin)
    found = _Reader()
    unreadable: list[str] = []
    for path in python_files(plugin):
        name = path.name if plugin.is_file() else path.relative_to(plugin).as_posix()
        if path.stat().st_size > _LARGEST_SOURCE:
            unreadable.append(f"{name}: over {_LARGEST_SOURCE} bytes")
            continue
        try:
            tree = ast.parse(path.read_bytes(), name)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            unreadable.append(f"{name}: {error}")
            continue
        found.read(tree, name)
    capabilities = manifest.get("capabilities")
    for capability in capabilities if isinstance(capabilities, list) else ():
        found.able("declared", MANIFEST, str(capability))
    known = {**found.known, **_told(manifest)}
    author, module = known.get("author", ""), known.get("module_name", "")
    made = f"{author_key(author)}.{module_key(module)}" if author and module else ""
    return PluginInspection(
        key=known.get("id", "") or made,
        name=known.get("name", ""),
        version=known.get("version", ""),
        description=known.get("description", ""),
        author=known.get("author", ""),
        tools=tuple(dict.fromkeys(found.tools)),
        commands=tuple(dict.fromkeys(found.commands)),
        spoken=tuple(dict.fromkeys(found.spoken)),
        abilities=tuple(
            DetectedAbility(
                text=_ability_text(*ability), where=at, code=ability[0], detail=ability[1]
            )
            for ability, at in found.abilities.items()
        ),
        unreadable=tuple(unreadable),
    )


def python_files(plugin: Path) -> list[Path]:
    """Return the first 2,000 Python files of a plugin, sorted. Tests are left out."""
    if plugin.is_file():
        return [plugin]
    found = (
        path
        for path in sorted(plugin.rglob("*.py"))
        if not _LEFT_OUT.intersection(path.relative_to(plugin).parts[:-1]) and path.is_file()
    )
    return [path for path, _ in zip(found, range(_MOST_FILES), strict=False)]


def _manifest(plugin: Path) -> dict[str, Any]:
    try:
        data = json.loads((plugin / MANIFEST).read_text("utf-8-sig"))
    except (OSError, ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


def _told(manifest: Mapping[str, Any]) -> dict[str, str]:
    wanted = {key: manifest.get(key) for key in ("id", "name", "version", "description")}
    author = manifest.get("author")
    wanted["author"] = author.get("name") if isinstance(author, dict) else author
    return {key: value for key, value in wanted.items() if isinstance(value, str)}


class _Reader:
    def __init__(self) -> None:
        self.known: dict[str, str] = {}
        self.tools: list[str] = []
        self.commands: list[str] = []
        self.spoken: list[str] = []
        self._texts: dict[str, str] = {}
        """Maps each name to the text that the file assigns to it."""
        self.abilities: dict[tuple[str, str], str] = {}

    def able(self, code: str, where: str, detail: str = "") -> None:
        self.abilities.setdefault((code, detail), where)

    def read(self, tree: ast.AST, name: str) -> None:
        self._texts = dict(_named_texts(tree))
        for node in ast.walk(tree):
            where = f"{name}:{getattr(node, 'lineno', 0)}"
            match node:
                case ast.Import(names):
                    for each in names:
                        self._imported(each.name, where)
                case ast.ImportFrom(module=str(module), level=0):
                    self._imported(module, where)
                case ast.Call():
                    self._called(node, where)
                case ast.ClassDef():
                    self._older_component(node)
                case ast.Attribute(value=ast.Name("os"), attr="environ"):
                    self.able("environment", where)
                case _:
                    pass

    def _imported(self, module: str, where: str) -> None:
        root = module.partition(".")[0]
        for code, modules in _MODULES.items():
            if root in modules:
                self.able(code, where, root)

    def _called(self, call: ast.Call, where: str) -> None:
        name = _dotted(call.func)
        last = name.rpartition(".")[2]
        given = dict(_texts(call, self._texts))
        if last == "NekroPlugin":
            order = ("name", "module_name", "description", "version", "author", "url")
            self.known |= {key: given[key] for key in order if key in given}
            self.known |= _positional(call, order)
        elif last in ("mount_sandbox_method", "Tool"):
            self.tools.append(given.get("name") or _first_text(call, self._texts))
        elif last == "Command" and (pattern := given.get("pattern") or _third_text(call)):
            self.spoken.append(usage_of_pattern(pattern))
        elif last in ("mount_command", "Command"):
            self.commands.append(given.get("name") or _first_text(call, self._texts))
        elif last in _MOUNTS:
            self.able(_MOUNTS[last], where)
        elif name in _CALLS:
            self.able(_CALLS[name], where)
        elif last in _WRITES and "." in name:
            self.able("files", where)

    def _older_component(self, node: ast.ClassDef) -> None:
        """Read a component of a plugin that was written before MaiBot's SDK existed: a class."""
        bases = {_dotted(each).rpartition(".")[2] for each in node.bases}
        own = dict(_named_texts(node))
        if "BaseTool" in bases and "name" in own:
            self.tools.append(own["name"])
        elif "BaseAction" in bases and "action_name" in own:
            self.tools.append(own["action_name"])
        elif "BaseCommand" in bases and "command_pattern" in own:
            self.spoken.append(usage_of_pattern(own["command_pattern"]))


def _named_texts(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield each name to which a text is assigned, with the text."""
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Name(name)], value=ast.Constant(value=str(text))):
                yield name, text
            case ast.AnnAssign(target=ast.Name(name), value=ast.Constant(value=str(text))):
                yield name, text


def _text_of(node: ast.expr, named: Mapping[str, str]) -> str:
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.Name(name) | ast.Attribute(attr=name):
            return named.get(name, "")
    return ""


def _third_text(call: ast.Call) -> str:
    return _text_of(call.args[2], {}) if len(call.args) > 2 else ""


def _dotted(node: ast.expr) -> str:
    match node:
        case ast.Name(name):
            return name
        case ast.Attribute(value, name):
            return f"{_dotted(value)}.{name}"
    return ""


def _texts(call: ast.Call, named: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for each in call.keywords:
        if each.arg and (text := _text_of(each.value, named)):
            yield each.arg, text


def _positional(call: ast.Call, names: Sequence[str]) -> dict[str, str]:
    return {
        name: value.value
        for name, value in zip(names, call.args, strict=False)
        if isinstance(value, ast.Constant) and isinstance(value.value, str)
    }


def _first_text(call: ast.Call, named: Mapping[str, str]) -> str:
    texts = (_text_of(each, named) for each in call.args)
    return next(filter(None, texts), "(a name that is made when it runs)")


def _ability_text(code: str, detail: str) -> str:
    text = ABILITIES[code]
    if "{detail}" in text:
        return text.format(detail=detail)
    return f"{text} ({detail})" if detail else text
