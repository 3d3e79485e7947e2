"""Defines the operator's overrides for a chat, an account or the whole bot. The most specific
override applies.

::

    [bot]                                   # everywhere
    persona = "You are Nekro, a librarian."

    [accounts."onebot_v11.20002"]           # in all chats of one account of the bot
    names = ["Mei"]
    model = "fast"                          # a group of NEKRO_MODELS

    [chats."onebot_v11-group_30003"]        # in one chat
    state = "observe"
    person_quota = { turns = 20 }
    commands = { reset = "advanced", quota = "off" }
    tools = { "nekro.dice" = "off" }        # see `tool_choice`

    [people."onebot_v11:10002"]             # one person, on one platform or one account
    ignored = true
"""

import tomllib
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from nekro_core.chat import ChatKey
from nekro_core.policy.participation import Participation
from nekro_core.policy.tool_choice import Switch, check_names

Permission = Literal["public", "user", "chat_admin", "advanced", "super_user", "off"]


class ChatState(StrEnum):
    """What the bot does in a chat."""

    ON = "on"
    """The bot answers."""
    OBSERVE = "observe"
    """The bot stores messages, and answers only commands."""
    OFF = "off"
    """The bot stores no messages, and answers only commands."""


class Quota(BaseModel):
    """How much may be used in 24 hours. 0 means no limit. With None, the limit of a less specific
    table applies.

    ``money`` is in the operator's currency. It is computed from the prices of the models.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    turns: int | None = Field(default=None, ge=0)
    tokens: int | None = Field(default=None, ge=0)
    money: float | None = Field(default=None, ge=0, allow_inf_nan=False)

    def over(self, other: "Quota") -> "Quota":
        """Return this quota, with the values of ``other`` for fields that are None."""
        mine = {name: value for name, value in self if value is not None}
        if not mine:
            return other
        return other.model_copy(update=mine)


class ChatOverrides(BaseModel):
    """One table of the file, or several tables merged. If a field is None, the value of a less
    specific table applies."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    state: ChatState | None = None
    persona: str | None = Field(default=None, max_length=20_000)
    """The bot's persona here. It wins over a ``persona_name`` in the same table."""
    persona_name: str | None = None
    """The name of a persona of the library (``data/personas/``), whose newest version is used."""
    names: tuple[str, ...] | None = None
    """Names that people call the bot here. If the list is empty, the bot must be mentioned."""
    private: bool | None = None
    """Whether every message of a private chat is answered."""
    participation: Participation | None = None
    """Which messages of a group are answered."""
    typing: Literal["auto", "off"] | None = None
    """Whether people see that the bot is typing here."""
    seen_emoji: str | None = Field(default=None, max_length=32)
    """The emoji with which the bot marks the messages here that it answers; empty for none."""
    pace_chars_s: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """The pace of several messages of one turn here, in characters per second; 0 for no pause."""
    model: str | None = None
    """The group of ``NEKRO_MODELS`` that answers here; ``default`` means the bot's default
    model."""
    mode: Literal["code", "tools"] | None = None
    tools: dict[str, Switch] = Field(default_factory=dict)
    """For each tool, plugin or ``*``, whether the agent has it here; see `tool_choice`."""
    chat_quota: Quota = Quota()
    """How much a chat may use."""
    person_quota: Quota = Quota()
    """How much each person may use. What the person uses in all chats of the platform is added
    up."""
    commands: dict[str, Permission] = Field(default_factory=dict)
    """For each command, the permission that it requires here; ``off`` switches the command off."""
    operators: frozenset[str] = frozenset()
    """Platform ids of people who have the permission `advanced` here."""
    ignore: frozenset[str] = frozenset()
    """Platform ids of people and bots that never get an answer here."""

    @field_validator("tools")
    @classmethod
    def _check_tools(cls, tools: dict[str, Switch]) -> dict[str, Switch]:
        check_names(tools)
        return tools

    @field_validator("persona", "persona_name", "seen_emoji", "model")
    @classmethod
    def _strip(cls, value: str | None) -> str | None:
        return value.strip() if value is not None else None

    def over(self, other: "ChatOverrides") -> "ChatOverrides":
        """Return these overrides, with the values of ``other`` for fields that are None. The
        fields for people, commands, tools and quotas are combined."""
        mine: dict[str, Any] = {name: value for name, value in self if value is not None}
        if self.persona is not None or self.persona_name is not None:
            mine |= {"persona": self.persona, "persona_name": self.persona_name}
        return other.model_copy(
            update=mine
            | {
                "tools": {**other.tools, **self.tools},
                "chat_quota": self.chat_quota.over(other.chat_quota),
                "person_quota": self.person_quota.over(other.person_quota),
                "commands": {**other.commands, **self.commands},
                "operators": self.operators | other.operators,
                "ignore": self.ignore | other.ignore,
            }
        )


class PersonOverrides(BaseModel):
    """The operator's overrides for one person."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    quota: Quota = Quota()
    ignored: bool = False


NO_OVERRIDES = PersonOverrides()
"""The overrides of nearly all people. They are looked up for each message."""


class PolicyOverrides(BaseModel):
    """The content of the whole file."""

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
        """Parse a file's text. Raises `ValueError`, whose text says what is wrong and where."""
        try:
            return cls.model_validate(tomllib.loads(text))
        except ValidationError as error:
            fault = error.errors(include_url=False)[0]
            raise ValueError(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}") from None

    def of(self, chat_key: ChatKey) -> ChatOverrides:
        """Return all tables that apply to a chat, merged."""
        overrides, *tables = self._tables(chat_key)
        for table in tables:
            overrides = table.over(overrides)
        return overrides

    def state(self, chat_key: ChatKey) -> ChatState:
        """Return what the bot does in a chat. The method does not merge the tables, since it must
        be fast: a list of 10,000 chats calls it for each chat."""
        states = (table.state for table in reversed(self._tables(chat_key)))
        return next(filter(None, states), ChatState.ON)

    def _tables(self, chat_key: ChatKey) -> list[ChatOverrides]:
        """Return the tables that apply to a chat, the most specific one last."""
        found = (
            self.accounts.get(chat_key.instance),
            self.chats.get(str(without_thread(chat_key))),
            self.chats.get(str(chat_key)) if chat_key.thread is not None else None,
        )
        return [self.bot, *(table for table in found if table is not None)]

    def quotas(self) -> Iterator[Quota]:
        """Yield every quota in the file."""
        for table in (self.bot, *self.accounts.values(), *self.chats.values()):
            yield table.chat_quota
            yield table.person_quota
        for person in self.people.values():
            yield person.quota

    def person(self, adapter: str, instance: str, user_id: str) -> PersonOverrides:
        """Return the overrides of a person. A quota for the account takes precedence over a quota
        for the platform. The person is ignored if one of the two says so."""
        places: Mapping[str, PersonOverrides] = self.people
        if not places:
            return NO_OVERRIDES
        there = places.get(f"{instance}:{user_id}")
        everywhere = places.get(f"{adapter}:{user_id}")
        if there is None or everywhere is None:
            return there or everywhere or NO_OVERRIDES
        return PersonOverrides(
            quota=there.quota.over(everywhere.quota), ignored=there.ignored or everywhere.ignored
        )


def without_thread(chat_key: ChatKey) -> ChatKey:
    """Return the chat key without its thread."""
    if chat_key.thread is None:
        return chat_key
    return ChatKey(chat_key.instance, chat_key.kind, chat_key.native_id)
