"""Implements ``nekro get`` and ``nekro set``, which show and change settings, with or without a
running bot."""

import argparse
import json
import sys
import textwrap
from collections.abc import Iterable
from typing import Any

from nekro_core.app.instance import find_running_instance
from nekro_core.app.settings import Settings
from nekro_core.app.settings_catalogue import find_setting
from nekro_core.app.settings_editor import SettingsEditor
from nekro_core.system.documents import DocumentError
from nekro_core.system.errors import NekroError
from nekro_core.system.live_settings import Applies
from nekro_core.system.setting_info import SettingChange, SettingInfo, SettingLocked, SettingSource

_WIDTH = 100


async def get(options: argparse.Namespace) -> int:
    """Print one setting, the settings of a table, or all settings. Secrets are never printed."""
    infos = await SettingsEditor().infos()
    wanted = options.name.strip().removesuffix(".")
    if not wanted:
        _print_all(infos)
        return 0
    inside = [each for each in infos if each.name.startswith(f"{wanted}.")]
    if inside:
        _print_all(inside)
        return 0
    name = find_setting(Settings.load(), wanted).name
    found = next((each for each in infos if each.name == name), None)
    if found is None:
        print(f"{name} is not set")
        return 1
    print(_value(found))
    lines = [found.description, f"{found.type}; default: {_json(found.default)}", _origin(found)]
    if found.applies is Applies.AFTER_RESTART:
        lines.append("a change takes effect after a restart")
    for line in filter(None, lines):
        print(textwrap.fill(line, _WIDTH, initial_indent="  ", subsequent_indent="  "))
    return 0


async def change(options: argparse.Namespace) -> int:
    """Write settings into the file, remove settings from it, or move settings from ``.env`` into
    it."""
    editor = SettingsEditor()
    try:
        values = _wanted(options)
        if options.from_env:
            changes = await editor.move_from_env(options.words)
        else:
            changes = await editor.set(values)
    except (SettingLocked, DocumentError, _Misused) as error:
        print(error, file=sys.stderr)
        return 2
    infos = {each.name: each for each in await editor.infos()}
    running = find_running_instance(Settings.load().nekro_data_dir)
    for each in changes:
        info = infos.get(each.name)
        restart = info is not None and info.applies is Applies.AFTER_RESTART
        print(f"{_changed(each)}{_effect(restart, running is not None)}")
    return 0


class _Misused(NekroError):
    """The arguments of the command do not fit together."""


def _wanted(options: argparse.Namespace) -> dict[str, Any]:
    words: list[str] = options.words
    if options.from_env:
        return {}
    if not words:
        raise _Misused("expected a name and a value, as in: nekro set agent.language en")
    if options.unset:
        return dict.fromkeys(words)
    if len(words) == 1 and not sys.stdin.isatty():
        # Read a single value from stdin, because it may be a secret. On the command line, a secret
        # would be in the shell's history and in the list of processes.
        return {words[0]: sys.stdin.read().rstrip("\n")}
    if len(words) % 2:
        raise _Misused(f"{words[-1]} has no value: expected pairs of names and values")
    return dict(zip(words[::2], words[1::2], strict=True))


def _print_all(infos: Iterable[SettingInfo]) -> None:
    for each in infos:
        place = "" if each.source is SettingSource.DEFAULT else f"    # {_origin(each)}"
        print(f"{each.name} = {_value(each)}{place}")


def _value(info: SettingInfo) -> str:
    if info.secret:
        return "(set)" if info.is_set else "(not set)"
    return _json(info.value)


def _origin(info: SettingInfo) -> str:
    match info.source:
        case SettingSource.ENVIRONMENT:
            return f"locked by {info.locked_by} in the environment"
        case SettingSource.DOTENV:
            return f"locked by {info.locked_by} in {info.locked_in}"
        case SettingSource.FILE:
            return "from secrets.toml" if info.secret else "from settings.toml"
        case SettingSource.DEFAULT:
            return "the default"


def _changed(change: SettingChange) -> str:
    if change.secret:
        return f"{change.name}: written"
    if change.after is None:
        return f"{change.name}: removed, the default applies"
    return f"{change.name} = {_json(change.after)}"


def _effect(restart: bool, running: bool) -> str:
    if not running:
        return ""
    return " (after a restart)" if restart else " (the running bot applies it within a second)"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
