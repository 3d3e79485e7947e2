"""Stores for each message why the bot answered it, or why not.

The decision is a part of the message's row, so it is deleted with the message. It is written
together with the next transaction, or within a second. Messages and answers do not wait for this
write.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from nekro_core.store.database import Database, Row, SqlStatement

_MOST_DETAIL = 200
"""Maximum number of characters of a detail that are stored."""
_UNDECIDED = 2_000
"""An earlier process may have left messages without a decision. Only this many of the newest
messages are searched for them. Decisions are written within a second, so there are few such
messages."""
_ROWS = 500
"""Maximum number of messages in one statement."""


class DecisionReason(StrEnum):
    """Why a message was answered, or why not. The values are stored, so they never change."""

    PRIVATE = "private"
    """Answered: it was written in a private chat."""
    ADDRESSED = "addressed"
    """Answered: it mentions the bot or replies to it."""
    NAMED = "named"
    """Answered: it calls the bot by a name. The detail is the name."""
    POKED = "poke"
    """Answered: a person poked the bot."""
    FORCED = "forced"
    """Answered: a plugin demanded it. The detail is the plugin's key."""
    WOKEN = "woken"
    """Answered: it is a line for the agent, written by a timer, a webhook or a plugin."""
    GOES_ON = "goes_on"
    """Answered: its author probably continues a conversation with the bot. The detail says how
    likely this is, and why."""
    UNASKED = "unasked"
    """Answered although it does not ask the bot: the bot had something to say. The detail says
    why."""
    FOLLOWED = "followed"
    """Read by the turn that answered another message of the same person."""

    NOT_ADDRESSED = "not_addressed"
    """Not answered: it does not call the bot. The detail may say how likely the message is meant
    for the bot, and why."""
    PRIVATE_OFF = "private_off"
    """Not answered: the settings say that private chats are not answered."""
    OTHER_NOTICE = "other_notice"
    """Not answered: it is an event of the chat (such as a new member), not a message. The detail is
    the kind of the event."""
    EMPTY = "empty"
    """Not answered: it has no content."""
    TOO_OLD = "too_old"
    """Not answered: it was written long before the bot received it."""
    CHAT_OBSERVED = "chat_observed"
    """Not answered: in this chat the bot only observes."""
    CHAT_OFF = "chat_off"
    """Not answered: the bot is switched off in this chat."""
    IGNORED_PERSON = "ignored_person"
    """Not answered: the operator's file says that its author is ignored."""
    ANSWERED_ELSEWHERE = "answered_elsewhere"
    """Not answered: a plugin of NoneBot (a matcher) handled it."""
    BLOCKED_BY_PLUGIN = "blocked_by_plugin"
    """Not answered: a plugin's hook forbade it. The detail is the plugin's key."""
    HIDDEN_BY_PLUGIN = "hidden_by_plugin"
    """Not answered: a plugin's hook hid it from all prompts. The detail is the plugin's key."""
    COMMAND = "command"
    """A command ran instead of the agent. The detail is the command."""
    COMMAND_FLOOD = "command_flood"
    """Not answered: its author wrote too many commands."""
    COOLDOWN = "cooldown"
    """Not answered: its author woke so many turns that the author may be a bot."""
    OVERFLOW = "overflow"
    """Not answered: too many messages of its author waited for an answer."""
    RECALLED = "recalled"
    """Not answered: its author recalled it."""
    STOPPED = "stopped"
    """Not answered to the end: somebody wrote ``/stop``, or the conversation was reset."""
    QUOTA = "quota"
    """Not answered: a quota of 24 hours is used up. The detail is the quota."""
    TOO_BUSY = "too_busy"
    """Not answered: too many turns ran."""
    FAILED = "failed"
    """Not answered to the end: the turn failed. The detail is the reason for its end."""

    @property
    def asks(self) -> bool:
        """True if a message with this reason asks for a turn."""
        return self in _ASKS


