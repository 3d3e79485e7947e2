"""Implements ``nekro accounts``: lists the bot's accounts, and changes their instance names, which
stand for the accounts in chat keys."""

import argparse
import sys
import time
from pathlib import Path

import anyio

from nekro_core.app.settings import Settings
from nekro_core.chat import ChatKey, ChatKeyError, ChatKind
from nekro_core.delivery.accounts import (
    FILE_NAME,
    ListedAccount,
    read_list,
    read_names,
    write_name,
)
from nekro_core.store import data_folder_in_use

_WAIT_S = 4.0
"""Maximum wait in seconds until a running bot has applied the new name."""


async def run(options: argparse.Namespace) -> int:
    """Run the action that the command line names, and return an exit status. Raises
    `SettingsError`."""
    data = Settings.load().nekro_data_dir
    if options.action == "list":
        return _show(data)
    adapter = options.adapter if options.action == "name" else _adapter_of(data, options.instance)
    if not adapter:
        return _fail(f"there is no instance {options.instance!r}: nekro accounts list")
    before = _text_of(data / FILE_NAME)
    try:
        ChatKey(options.instance, ChatKind.PRIVATE, "0")
        write_name(data, adapter, options.account, options.instance)
    except (ChatKeyError, ValueError, OSError) as error:
        return _fail(str(error))
    if not data_folder_in_use(data):
        print(f"account {options.account} of {adapter} is {options.instance!r} at the next start")
        return 0
    listed = await _followed(data, adapter, options.account, options.instance)
    if listed.instance == options.instance:
        print(f"account {options.account} of {adapter} is {options.instance!r} now")
        return 0
    if listed.problem and before is not None:
        (data / FILE_NAME).write_text(before, "utf-8")
    elif listed.problem:
        (data / FILE_NAME).unlink()
    return _fail(listed.problem or "the bot did not follow: its log says why")


def _text_of(path: Path) -> str | None:
    return path.read_text("utf-8") if path.exists() else None


async def _followed(data: Path, adapter: str, account: str, instance: str) -> ListedAccount:
    until = time.monotonic() + _WAIT_S
    while True:
        found = [
            each for each in read_list(data) if (each.adapter, each.account) == (adapter, account)
        ]
        listed = found[0] if found else ListedAccount(adapter=adapter, account=account)
        if listed.instance == instance or listed.problem or time.monotonic() > until:
            return listed
        await anyio.sleep(0.1)


def _adapter_of(data: Path, instance: str) -> str:
    return next((each.adapter for each in read_list(data) if each.instance == instance), "")


def _show(data: Path) -> int:
    listed = {(each.adapter, each.account): each for each in read_list(data)}
    try:
        names = read_names(data / FILE_NAME)
    except ValueError as error:
        return _fail(f"{FILE_NAME}: {error}")
    for key, each in sorted(listed.items()):
        note = each.problem or (
            f"named {names[key]!r}" if names.get(key, each.instance) != each.instance else ""
        )
        print(f"{each.adapter:14} {each.account:20} {each.instance or '-':24} {note}".rstrip())
    for (adapter, account), name in sorted(names.items()):
        if (adapter, account) not in listed:
            print(f"{adapter:14} {account:20} {name:24} not seen yet")
    if not listed and not names:
        print("no account yet: one appears when it first connects")
    return 0


def _fail(why: str) -> int:
    print(why, file=sys.stderr)
    return 1
