"""Stores the bot's accounts, the chats, and the persons in them."""

import hashlib
import re
from collections import OrderedDict, defaultdict
from collections.abc import Callable

import anyio

from nekro_core.chat import ChatKey, ChatKind, Sender
from nekro_core.store.changes import ChangeTopic, announcement
from nekro_core.store.database import Database, SqlStatement
from nekro_core.store.errors import UniqueConflict, ValueTooLarge
from nekro_core.store.limits import MAX_ID
from nekro_core.store.values import Account

_KNOWN_USERS = 20_000
"""Maximum number of people's names held in memory, about 4 MB. By comparing with these names, the
bot knows whether a person's name has changed, without reading the database."""


class AccountRepository:
    """The accounts with their instances. There are few accounts, so all are held in memory."""

    def __init__(
        self, database: Database, *, accounts: list[Account], clock: Callable[[], float]
    ) -> None:
        self._database = database
        self._clock = clock
        self._binding = anyio.Lock()
        self._by_instance: dict[str, Account] = {}
        self._of_adapter: defaultdict[str, dict[str, Account]] = defaultdict(dict)
        for account in accounts:
            self._remember(account)

    async def read_again(self, _: str = "") -> None:
        """Read the accounts that other processes have bound or moved. Raises
        `StoreUnavailable`."""
        # Otherwise rows that were read before `bind` or `assign` would replace its account.
        async with self._binding:
            await self._read_again()

    async def _read_again(self) -> None:
        found = await accounts_of(self._database)
        self._by_instance.clear()
        self._of_adapter.clear()
        for account in found:
            self._remember(account)

    def of(self, instance: str) -> Account | None:
        """Return the account to which an instance is bound; None if there is none."""
        return self._by_instance.get(instance)

    def bound(self, adapter: str, account: str) -> float | None:
        """Return when an account was bound to an instance, in seconds since 1970; None if it never
        was."""
        known = self._of_adapter.get(adapter, {}).get(account)
        return known.bound if known is not None else None

    def adapter_of(self, instance: str) -> str:
        """Return the name of an instance's adapter. If an instance has no account (such as the
        instance of the web page), its name begins with the adapter's name."""
        account = self._by_instance.get(instance)
        return account.adapter if account else instance.partition(".")[0]

    def own(self, instance: str) -> frozenset[str]:
        """Return the ids of all accounts of the bot on an instance's platform; none if the instance
        is not bound to an account."""
        account = self._by_instance.get(instance)
        return frozenset(self._of_adapter[account.adapter]) if account else frozenset()

    def instances(self, adapter: str) -> dict[str, str]:
        """Return an adapter's accounts with their instances, in the order in which they were
        bound."""
        return {name: each.instance for name, each in self._of_adapter.get(adapter, {}).items()}

    async def bind(self, adapter: str, account: str, *, name: str = "") -> str:
        """Return the instance of an account. A new account gets the instance ``name`` if the
        operator chose a name. Otherwise the adapter's first account gets the adapter's name, and a
        later account gets ``adapter.account``.

        Raises `UniqueConflict` if ``name`` belongs to another account, `ChatKeyError` if ``name``
        cannot be part of a chat key, and `ValueTooLarge` if the account's id is too long.
        """
        if known := self._of_adapter[adapter].get(account):
            return known.instance
        async with self._binding:
            if known := self._of_adapter[adapter].get(account):
                return known.instance
            if len(account) > MAX_ID:
                raise ValueTooLarge(f"account id of {len(account)} characters: at most {MAX_ID}")
            instance = name or self._free_instance(adapter, account)
            ChatKey(instance, ChatKind.PRIVATE, "0")  # Raises `ChatKeyError` for an invalid name.
            bound = self._clock()
            taken = await self._insert(adapter, account, instance, bound)
            if not taken and self._database.shared:
                # Another process may have bound the account, or have given its instance to another
                # account, at the same time.
                await self._read_again()
                if known := self._of_adapter[adapter].get(account):
                    return known.instance
                if not name:
                    instance = self._free_instance(adapter, account)
                    taken = await self._insert(adapter, account, instance, bound)
            if not taken:
                owner = self._by_instance.get(instance)
                raise UniqueConflict(
                    f"instance {instance!r} belongs to account {owner.account if owner else '?'}: "
                    f"give account {account} another name"
                )
            known = Account(adapter=adapter, account=account, instance=instance, bound=bound)
            self._remember(known)
            return instance

    async def _insert(self, adapter: str, account: str, instance: str, bound: float) -> bool:
        """Store an account. Returns False if the account or the instance is there already."""
        (*taken,), *_ = await self._database.write(
            SqlStatement(
                "INSERT INTO accounts (adapter, account, instance, bound) VALUES (?, ?, ?, ?) "
                "ON CONFLICT DO NOTHING RETURNING instance",
                (adapter, account, instance, bound),
            ),
            *announcement(self._database, ChangeTopic.ACCOUNTS, instance),
        )
        return bool(taken)

    async def assign(self, adapter: str, account: str, instance: str) -> bool:
        """Bind an account to the instance that the operator chose. If another account has the
        instance, this account takes over the instance with its chats. Returns False if the account
        already has the instance.

        Raises `UniqueConflict` if the account has chats under another instance, because chat keys
        never change, or if the instance belongs to another adapter. Raises `ChatKeyError` if
        ``instance`` cannot be part of a chat key, and `ValueTooLarge` if the account's id is too
        long.
        """
        ChatKey(instance, ChatKind.PRIVATE, "0")  # Raises `ChatKeyError` for an invalid name.
        if len(account) > MAX_ID:
            raise ValueTooLarge(f"account id of {len(account)} characters: at most {MAX_ID}")
        async with self._binding:
            known, holder = self._of_adapter[adapter].get(account), self.of(instance)
            if known is not None and known.instance == instance:
                return False
            if holder is not None and holder.adapter != adapter:
                raise UniqueConflict(f"instance {instance!r} belongs to {holder.adapter}")
            statements = []
            bound = holder.bound if holder is not None else self._clock()
            if known is not None:
                chats = await self._database.read(
                    "SELECT 1 FROM chats WHERE instance = ? LIMIT 1", known.instance
                )
                if chats:
                    raise UniqueConflict(
                        f"account {account} of {adapter} has chats as {known.instance!r}, and a "
                        "name never moves: name an account before its first message"
                    )
                statements.append(
                    SqlStatement(
                        "DELETE FROM accounts WHERE adapter = ? AND account = ?", (adapter, account)
                    )
                )
            if holder is not None:
                statements.append(
                    SqlStatement(
                        "UPDATE accounts SET account = ? WHERE instance = ?", (account, instance)
                    )
                )
                # On many platforms, each account numbers its messages from 1. A message that the
                # new account receives must not count as a duplicate of a message with the same
                # number that the old account received.
                statements.append(
                    SqlStatement(
                        "UPDATE messages SET unique_id = NULL WHERE instance = ?", (instance,)
                    )
                )
            else:
                statements.append(
                    SqlStatement(
                        "INSERT INTO accounts (adapter, account, instance, bound) "
                        "VALUES (?, ?, ?, ?)",
                        (adapter, account, instance, bound),
                    )
                )
            statements += announcement(self._database, ChangeTopic.ACCOUNTS, instance)
            await self._database.write(*statements)
            for gone in (known, holder):
                if gone is not None:
                    self._by_instance.pop(gone.instance, None)
                    self._of_adapter[adapter].pop(gone.account, None)
            self._remember(
                Account(adapter=adapter, account=account, instance=instance, bound=bound)
            )
            return True

    def all(self) -> tuple[Account, ...]:
        """Return all accounts, sorted by instance."""
        return tuple(sorted(self._by_instance.values(), key=lambda each: each.instance))

    def _free_instance(self, adapter: str, account: str) -> str:
        if adapter not in self._by_instance:
            return adapter
        clean = re.sub(r"[^A-Za-z0-9_.]", "_", account)[:64]
        instance = f"{adapter}.{clean}"
        if clean != account or instance in self._by_instance:
            digest = hashlib.sha256(account.encode(errors="replace")).hexdigest()[:8]
            instance = f"{instance}.{digest}"
        return instance

    def _remember(self, account: Account) -> None:
        self._by_instance[account.instance] = account
        self._of_adapter[account.adapter][account.account] = account


