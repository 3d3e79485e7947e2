"""Binds the bot's accounts to instances. The operator chooses the names in ``data/accounts.toml``.

::

    [onebot_v11]
    20002 = "mei"            # the instance in its chats' keys: mei-group_30003

The operator may give a name to an account that has no chats yet; the name is then its instance. The
name may also be an instance that another account no longer uses. The account then takes over this
instance with its chats. The outcome is written to ``data/accounts.list.json``, where ``nekro
accounts`` reads it while the bot runs.
"""

import tomllib
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import anyio
import msgspec
from loguru import logger

from nekro_core.chat import ChatKeyError
from nekro_core.store import Store, StoreError, UniqueConflict
from nekro_core.system.atomic_files import WatchedFile, write_whole
from nekro_core.system.background_tasks import background_tasks

FILE_NAME = "accounts.toml"
LIST_NAME = "accounts.list.json"
POLL_S = 1.0
"""Seconds between two checks of the file."""


class ListedAccount(msgspec.Struct, frozen=True, kw_only=True):
    """An account in the list that the bot last wrote. ``problem`` says why a name was refused; it
    is empty otherwise."""

    adapter: str
    account: str
    instance: str = ""
    problem: str = ""


class AccountDirectory:
    """Binds accounts to instances. An async context manager that follows changes of the file."""

    def __init__(self, store: Store, data: Path) -> None:
        self._store = store
        self._file = WatchedFile(data / FILE_NAME)
        self._list = data / LIST_NAME
        self._names: dict[tuple[str, str], str] = {}
        self._problems: dict[tuple[str, str], str] = {}
        self._written = b""
        self._own = background_tasks()

    async def __aenter__(self) -> Self:
        await self.look()
        self._write_list()
        tasks = await self._own.__aenter__()
        tasks.start_soon(self._follow, name="a look at accounts.toml")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._own.__aexit__(kind, error, trace)

    async def instance_of(self, adapter: str, account: str) -> str:
        """Return the instance of an account; a new account gets one. Raises `StoreError`."""
        known = self._store.accounts.instances(adapter).get(account)
        if known is not None:
            return known
        instance = await self._store.accounts.bind(adapter, account)
        self._write_list()
        return instance

    async def look(self) -> bool:
        """Apply the file's names if the file has changed. Returns True if new names were read."""
        try:
            if not self._file.changed():
                return False
            self._names = read_names(self._file.path)
        except (OSError, ValueError) as error:
            logger.error("{} is not applied: {}", self._file.path, error)
            return False
        await self._take()
        return True

    async def _take(self) -> None:
        self._problems.clear()
        for (adapter, account), name in self._names.items():
            try:
                if await self._store.accounts.assign(adapter, account, name):
                    logger.info("account {} of {} is {!r} from now on", account, adapter, name)
            except (UniqueConflict, ChatKeyError) as error:
                logger.error("{}: {}", self._file.path, error)
                self._problems[adapter, account] = str(error)
            except StoreError as error:
                logger.error(
                    "{}: account {} cannot get its name: {}", self._file.path, account, error
                )
                self._file.ask_again()

    async def _follow(self) -> None:
        while True:
            await anyio.sleep(POLL_S)
            if await self.look():
                self._write_list()

    def _write_list(self) -> None:
        listed = [
            ListedAccount(
                adapter=each.adapter,
                account=each.account,
                instance=each.instance,
                problem=self._problems.get((each.adapter, each.account), ""),
            )
            for each in self._store.accounts.all()
        ]
        known = {(each.adapter, each.account) for each in listed}
        listed += [
            ListedAccount(adapter=adapter, account=account, problem=problem)
            for (adapter, account), problem in self._problems.items()
            if (adapter, account) not in known
        ]
        data = msgspec.json.format(msgspec.json.encode(listed))
        if data == self._written:
            return
        try:
            write_whole(self._list, data)
        except OSError as error:
            logger.error("{} cannot be written: {}", self._list, error)
        else:
            self._written = data


def read_names(path: Path) -> dict[tuple[str, str], str]:
    """Read the instance names, keyed by adapter and account. Raises `ValueError` and `OSError`."""
    try:
        tables = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    names: dict[tuple[str, str], str] = {}
    for adapter, table in tables.items():
        if not isinstance(table, dict) or not all(isinstance(n, str) for n in table.values()):
            raise ValueError(f'{adapter}: expected [{adapter}] and under it 20002 = "a name"')
        names |= {(adapter, account): name for account, name in table.items()}
    twice = {name for name in names.values() if [*names.values()].count(name) > 1}
    if twice:
        raise ValueError(f"{', '.join(sorted(twice))}: more than one account has this name")
    return names


def write_name(data: Path, adapter: str, account: str, name: str) -> None:
    """Write a name into the operator's file. If the file gives this name to another account, that
    entry is deleted. Comments and all other entries stay. Raises `ValueError` and `OSError`."""
    import tomlkit  # noqa: PLC0415 - this import takes 20 ms; only a write needs it

    path = data / FILE_NAME
    read_names(path)
    document: Any = tomlkit.parse(path.read_text("utf-8") if path.exists() else "")
    for table in document.values():
        for known in [key for key, value in table.items() if value == name]:
            del table[known]
    if adapter not in document:
        document[adapter] = tomlkit.table()
    document[adapter][account] = name
    write_whole(path, tomlkit.dumps(document).encode())


def read_list(data: Path) -> list[ListedAccount]:
    """Read the list that the bot last wrote; empty if the bot never ran."""
    try:
        return msgspec.json.decode((data / LIST_NAME).read_bytes(), type=list[ListedAccount])
    except (OSError, msgspec.MsgspecError):
        return []