_ASKS = frozenset(
    {
        DecisionReason.PRIVATE,
        DecisionReason.ADDRESSED,
        DecisionReason.NAMED,
        DecisionReason.POKED,
        DecisionReason.FORCED,
        DecisionReason.WOKEN,
        DecisionReason.GOES_ON,
        DecisionReason.UNASKED,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageDecision:
    """What the bot decided about a message.

    Attributes:
        reason: Why the bot answered the message, or why not.
        detail: More about the reason, such as the name, plugin, command, notice or quota; empty if
            the reason needs no detail.
        turn_id: The turn that read the message as a part of its question; 0 if there is none.
    """

    reason: DecisionReason
    detail: str = ""
    turn_id: int = 0


class DecisionRepository:
    """Writes the decisions about messages."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._noted: defaultdict[MessageDecision, list[int]] = defaultdict(list)

    def note(self, seq: int, decision: MessageDecision) -> None:
        """Store a decision together with the next transaction of the store, or within a second. If
        the process is killed before that, the decision is lost; the next process decides
        again about the messages that were not handled. A later decision replaces an earlier one."""
        self._noted[decision].append(seq)
        self._database.write_later(self._take)

    async def claim_command(self, seq: int) -> bool:
        """Store that the command in a message runs, before it runs. Returns False if the message
        has a decision already, so that another process has run the command or is running it.
        Raises `StoreError`."""
        (rows,) = await self._database.write(
            SqlStatement(
                "UPDATE messages SET decision = ? WHERE seq = ? AND decision = '' RETURNING seq",
                (DecisionReason.COMMAND.value, seq),
            )
        )
        return bool(rows)

    async def of(self, seq: int) -> MessageDecision | None:
        """Get the decision about a message. Returns None if the bot has not decided yet, if the
        message is the bot's own, or if a version of the bot that did not store decisions received
        it."""
        rows = await self._database.read(
            "SELECT decision, decision_detail, turn_id FROM messages WHERE seq = ?", seq
        )
        return decision_in(rows[0]) if rows else None

    async def mark_too_old(self, *, since: float) -> None:
        """Store the decision `DecisionReason.TOO_OLD` for the newest messages that an earlier
        process left undecided and that were written before ``since`` (seconds since 1970). Call
        this before the sessions get records."""
        await self._database.write(
            SqlStatement(
                "UPDATE messages SET decision = ? WHERE seq IN (SELECT seq FROM "
                "(SELECT seq, decision, author, recalled, time FROM messages "
                "ORDER BY seq DESC LIMIT ?) newest WHERE author = 'person' AND decision = '' "
                "AND recalled = ? AND time < ? AND seq > (SELECT COALESCE(MAX(seq), 0) FROM "
                "(SELECT seq, decision FROM messages ORDER BY seq DESC LIMIT ?) latest "
                "WHERE decision <> '' AND decision <> ?))",
                (
                    DecisionReason.TOO_OLD.value,
                    _UNDECIDED,
                    False,
                    since,
                    _UNDECIDED,
                    DecisionReason.RECALLED.value,
                ),
            )
        )

    def _take(self) -> Sequence[SqlStatement]:
        """Return the statements that store all noted decisions. Messages with the same decision
        share one statement."""
        noted = [*self._noted.items()]
        self._noted.clear()
        return [
            decided_statement(decision, seqs[at : at + _ROWS])
            for decision, seqs in noted
            for at in range(0, len(seqs), _ROWS)
        ]


def decision_in(row: Row) -> MessageDecision | None:
    """Return the decision that a row of ``messages`` holds. If this version of the bot does not
    know the reason, return None."""
    try:
        reason = DecisionReason(row["decision"])
    except ValueError:
        return None
    return MessageDecision(reason=reason, detail=row["decision_detail"], turn_id=row["turn_id"])


def decided_statement(
    decision: MessageDecision, seqs: Sequence[int], *, running: str = ""
) -> SqlStatement:
    """Return the statement that stores a decision about these messages. With ``running``, a chat
    key, the statement stores the turn that is running in this chat in place of the decision's
    turn."""
    turn, values = "?", (decision.turn_id,) if not running else (running,)
    if running:
        turn = "(SELECT id FROM turns WHERE running_chat = ?)"
    return SqlStatement(
        f"UPDATE messages SET decision = ?, decision_detail = ?, turn_id = COALESCE({turn}, 0) "
        f"WHERE seq IN ({', '.join('?' * len(seqs))})",
        (decision.reason.value, decision.detail[:_MOST_DETAIL], *values, *seqs),
    )
