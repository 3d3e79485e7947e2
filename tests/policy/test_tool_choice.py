"""A table of the operator decides which tools the agent of a chat has."""

import pytest

from nekro_core.chat import ChatKey
from nekro_core.policy import PolicyOverrides
from nekro_core.policy.tool_choice import EVERY_TOOL, ToolChoice
from nekro_core.tools.describe import describe
from nekro_core.tools.names import ToolSet, tool_set
from nekro_core.tools.tool import Tool, ToolKind

GROUP = ChatKey.parse("fake-group_30003")


def tool(name: str, owner: str) -> Tool:
    async def handler(_ctx: object) -> None:
        """Do it."""

    handler.__name__ = name
    found = describe(handler, ToolKind.TOOL, name=name, module=owner, owner=f"nekro.{owner}").tool
    assert found is not None
    return found


TOOLS = tool_set([tool("roll", "dice"), tool("flip", "dice"), tool("say", "chat")])


def left(rules: dict[str, object]) -> set[str]:
    choice = ToolChoice.of(rules)  # type: ignore[arg-type]
    return {each.name for each in TOOLS.narrowed(choice.allows).named}


@pytest.mark.parametrize(
    ("rules", "names"),
    [
        ({}, {"roll", "flip", "say"}),
        ({"nekro.dice": "off"}, {"say"}),
        ({"nekro.dice:roll": "off"}, {"flip", "say"}),
        ({"nekro.dice": "off", "nekro.dice:roll": "on"}, {"roll", "say"}),
        ({"*": "off", "nekro.chat": "on"}, {"say"}),
        ({"*": "off"}, set()),
        ({"nekro.gone": "off"}, {"roll", "flip", "say"}),
    ],
)
def test_the_most_specific_name_in_the_table_applies(
    rules: dict[str, object], names: set[str]
) -> None:
    assert left(rules) == names


def test_the_error_says_that_a_tool_is_off_and_other_tools_keep_their_names() -> None:
    tools: ToolSet = TOOLS.narrowed(ToolChoice.of({"nekro.dice": "off"}).allows)
    assert tools.why_unknown("dice.roll") == "dice.roll is switched off in this chat"
    assert tools.why_unknown("sai") == "there is no function 'sai'; there is say"
    assert tools.resolve("roll") is None
    assert tools.resolve("chat.say") is not None


def test_the_table_of_a_chat_can_switch_on_a_tool_that_the_table_of_the_bot_switches_off() -> None:
    book = PolicyOverrides.parse(
        '[bot]\ntools = { "nekro.dice" = "off", "nekro.chat" = "off" }\n'
        '[chats."fake-group_30003"]\ntools = { "nekro.dice" = "on" }\n'
    )
    assert book.of(GROUP).tools == {"nekro.dice": "on", "nekro.chat": "off"}
    assert ToolChoice.of(book.of(GROUP).tools) == ToolChoice.of(book.of(GROUP).tools)
    assert ToolChoice.of({}) == EVERY_TOOL


@pytest.mark.parametrize("name", ["", "a b", "a:b:c", "nekro.*", "a" * 300])
def test_impossible_names_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="expected a plugin such as nekro"):
        PolicyOverrides.parse(f'[bot]\ntools = {{ "{name}" = "off" }}')


def test_a_switch_is_on_or_off() -> None:
    with pytest.raises(ValueError, match="'on' or 'off'"):
        PolicyOverrides.parse('[bot]\ntools = { "nekro.dice" = "maybe" }')


def test_a_plugin_whose_name_is_off_is_left_out_of_the_prompt() -> None:
    choice = ToolChoice.of({"nekro.dice": "off", "nekro.chat": "off", "nekro.chat:say": "on"})
    assert choice.leaves_out("nekro.dice")
    assert not choice.leaves_out("nekro.chat")
    assert not ToolChoice.of({"*": "off"}).leaves_out("nekro.notes")
