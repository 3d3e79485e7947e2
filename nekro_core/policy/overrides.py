"""The operator's overrides for a chat, an account or the whole bot. The narrowest one counts.

::

    [bot]                                   # everywhere
    persona = "You are Nekro, a librarian."

    [accounts."onebot_v11.20002"]           # in all chats of one account, by its instance
    names = ["Mei"]
    model = "fast"                          # a group of NEKRO_MODELS

    [chats."onebot_v11-group_30003"]        # in one chat
    state = "observe"
    person_quota = { turns = 20 }
    commands = { reset = "advanced", quota = "off" }

    [people."onebot_v11:10002"]             # one person, on one platform or one account
    ignored = true
"""

import tomllib
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from nekro_core.chat import ChatKey

Permission = Literal["public", "user", "chat_admin", "advanced", "super_user", "off"]


class ChatState(StrEnum):
    """What the bot does in a chat."""

    ON = "on"
    """It answers."""
    OBSERVE = "observe"
    """It stores what is said, and answers only commands."""
    OFF = "off"
    """It stores nothing of what is said, and answers only commands."""


class Quota(BaseModel):
    """What may be used in 24 hours. 0 sets no limit; None leaves the limit to a wider table.

    ``money`` is in the operator's currency, by the prices of the models.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    turns: int | None = Field(default=None, ge=0)
    tokens: int | None = Field(default=None, ge=0)
    money: float | None = Field(default=None, ge=0, allow_inf_nan=False)

    def over(self, other: "Quota") -> "Quota":
        """This one, with the other's values for its fields that are None."""
        mine = {name: value for name, value in self if value is not None}
        return other.model_copy(update=mine)


class ChatOverrides(BaseModel):
    """One table of the file, or several as one. A field that is None is left to wider tables."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    state: ChatState | None = None
    persona: str | None = Field(default=None, max_length=20_000)
    """Who the bot is here."""
    names: tuple[str, ...] | None = None
    """What people call the bot here; nothing in the list: it must be mentioned."""
    private: bool | None = None
    """Whether every message of a private chat is answered."""
    model: str | None = None
    """The group of ``NEKRO_MODELS`` that answers here; ``default`` is the bot's own model."""
    mode: Literal["code", "tools"] | None = None
    chat_quota: Quota = Quota()
    """What a chat may use."""
    person_quota: Quota = Quota()
    """What each person may use, in all chats of all the bot's accounts on the platform together."""
    commands: dict[str, Permission] = Field(default_factory=dict)
    """By command, the permission that it requires here; with ``off`` nobody can run it."""
    operators: frozenset[str] = frozenset()
    """Platform ids of people who have the permission `advanced` here."""
    ignore: frozenset[str] = frozenset()
    """Platform ids of people and bots that never get an answer here."""

    @field_validator("persona", "model")
    @classmethod
    def _strip(cls, value: str | None) -> str | None:
        return value.strip() if value is not None else None

    def over(self, other: "ChatOverrides") -> "ChatOverrides":
        """This one, with the other's values where it has None. Lists of people add up."""
        mine: dict[str, Any] = {name: value for name, value in self if value is not None}
        return other.model_copy(
            update=mine
            | {
                "chat_quota": self.chat_quota.over(other.chat_quota),
                "person_quota": self.person_quota.over(other.person_quota),
                "commands": {**other.commands, **self.commands},
                "operators": self.operators | other.operators,
                "ignore": self.ignore | other.ignore,
            }
        )


class PersonOverrides(BaseModel):
    """The overrides of one person."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    quota: Quota = Quota()
    ignored: bool = False


class PolicyOverrides(BaseModel):
    """The whole file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    bot: ChatOverrides = ChatOverrides()
    accounts: dict[str, ChatOverrides] = Field(default_factory=dict)
    chats: dict[str, ChatOverrides] = Field(default_factory=dict)
    people: dict[str, PersonOverrides] = Field(default_factory=dict)

    @field_validator("chats")
    @classmethod
    def _check_chats(cls, chats: dict[str, ChatOverrides]) -> dict[str, ChatOverrides]:
        for key in chats:
            ChatKey.parse(key)
        return chats

    @field_validator("people")
    @classmethod
    def _check_people(cls, people: dict[str, PersonOverrides]) -> dict[str, PersonOverrides]:
        for person in people:
            place, colon, user_id = person.partition(":")
            if not (place and colon and user_id):
                raise ValueError(f"{person!r}: expected adapter:id, for example onebot_v11:10001")
        return people

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a file's text. Raises `ValueError`, which says what is wrong and where."""
        try:
            return cls.model_validate(tomllib.loads(text))
        except ValidationError as error:
            fault = error.errors(include_url=False)[0]
            raise ValueError(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}") from None

    def of(self, chat_key: ChatKey) -> ChatOverrides:
        """All tables that apply to a chat, as one."""
        overrides = self.bot
        for table in (
            self.accounts.get(chat_key.instance),
            self.chats.get(str(without_thread(chat_key))),
            self.chats.get(str(chat_key)) if chat_key.thread is not None else None,
        ):
            if table is not None:
                overrides = table.over(overrides)
        return overrides

    def quotas(self) -> Iterator[Quota]:
        """Every quota in the file."""
        for table in (self.bot, *self.accounts.values(), *self.chats.values()):
            yield table.chat_quota
            yield table.person_quota
        for person in self.people.values():
            yield person.quota

    def person(self, adapter: str, instance: str, user_id: str) -> PersonOverrides:
        """The overrides of a person; those for the account go before those for the platform."""
        places: Mapping[str, PersonOverrides] = self.people
        there = places.get(f"{instance}:{user_id}")
        everywhere = places.get(f"{adapter}:{user_id}")
        if there is None or everywhere is None:
            return there or everywhere or PersonOverrides()
        return PersonOverrides(
            quota=there.quota.over(everywhere.quota), ignored=there.ignored or everywhere.ignored
        )


def without_thread(chat_key: ChatKey) -> ChatKey:
    """The chat of a thread; for a chat the same."""
    if chat_key.thread is None:
        return chat_key
    return ChatKey(chat_key.instance, chat_key.kind, chat_key.native_id)
