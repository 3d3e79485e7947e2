"""Shows and changes how the bot behaves in a chat. The changes are the operator's overrides. They
are checked in the same way as the overrides in the file that the operator edits."""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Literal

import msgspec
from pydantic import ValidationError

from nekro_core.chat import ChatKey
from nekro_core.operator.audit import Change, UndoCall
from nekro_core.operator.errors import ChangedMeanwhile, InvalidParameters
from nekro_core.policy import ChatOverrides, ChatState, PersonOverrides
from nekro_core.policy.participation import Participation
from nekro_core.policy.resolver import PolicyResolver
from nekro_core.policy.tool_choice import EVERY, name_of_tool
from nekro_core.tools.names import ToolSet
from nekro_core.tools.tool import Visibility

PolicyField = Literal[
    "state",
    "persona",
    "persona_name",
    "names",
    "private",
    "participation",
    "typing",
    "seen_emoji",
    "pace_chars_s",
    "model",
    "mode",
    "tools",
    "chat_quota",
    "person_quota",
    "commands",
    "operators",
    "ignore",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatPolicyView:
    """How the bot behaves in a chat.

    Attributes:
        own: The fields that are set for this chat.
        state: Whether the bot answers.
        persona: The persona in force.
        persona_name: The name of the persona in the library, if ``persona`` comes from there;
            otherwise empty.
        names: The names by which people call the bot.
        private: Whether all messages of a private chat are answered.
        participation: Which messages of a group are answered: ``mentioned``, ``follows`` or
            ``lively``.
        model: The model that answers.
        mode: ``code`` if the model writes code, ``tools`` if it calls functions natively.
        tools: Which tools are on or off. A key is a tool, a plugin or ``*``; see
            `nekro_core.policy.tool_choice.ToolChoice`.
        chat_quota: What the chat may use in 24 hours.
        person_quota: What each person may use.
        commands: The commands that require another permission in this chat than usual, each with
            this permission.
        operators: Platform ids of people who have the permission ``advanced`` here.
        ignored: Platform ids of people and bots that get no answer here.
        revision: A text that is different after each change of ``own`` (except of ``tools``); see
            `nekro_core.operator.chats.Chats.set_policy`.
        tools_revision: The same for the field ``tools`` alone, which has a page of its own.
    """

    own: dict[str, Any]
    state: ChatState
    persona: str
    persona_name: str
    names: tuple[str, ...]
    private: bool
    participation: Participation
    model: str
    mode: str
    tools: dict[str, str]
    chat_quota: dict[str, Any]
    person_quota: dict[str, Any]
    commands: dict[str, str]
    operators: list[str]
    ignored: list[str]
    revision: str
    tools_revision: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSwitchView:
    """A tool of a chat.

    Attributes:
        name: How the field ``tools`` of a policy names this one tool, for example
            ``nekro.dice:roll``.
        plugin: The key of its plugin, or ``mcp.`` and the name of its MCP server.
        function: The name by which the model's code calls it.
        about: The first line of its description.
        on: Whether the agent of the chat has it.
        named: Whether the chat's own overrides name this tool.
    """

    name: str
    plugin: str
    function: str
    about: str
    on: bool
    named: bool


class ChatPolicies:
    """The operator's overrides of chats.

    Args:
        policies: Resolves how the bot behaves in a chat, and has the file of overrides.
    """

    def __init__(self, policies: PolicyResolver) -> None:
        self._policies = policies
        self._file = policies.conduct

    def state(self, chat_key: ChatKey) -> ChatState:
        """Return what the bot does in a chat."""
        return self._file.state(chat_key)

    def view(self, chat_key: ChatKey) -> ChatPolicyView:
        """Return how the bot behaves in a chat."""
        policy, own = self._policies.of(chat_key), self._own(chat_key)
        merged = self._file.of(chat_key)
        return ChatPolicyView(
            own=own,
            state=policy.state,
            persona=policy.persona,
            persona_name=merged.persona_name or "" if merged.persona is None else "",
            names=policy.names,
            private=policy.trigger.private,
            participation=policy.trigger.participation.mode,
            model=policy.model.profile.name,
            mode=policy.mode,
            tools={**merged.tools},
            chat_quota=policy.chat_quota.model_dump(mode="json"),
            person_quota=policy.person_quota.model_dump(mode="json"),
            commands={**merged.commands},
            operators=sorted(merged.operators),
            ignored=sorted(merged.ignore),
            revision=_revision(own, "state"),
            tools_revision=_revision(own, "tools"),
        )

    async def change(
        self, chat_key: ChatKey, field: PolicyField, value: Any, revision: str
    ) -> Change[ChatPolicyView]:
        """Set a field of a chat's table, or remove it with None. See `Chats.set_policy`."""
        own = self._own(chat_key)
        _check_revision(chat_key, own, field, revision)
        old = own.get(field)
        new = None if value is None else _checked(field, value)
        await self._file.put(("chats", str(chat_key)), field, new)
        undo = UndoCall(
            action="chats.set_policy",
            parameters={"chat_key": str(chat_key), "field": field, "value": old},
        )
        return Change(
            result=self.view(chat_key),
            subject=str(chat_key),
            old={field: old},
            new={field: new},
            undo=undo,
        )

    def person_quota(self, place: str, user_id: str) -> dict[str, Any]:
        """Return the quota of one person as it is in the file; empty if the file has none."""
        person = self._file.book.people.get(f"{place}:{user_id}")
        return person.quota.model_dump(mode="json", exclude_none=True) if person else {}

    async def set_person_quota(
        self, place: str, user_id: str, value: Any
    ) -> Change[dict[str, Any]]:
        """Set the quota of one person, or remove it with None. See `Chats.set_person_quota`."""
        person = f"{place}:{user_id}"
        if ":" in place:
            raise InvalidParameters({"place": "expected an adapter or instance, without a colon"})
        old = self.person_quota(place, user_id)
        new = {} if value is None else _checked_with(PersonOverrides, "quota", value)
        await self._file.put(("people", person), "quota", new or None)
        undo = UndoCall(
            action="chats.set_person_quota",
            parameters={"place": place, "user_id": user_id, "quota": old or None},
        )
        return Change(result=new, subject=person, old=old, new=new, undo=undo)

    def switches(self, chat_key: ChatKey, tools: ToolSet) -> list[ToolSwitchView]:
        """Return the tools of a chat, by plugin. Tools that the model never sees are left out.

        Args:
            chat_key: The chat.
            tools: All tools of the chat, including those that are off.
        """
        choice, own = self._policies.of(chat_key).tools, self._own(chat_key).get("tools", {})
        found = [
            ToolSwitchView(
                name=name_of_tool(each.tool),
                plugin=each.tool.owner,
                function=each.name,
                about=each.tool.summary or each.tool.description.partition("\n")[0],
                on=choice.allows(each.tool),
                named=name_of_tool(each.tool) in own,
            )
            for each in tools.named
            if each.tool.visibility is not Visibility.UNLISTED
        ]
        return sorted(found, key=lambda each: each.plugin)

    async def switch_tool(
        self, chat_key: ChatKey, name: str, *, on: bool, revision: str
    ) -> Change[ChatPolicyView]:
        """Switch a tool, a plugin or all tools on or off. See `Chats.switch_tool`."""
        own = self._own(chat_key)
        _check_revision(chat_key, own, "tools", revision)
        # Switching a plugin or all tools also switches each of their tools. So older rules for
        # those tools are removed.
        inside = "" if name == EVERY else f"{name}:"
        rules = {
            known: switch
            for known, switch in own.get("tools", {}).items()
            if known != name and not known.startswith(inside)
        }
        switch = "on" if on else "off"
        general = self._general_tools(chat_key)
        if rules or general or switch == "off":
            rules[name] = switch
        return await self.change(chat_key, "tools", rules or None, "")

    def _general_tools(self, chat_key: ChatKey) -> Mapping[str, str]:
        """Return the rules for tools that would apply if the chat had no overrides."""
        book = self._file.book
        chats = {key: table for key, table in book.chats.items() if key != str(chat_key)}
        return book.model_copy(update={"chats": chats}).of(chat_key).tools

    def _own(self, chat_key: ChatKey) -> dict[str, Any]:
        table = self._file.book.chats.get(str(chat_key))
        return _plain(table) if table is not None else {}


def _check_revision(chat_key: ChatKey, own: Mapping[str, Any], field: str, revision: str) -> None:
    if revision and revision != _revision(own, field):
        raise ChangedMeanwhile(f"the policy of {chat_key} was changed meanwhile: look at it again")


def _plain(table: ChatOverrides | PersonOverrides) -> dict[str, Any]:
    """Return the fields that a table sets, as JSON values. Sets are sorted."""
    found = table.model_dump(mode="json", exclude_unset=True)
    return {
        name: sorted(value) if name in ("operators", "ignore") else value
        for name, value in found.items()
    }


def _checked(field: str, value: Any) -> Any:
    """Return a field's value in the form of the file. Raises `InvalidParameters`."""
    return _checked_with(ChatOverrides, field, value)


def _checked_with(model: type[ChatOverrides | PersonOverrides], field: str, value: Any) -> Any:
    try:
        table = model.model_validate({field: value})
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(each) for each in fault["loc"][1:])
        told = fault["msg"].removeprefix("Value error, ")
        raise InvalidParameters({f"value.{place}" if place else "value": told}) from None
    return _plain(table)[field]


def _revision(own: Mapping[str, Any], field: str) -> str:
    """Return the revision of the fields that one page shows together: ``tools`` alone, or all other
    fields."""
    shown = {name: value for name, value in own.items() if (name == "tools") == (field == "tools")}
    return sha256(msgspec.json.encode(shown, order="deterministic")).hexdigest()[:16]