async def accounts_of(database: Database) -> list[Account]:
    """Read all accounts."""
    rows = await database.read("SELECT adapter, account, instance, bound FROM accounts ORDER BY id")
    return [
        Account(
            adapter=row["adapter"],
            account=row["account"],
            instance=row["instance"],
            bound=row["bound"],
        )
        for row in rows
    ]


class ChatRepository:
    """The chats that the bot has received messages from or written to."""

    def __init__(
        self, database: Database, *, names: dict[ChatKey, str], clock: Callable[[], float]
    ) -> None:
        self._database = database
        self._clock = clock
        self._known: set[ChatKey] = set()
        self._names = names
        self._unstored_names: dict[ChatKey, str] = {}
        """The names of chats that were perhaps not stored when their names became known."""
        self._renamed: list[SqlStatement] = []
        self._newly_named = anyio.Event()

    def name(self, chat_key: ChatKey) -> str:
        """Get the newest known name of a group or channel; empty if none is known."""
        return self._names.get(chat_key, "")

    async def named(self, chat_key: ChatKey) -> str:
        """Wait until a name of a group or channel is known, and return it. The caller limits the
        time: a name may never come."""
        while not (name := self.name(chat_key)):
            await self._newly_named.wait()
        return name

    def _tell_named(self) -> None:
        self._newly_named.set()
        self._newly_named = anyio.Event()

    def seen(self, chat_key: ChatKey, name: str = "") -> tuple[SqlStatement, ...]:
        """Return the statements that store the chat and its name. There are none if both are stored
        already or if a queued write will store them. An empty ``name`` does not change the stored
        name. If the caller's write fails, the caller must call `forget`."""
        statements = []
        if fresh := chat_key not in self._known:
            self._known.add(chat_key)
            statements.append(
                SqlStatement(
                    "INSERT INTO chats (chat_key, instance, first_seen, handled_seq) "
                    "VALUES (?, ?, ?, 0) ON CONFLICT DO NOTHING",
                    (str(chat_key), chat_key.instance, self._clock()),
                )
            )
        unstored = self._unstored_names.pop(chat_key, "") if fresh else ""
        if name and name != self.name(chat_key):
            statements += self._named(chat_key, name)
        elif unstored:
            statements += self._named(chat_key, unstored)
        return tuple(statements)

    def rename(self, chat_key: ChatKey, name: str) -> None:
        """Store the name of a chat within a second. If the chat is not stored yet, its name is
        stored together with it. An empty name changes nothing."""
        if not name or name == self.name(chat_key):
            return
        if chat_key not in self._known:
            self._unstored_names[chat_key] = name
        self._renamed += self._named(chat_key, name)
        self._database.write_later(self._take_renamed)

    def _take_renamed(self) -> list[SqlStatement]:
        renamed, self._renamed = self._renamed, []
        return renamed

    def _named(self, chat_key: ChatKey, name: str) -> tuple[SqlStatement, ...]:
        self._names[chat_key] = name
        self._tell_named()
        return (
            SqlStatement("UPDATE chats SET name = ? WHERE chat_key = ?", (name, str(chat_key))),
            *announcement(self._database, ChangeTopic.CHATS, str(chat_key)),
        )

    def forget(self, chat_key: ChatKey) -> None:
        """Note that the chat is not stored, because the write that should store it failed."""
        self._known.discard(chat_key)
        self._names.pop(chat_key, None)

    async def read_name(self, chat_key: str) -> None:
        """Read the name of a chat that another process has stored. For an empty key, read all
        names. Raises `StoreUnavailable`."""
        if chat_key:
            rows = await self._database.read("SELECT name FROM chats WHERE chat_key = ?", chat_key)
            for row in rows:
                self._names[ChatKey.parse(chat_key)] = row["name"]
        else:
            self._names.update(await chat_names(self._database))
        self._tell_named()

    async def forget_all(self, _: str = "") -> None:
        """Forget which chats are stored, because another process has deleted some."""
        self._known.clear()

    async def all(self) -> list[ChatKey]:
        """Get all chats, the most recently active first."""
        rows = await self._database.read(
            "SELECT chat_key, (SELECT MAX(seq) FROM messages m WHERE m.chat_key = c.chat_key) "
            "AS newest FROM chats c ORDER BY newest DESC NULLS LAST"
        )
        return [ChatKey.parse(row["chat_key"]) for row in rows]

    async def of_instance(self, instance: str) -> list[ChatKey]:
        """Get the chats of an instance, the most recently active first."""
        rows = await self._database.read(
            "SELECT chat_key, (SELECT MAX(seq) FROM messages m WHERE m.chat_key = c.chat_key) "
            "AS newest FROM chats c WHERE instance = ? "
            "ORDER BY newest DESC NULLS LAST",
            instance,
        )
        return [ChatKey.parse(row["chat_key"]) for row in rows]

    async def newest_times(self, instance: str) -> dict[ChatKey, float]:
        """Get for each chat of an instance the time of the newest message of a person, as the
        platform gave it. Chats without such a message are left out."""
        rows = await self._database.read(
            "SELECT chat_key, (SELECT time FROM messages m WHERE m.chat_key = c.chat_key "
            "AND m.author = ? ORDER BY seq DESC LIMIT 1) AS newest FROM chats c WHERE instance = ?",
            "person",
            instance,
        )
        return {
            ChatKey.parse(row["chat_key"]): row["newest"]
            for row in rows
            if row["newest"] is not None
        }

    async def mark_handled(self, chat_key: ChatKey, seq: int) -> None:
        """Mark all records up to ``seq`` as handled, so that the bot does not answer them after a
        restart."""
        await self._database.write(mark_handled_statement(str(chat_key), seq))


