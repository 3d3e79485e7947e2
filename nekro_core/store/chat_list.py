"""Lists chats and their members for operators: names, newest messages, and what was used."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from nekro_core.chat import ChatKey, ChatKind, Record, Role
from nekro_core.store.database import Database, Row, Value
from nekro_core.store.decisions import MessageDecision, decision_in
from nekro_core.store.messages import INSERT, MessageRepository, record_of
from nekro_core.store.people import AccountRepository, ChatRepository
from nekro_core.store.statistic_rows import DAY_S, Dimension, Period
from nekro_core.store.values import PRICED, Usage

MAX_PAGE = 500
"""Maximum number of chats, members or messages that one call returns."""
_MOST_NAMED = 2_000
"""A search by name lists the private chats of at most this many people."""
_ROLES_WITHIN = 2_000
"""The roles of a chat's members are read from this many of the chat's newest messages."""
LINE_COLUMNS = ", ".join((*INSERT.columns, "decision", "decision_detail", "turn_id"))
"""The columns of `line_of`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatSummary:
    """A chat in a list.

    Attributes:
        chat_key: The chat.
        adapter: The adapter of its platform.
        account: The bot's account; empty if the instance has none.
        name: What the platform calls the group, or the name of the person of a private chat; empty
            if not known.
        newest: The newest record; None if it was deleted a moment ago.
        messages: How many messages people wrote, of all time.
        sent: How many messages the bot sent, of all time.
        used: What the chat's turns used, of all time. Its field ``steps`` also counts the plugins'
            requests to models.
    """

    chat_key: ChatKey
    adapter: str
    account: str
    name: str
    newest: Record | None
    messages: int = 0
    sent: int = 0
    used: Usage = field(default_factory=Usage)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatsPage:
    """A part of a list of chats. ``before`` is the argument for the next page; 0 at the end."""

    chats: tuple[ChatSummary, ...]
    before: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatMember:
    """A person in a chat.

    Attributes:
        user_id: The platform's id.
        name: The latest name; empty if not known.
        role: The role that the person had at their newest message; None if the person has not
            written for a long time.
        messages: How many messages the person wrote, of all time.
        day: What the person's turns in this chat used in the last 24 hours.
        ever: What the person's turns in this chat used, of all time.
    """

    user_id: str
    name: str
    role: Role | None
    messages: int
    day: Usage
    ever: Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryLine:
    """A record, and what the bot decided about it. The decision is None if none is stored."""

    record: Record
    decision: MessageDecision | None


