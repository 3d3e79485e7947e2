"""Tools are found by their dotted names and by their short names."""

import builtins
import keyword

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nekro_core.tools.names import ToolSet, dotted_name, is_free_name, tool_set
from nekro_core.tools.tool import Tool
from tests.tools.make import named_tool

BUILTIN = {"nekro.chat"}


def owners(tools: ToolSet, *names: str) -> list[str | None]:
    found = [tools.resolve(name) for name in names]
    return [tool.owner if tool else None for tool in found]


def test_a_tool_is_found_by_three_names() -> None:
    tool = named_tool("send_channel_message", "send_chat_message", "ann.seed")
    tools = tool_set([tool])
    assert tools.named[0].names == (
        "send_channel_message",
        "send_chat_message",
        "seed.send_chat_message",
    )
    assert all(tools.resolve(name) is tool for name in tools.named[0].names)
    assert tools.name_of(tool) == "send_channel_message"
    assert tools.resolve("send_message") is None
    assert "send_chat_message" in tools.similar_names("send_mesage")


@pytest.mark.parametrize(
    ("name", "python_name", "names"),
    [
        ("Send a message", "send", ("send", "mod.send")),
        ("发送", "send", ("发送", "send", "mod.send")),
        ("print", "show", ("show", "mod.show")),
        ("class", "print", ("mod.print",)),
        ("None", "match", ("match", "mod.match")),
        ("__import__", "__call__", ("mod.__call__",)),
    ],
)
def test_names_of_python_are_not_given_to_tools(
    name: str, python_name: str, names: tuple[str, ...]
) -> None:
    tools = tool_set([named_tool(name, python_name, "ann.mod")])
    assert tools.named[0].names == names


def test_a_name_belongs_to_an_installed_plugin_rather_than_to_a_built_in_one() -> None:
    builtin = named_tool("send", "send", "nekro.chat")
    installed = named_tool("send", "my_send", "ann.mine")
    for order in ((builtin, installed), (installed, builtin)):
        tools = tool_set(order, builtin=BUILTIN)
        assert owners(tools, "send", "my_send", "chat.send") == [
            "ann.mine",
            "ann.mine",
            "nekro.chat",
        ]
        (clash,) = tools.clashes
        assert clash.winner == "mine.my_send"
        assert set(clash.owners) == {"nekro.chat", "ann.mine"}


def test_a_name_of_two_installed_plugins_belongs_to_none_until_the_operator_orders_them() -> None:
    both = [named_tool("draw", "draw", "ann.a"), named_tool("draw", "draw", "bob.b")]
    tools = tool_set(both)
    assert owners(tools, "draw", "a.draw", "b.draw") == [None, "ann.a", "bob.b"]
    assert "nobody has it until the operator orders them" in tools.clashes[0].message
    assert tools.name_of(both[0]) == "a.draw"
    ordered = tool_set(both, order=("bob.b", "ann.a"))
    assert owners(ordered, "draw") == ["bob.b"]
    assert "bob.b has it" in ordered.clashes[0].message


def test_inside_a_plugin_the_name_of_a_tool_wins_over_the_same_name_of_a_function() -> None:
    first = named_tool("roll", "throw", "ann.a")
    second = named_tool("throw", "fling", "ann.a")
    tools = tool_set([first, second])
    assert tools.resolve("throw") is second
    assert tools.resolve("roll") is first
    assert tools.clashes == ()


def test_a_second_tool_of_a_plugin_with_the_same_name_replaces_the_first() -> None:
    first, second = (named_tool("roll", "roll", "ann.a") for _ in range(2))
    tools = tool_set([first, second])
    assert tools.tools == (second,)
    assert tools.tools[0] is second


def test_two_plugins_with_one_name_are_distinguished_by_their_authors() -> None:
    tools = tool_set([named_tool("x", "f", "ann.same"), named_tool("y", "f", "bob.same")])
    assert owners(tools, "ann.same.f", "bob.same.f", "same.f") == ["ann.same", "bob.same", None]


def test_a_tool_that_its_author_gave_a_dotted_name_has_no_other_name() -> None:
    tools = tool_set([named_tool("desk.glob", "glob", "ann.desk")])
    assert tools.named[0].names == ("desk.glob",)
    assert owners(tools, "desk.glob", "glob") == ["ann.desk", None]


def test_a_function_with_the_name_of_its_plugin_comes_first_in_the_list_of_tools() -> None:
    tools = tool_set(
        [named_tool("roll", "roll", "ann.dice"), named_tool("dice", "dice", "ann.dice")]
    )
    assert tools.named[0].name == "dice"


NAMES = st.sampled_from(["a", "b", "c", "print", "two words", "class"])
TOOLS = st.builds(
    named_tool,
    NAMES,
    st.sampled_from(["a", "b", "c", "print"]),
    st.sampled_from(["nekro.chat", "ann.x", "bob.y", "eve.x"]),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(TOOLS, max_size=8))
def test_every_name_has_one_tool_and_every_tool_a_name(offered: list[Tool]) -> None:
    tools = tool_set(offered, builtin=BUILTIN)
    names = [name for named in tools.named for name in named.names]
    assert len(names) == len(set(names))
    assert all(tools.resolve(name) is each.tool for each in tools.named for name in each.names)
    assert {(each.owner, each.python_name) for each in offered} == {
        (each.owner, each.python_name) for each in tools.tools
    }
    for named in tools.named:
        assert named.names[-1] in (
            dotted_name(named.tool),
            f"{named.tool.owner}.{named.tool.python_name}",
        )
        assert all(is_free_name(name) for name in named.names if "." not in name)


def test_builtins_and_keywords_are_not_free_names() -> None:
    assert not any(map(is_free_name, [*dir(builtins), *keyword.kwlist, "", "two words", "1a"]))