async def chat_names(database: Database) -> dict[ChatKey, str]:
    """Read the names of all chats that have one."""
    rows = await database.read("SELECT chat_key, name FROM chats WHERE name <> ''")
    return {ChatKey.parse(row["chat_key"]): row["name"] for row in rows}


def mark_handled_statement(chat_key: str, seq: int) -> SqlStatement:
    """Return the statement of `ChatRepository.mark_handled`. It never lowers the stored number."""
    return SqlStatement(
        "UPDATE chats SET handled_seq = ? WHERE chat_key = ? AND handled_seq < ?",
        (seq, chat_key, seq),
    )


class UserRepository:
    """The persons who wrote in chats, with their names, for each instance."""

    def __init__(self, database: Database, *, clock: Callable[[], float]) -> None:
        self._database = database
        self._clock = clock
        self._names: OrderedDict[tuple[str, str], str] = OrderedDict()

    def seen(self, instance: str, sender: Sender) -> tuple[SqlStatement, ...]:
        """Return the statements that store the sender of a message with the sender's name. There
        are none if both are stored already. If the caller's write fails, the caller must call
        `forget`."""
        known = self._names.get((instance, sender.user_id))
        if not sender.user_id or known == sender.name or (known is not None and not sender.name):
            return ()
        self._names[instance, sender.user_id] = sender.name
        if len(self._names) > _KNOWN_USERS:
            self._names.popitem(last=False)
        # A notice (such as a poke) often comes without a name. The empty name must not replace the
        # stored one.
        return (
            SqlStatement(
                "INSERT INTO users (instance, user_id, name, first_seen) VALUES (?, ?, ?, ?) "
                "ON CONFLICT (instance, user_id) DO UPDATE SET name = CASE WHEN excluded.name = '' "
                "THEN users.name ELSE excluded.name END",
                (instance, sender.user_id, sender.name, self._clock()),
            ),
        )

    def forget(self, instance: str, sender: Sender) -> None:
        """Note that the person is not stored, because the write that should store it failed."""
        self._names.pop((instance, sender.user_id), None)

    async def forget_all(self, _: str = "") -> None:
        """Forget which persons are stored, because another process has deleted some."""
        self._names.clear()

    async def named(self, name: str, limit: int = 10) -> list[tuple[str, str]]:
        """Get the instance and user id of each person whose latest name is ``name``, in the order
        in which the people were first stored."""
        rows = await self._database.read(
            "SELECT instance, user_id FROM users WHERE name = ? ORDER BY first_seen LIMIT ?",
            name,
            limit,
        )
        return [(row["instance"], row["user_id"]) for row in rows]

    async def name(self, instance: str, user_id: str) -> str:
        """Get a person's latest name; empty if the person is not known."""
        rows = await self._database.read(
            "SELECT name FROM users WHERE instance = ? AND user_id = ?", instance, user_id
        )
        return str(rows[0]["name"]) if rows else ""