class ChatListRepository:
    """Reads lists of chats, their members and their records. ``clock`` returns seconds since
    1970."""

    def __init__(
        self,
        database: Database,
        *,
        messages: MessageRepository,
        chats: ChatRepository,
        accounts: AccountRepository,
        clock: Callable[[], float],
    ) -> None:
        self._database = database
        self._messages = messages
        self._chats = chats
        self._accounts = accounts
        self._clock = clock

    async def page(
        self,
        *,
        adapter: str = "",
        instance: str = "",
        text: str = "",
        where: Callable[[ChatKey], bool] = lambda _: True,
        before: int = 0,
        limit: int = 50,
    ) -> ChatsPage:
        """List chats, the most recently active first.

        Args:
            adapter: Only chats of this platform.
            instance: Only chats of this account.
            text: Only chats whose name or key contains this text, and private chats of people whose
                name contains it.
            where: Only chats for which this function returns True. It is called for as few chats as
                possible.
            before: `ChatsPage.before` of the page before; 0 for the first page.
            limit: Maximum number of chats, at most `MAX_PAGE`.
        """
        newest = await self._messages.newest_seqs()
        named = await self._people_named(text) if text else frozenset()
        words, limit = text.casefold(), max(1, min(limit, MAX_PAGE))

        def fits(key: ChatKey) -> bool:
            if instance and key.instance != instance:
                return False
            if adapter and self._accounts.adapter_of(key.instance) != adapter:
                return False
            called = f"{key}\n{self._chats.name(key)}".casefold()
            if words and words not in called and (key.instance, key.native_id) not in named:
                return False
            return where(key)

        found: list[tuple[int, ChatKey]] = []
        for seq, key in sorted(((seq, key) for key, seq in newest.items() if seq), reverse=True):
            if (not before or seq < before) and fits(key):
                if len(found) == limit:
                    return ChatsPage(chats=await self._whole(found), before=found[-1][0])
                found.append((seq, key))
        return ChatsPage(chats=await self._whole(found))

    async def one(self, chat_key: ChatKey) -> ChatSummary | None:
        """Get one chat. None if it has no records."""
        seq = (await self._messages.newest_seqs()).get(chat_key, 0)
        if not seq and self._database.shared:
            # Another process may have stored all records of the chat.
            seq = max((each.seq for each in await self._messages.newest(chat_key, 1)), default=0)
        return (await self._whole([(seq, chat_key)]))[0] if seq else None

    async def members(self, chat_key: ChatKey, *, limit: int = 200) -> list[ChatMember]:
        """List the people who wrote in a chat or woke its turns. The people who wrote the most
        messages are first. Messages and turns of the last seconds may not be counted yet."""
        rows = await self._database.read(
            "SELECT * FROM statistics WHERE period = ? AND dimension = ? AND name = ? "
            "ORDER BY messages DESC, member LIMIT ?",
            Period.EVER.value,
            Dimension.MEMBER.value,
            str(chat_key),
            max(1, min(limit, MAX_PAGE)),
        )
        ids = [row["member"] for row in rows]
        names = await self.names([(chat_key.instance, each) for each in ids])
        roles, day = await self._roles(chat_key), await self._used_today(chat_key)
        return [
            ChatMember(
                user_id=row["member"],
                name=names.get((chat_key.instance, row["member"]), ""),
                role=roles.get(row["member"]),
                messages=row["messages"],
                day=day.get(row["member"], Usage()),
                ever=_used(row),
            )
            for row in rows
        ]

    async def history(
        self, chat_key: ChatKey, *, before: int = 0, after: int = 0, limit: int = 50
    ) -> list[HistoryLine]:
        """Get records of a chat, oldest first. With ``before``, they are the newest records before
        that record. With ``after``, they are the oldest records after that record. If both are 0,
        they are the newest records of the chat."""
        after_only = bool(after) and not before
        rows = await self._database.read(
            f"SELECT {LINE_COLUMNS} FROM messages WHERE chat_key = ? AND seq > ? AND seq < ? "
            f"ORDER BY seq {'' if after_only else 'DESC'} LIMIT ?",
            str(chat_key),
            after,
            before or self._messages.above_all,
            max(1, min(limit, MAX_PAGE)),
        )
        return [line_of(row) for row in (rows if after_only else reversed(rows))]

    async def line(self, seq: int) -> HistoryLine | None:
        """Get one record. None if there is no such record."""
        rows = await self._database.read(f"SELECT {LINE_COLUMNS} FROM messages WHERE seq = ?", seq)
        return line_of(rows[0]) if rows else None

    async def _whole(self, found: Sequence[tuple[int, ChatKey]]) -> tuple[ChatSummary, ...]:
        """Read the names, newest records and sums of these chats."""
        if not found:
            return ()
        marks = ", ".join("?" * len(found))
        rows = await self._database.read(
            f"SELECT {', '.join(INSERT.columns)} FROM messages WHERE seq IN ({marks})",
            *(seq for seq, _ in found),
        )
        newest = {row["seq"]: self._messages.record_of(row) for row in rows}
        rows = await self._database.read(
            "SELECT * FROM statistics WHERE period = ? AND dimension = ? AND start = 0 "
            f"AND member = '' AND name IN ({marks})",
            Period.EVER.value,
            Dimension.CHAT.value,
            *(str(key) for _, key in found),
        )
        sums = {row["name"]: row for row in rows}
        people = await self.names(
            [(key.instance, key.native_id) for _, key in found if key.kind is ChatKind.PRIVATE]
        )
        return tuple(
            self._summary(
                key,
                newest.get(seq),
                sums.get(str(key)),
                self._chats.name(key) or people.get((key.instance, key.native_id), ""),
            )
            for seq, key in found
        )

    def _summary(
        self, key: ChatKey, newest: Record | None, sums: Row | None, name: str
    ) -> ChatSummary:
        account = self._accounts.of(key.instance)
        return ChatSummary(
            chat_key=key,
            adapter=self._accounts.adapter_of(key.instance),
            account=account.account if account else "",
            name=name,
            newest=newest,
            messages=sums["messages"] if sums else 0,
            sent=sums["sent"] if sums else 0,
            used=_used(sums) if sums else Usage(),
        )

    async def _people_named(self, text: str) -> frozenset[tuple[str, str]]:
        # SQLite's LIKE ignores the case of letters. So LOWER is not needed, and the query takes
        # half the time.
        like = "ILIKE" if self._database.dialect == "postgres" else "LIKE"
        rows = await self._database.read(
            f"SELECT instance, user_id FROM users WHERE name {like} ? ESCAPE '!' LIMIT ?",
            like_containing(text),
            _MOST_NAMED,
        )
        return frozenset((row["instance"], row["user_id"]) for row in rows)

    async def names(self, people: Sequence[tuple[str, str]]) -> dict[tuple[str, str], str]:
        """Get the latest names of people, by instance and user id. People who are not stored are
        left out."""
        of_instance: defaultdict[str, list[Value]] = defaultdict(list)
        for instance, user_id in people:
            of_instance[instance].append(user_id)
        names: dict[tuple[str, str], str] = {}
        for instance, ids in of_instance.items():
            rows = await self._database.read(
                "SELECT user_id, name FROM users WHERE instance = ? "
                f"AND user_id IN ({', '.join('?' * len(ids))})",
                instance,
                *ids,
            )
            names |= {(instance, row["user_id"]): row["name"] for row in rows}
        return names

    async def _roles(self, chat_key: ChatKey) -> dict[str, Role]:
        rows = await self._database.read(
            "SELECT user_id, role FROM messages WHERE chat_key = ? AND author = 'person' "
            "ORDER BY seq DESC LIMIT ?",
            str(chat_key),
            _ROLES_WITHIN,
        )
        return {row["user_id"]: Role(row["role"]) for row in reversed(rows)}

    async def _used_today(self, chat_key: ChatKey) -> dict[str, Usage]:
        rows = await self._database.read(
            "SELECT user_id, COUNT(DISTINCT turn_id) AS turns, COUNT(*) AS requests, "
            "SUM(prompt_tokens) AS prompt_tokens, SUM(completion_tokens) AS completion_tokens, "
            f"SUM(cost) AS cost, {PRICED} FROM steps WHERE started >= ? AND chat_key = ? "
            "GROUP BY user_id",
            self._clock() - DAY_S,
            str(chat_key),
        )
        return {row["user_id"]: _used(row) for row in rows}


def line_of(row: Row) -> HistoryLine:
    """Return the line that a row with the columns `LINE_COLUMNS` describes."""
    return HistoryLine(record=record_of(row), decision=decision_in(row))


def like_containing(text: str) -> str:
    """Return the pattern for ``LIKE`` that matches all texts that contain ``text``. Its escape
    character is ``!``."""
    for special in "!%_":
        text = text.replace(special, f"!{special}")
    return f"%{text}%"


def _used(row: Row) -> Usage:
    return Usage(
        turns=int(row["turns"]),
        steps=int(row["requests"]),
        prompt_tokens=int(row["prompt_tokens"]),
        completion_tokens=int(row["completion_tokens"]),
        cost=float(row["cost"]),
        published_cost=float(row["published_cost"]),
        unpriced=int(row["unpriced"]),
    )
