"""The short prompt for a small model: its parts, and their fixed order."""

import pytest

from nekro_core.agent.prompt.quoting import PromptLines
from nekro_core.agent.prompt.small_prompt import (
    BRIEF_KEY,
    MAX_EXCHANGES,
    MAX_SAID,
    SmallPromptStep,
    beginnings,
    small_prompt,
    small_tools,
)
from nekro_core.chat import (
    Author,
    ChatKey,
    ChatKind,
    Media,
    Mention,
    Record,
    Reply,
    Segment,
    Sender,
    Text,
    Voice,
)
from nekro_core.llm.model import ChatRequest, TextPart
from nekro_core.tools.examples import worked_examples
from nekro_core.tools.names import ToolSet, tool_set
from nekro_core.tools.tool import Parameter, Tool, ToolKind, Visibility

CHAT = ChatKey("onebot_v11", ChatKind.GROUP, "30003")


async def _handler() -> None:
    raise AssertionError("no test calls it")


def a_parameter(name: str, type_text: str, kind: str, **options: object) -> Parameter:
    schema = {"type": kind}
    return Parameter(name=name, annotation=str, type_text=type_text, schema=schema, **options)


TEXT = a_parameter("text", "str", "string")
SPEED = a_parameter("speed", "float", "number", default=1.0)
REPLY_TO = a_parameter("reply_to", "str", "string", default="")


def a_tool(name: str, *parameters: Parameter, examples: str = "", **options: object) -> Tool:
    fields = {"module": "plugin", "owner": "test.plugin", "kind": ToolKind.TOOL, **options}
    return Tool(
        name=name,
        python_name=name,
        handler=_handler,
        summary=f"The {name} tool.",
        parameters=parameters,
        examples=worked_examples(examples),
        **fields,
    )


SEND = a_tool(
    "send",
    TEXT,
    REPLY_TO,
    examples="""
# User: hello
send("Hello!")
# User: thanks
send("You are welcome.")
# User: 你好
send("你好！")
""",
)
SPEAK = a_tool(
    "speak",
    TEXT,
    SPEED,
    examples="""
# User: say yes
speak("Yes!")
# User: say it slowly
speak("It.", speed=0.7)
# User: はいと言って
speak("はい")
""",
)
TOOLS = tool_set([SEND, SPEAK])


def line(seq: int, *segments: Segment | str, who: str = "lin", **options: object) -> Record:
    return Record(
        seq=seq,
        chat_key=CHAT,
        author=Author.PERSON,
        segments=tuple(Text(each) if isinstance(each, str) else each for each in segments),
        time=float(seq),
        sender=Sender(who),
        **options,
    )


def ours(seq: int, run_id: str, text: str = "") -> Record:
    return Record(
        seq=seq,
        chat_key=CHAT,
        author=Author.BOT,
        segments=(Text(text),),
        time=float(seq),
        run_id=run_id,
    )


def shown(request: ChatRequest) -> list[tuple[str, str]]:
    found = []
    for message in request.messages:
        (part,) = message.parts
        assert isinstance(part, TextPart)
        found.append((message.role, part.text))
    return found


def ask(*history: Record, tools: ToolSet = TOOLS, **options: object) -> list[tuple[str, str]]:
    return shown(small_prompt(tools, history, **options))


def test_the_first_prompt_has_tools_examples_and_the_message() -> None:
    system, *examples, now = ask(line(1, "hi"))
    assert system[0] == "system"
    assert "send(text: str)  # The send tool." in system[1]
    assert "speak(text: str, speed: float = 1.0)  # The speak tool." in system[1]
    assert examples == [
        ("user", "hello"),
        ("assistant", 'send("Hello!")'),
        ("user", "say yes"),
        ("assistant", 'speak("Yes!")'),
        ("user", "thanks"),
        ("assistant", 'send("You are welcome.")'),
        ("user", "say it slowly"),
        ("assistant", 'speak("It.", speed=0.7)'),
    ]
    assert now == ("user", "hi")


def test_the_examples_most_like_the_question_come_last() -> None:
    roll = a_tool(
        "roll",
        a_parameter("sides", "int", "integer"),
        examples="""
# User: roll a dice
roll(6)
# User: flip a coin
roll(2)
# User: a number up to 50
roll(50)
# User: throw a dice with 20 sides
roll(20)
""",
    )
    messages = ask(line(1, "throw a dice with 8 sides"), tools=tool_set([SEND, SPEAK, roll]))
    assert messages[-3:] == [
        ("user", "throw a dice with 20 sides"),
        ("assistant", "roll(20)"),
        ("user", "throw a dice with 8 sides"),
    ]
    assert ("user", "a number up to 50") not in messages, "it shares no word"


def test_the_function_that_most_of_the_nearest_examples_call_comes_last() -> None:
    roll = a_tool(
        "roll",
        a_parameter("sides", "int", "integer"),
        examples="""
# User: roll a dice with many sides
roll(100)
# User: throw the dice with 20 sides
roll(20)
""",
    )
    talk = a_tool("talk", TEXT, examples="# User: throw me a party\ntalk('Party!')")
    messages = ask(line(1, "throw me a dice with 8 sides"), tools=tool_set([talk, roll]))
    assert [code for role, code in messages if role == "assistant"][-3:] == [
        "talk('Party!')",
        "roll(100)",
        "roll(20)",
    ]


def test_a_question_in_a_language_whose_beginning_is_not_processed_yet_gets_a_brief_prompt() -> (
    None
):
    full = ask(line(1, "say good morning"), unread={"zh"})
    assert full == ask(line(1, "say good morning"))
    history = line(1, "hi"), ours(2, "r1"), line(3, "and?"), ours(4, "r2"), line(5, "say yes twice")
    codes = {"r1": 'send("Hello!")', "r2": 'send("Well.")'}
    request = small_prompt(TOOLS, history, persona="A cat.", codes=codes, unread={"en", "zh"})
    system, *rest, now = shown(request)
    assert system[1].startswith("A cat.\n")
    assert "send(" not in system[1], "the examples show the functions"
    assert rest[:2] == [("user", "and?"), ("assistant", 'send("Well.")')], "the last exchange"
    assert rest[-2:] == [("user", "say yes"), ("assistant", 'speak("Yes!")')]
    assert len(rest) == 2 + 2 * 3
    assert now == ("user", "say yes twice")
    assert request.cache_key == BRIEF_KEY
    assert request.grammar == small_prompt(TOOLS, history, codes=codes).grammar


def test_an_example_that_the_model_could_not_write_is_not_shown() -> None:
    find = a_tool(
        "find",
        TEXT,
        owner="other.find",
        examples="""
# User: what did Mei say?
for message in find("Mei"):
    print(message)
# User: show what Mei said
print(find("Mei"))
""",
    )
    quote = a_tool(
        "quote",
        TEXT,
        owner="other.find",
        visibility=Visibility.UNLISTED,
        examples="""
# User: what did Mei say?
quote("Mei")
""",
    )
    unlisted = a_tool("secret", TEXT, owner="other.more", visibility=Visibility.UNLISTED)
    tools = tool_set([SEND, find, quote, unlisted])
    assert [each.name for each in small_tools(tools)] == ["send", "quote"]
    assert ("assistant", 'quote("Mei")') in ask(line(1, "hi"), tools=tools)


def test_the_text_of_a_call_may_have_expressions_in_the_language_of_the_question() -> None:
    for text, language in (("how much?", "en"), ("多少", "zh"), ("いくら", "ja")):
        request = small_prompt(TOOLS, [line(1, text)])
        assert "days_until" in request.grammar
        assert (f"'{language}'" in request.grammar) == (language != "en"), text


ROLL = a_tool(
    "roll",
    a_parameter("sides", "int", "integer"),
    examples="\n".join(
        f"# User: roll a dice with {sides} sides\nroll({sides})" for sides in range(10, 20)
    ),
)


def root_of(request: ChatRequest) -> str:
    return next(line for line in request.grammar.splitlines() if line.startswith("root ::="))


def test_the_first_call_is_of_a_function_that_the_question_can_be_about() -> None:
    tools = tool_set([SEND, SPEAK, ROLL])
    request = small_prompt(tools, [line(1, "roll a dice with 8 sides")])
    assert "first-call" in root_of(request)
    assert "first-call ::= call-2\n" in request.grammar
    assert "\ncall ::= (call-0 | call-1 | call-2)\n" in request.grammar, "a second call may be any"
    unclear = small_prompt(tools, [line(1, "what about it?")])
    assert "first-call" not in root_of(unclear)


def test_the_first_call_may_also_be_of_the_function_that_the_last_answer_called() -> None:
    history = line(1, "say yes"), ours(2, "r1", "Yes!"), line(3, "roll a dice with 8 sides")
    codes = {"r1": 'speak("Yes!")'}
    request = small_prompt(tool_set([SEND, SPEAK, ROLL]), history, codes=codes)
    assert "first-call ::= (call-1 | call-2)\n" in request.grammar


def test_copied_numbers_are_those_of_the_question() -> None:
    tools = tool_set([SEND, SPEAK, ROLL])
    request = small_prompt(tools, [line(1, "roll a dice with 8 sides")])
    assert 'call-2-v0 ::= "8"\n' in request.grammar
    history = line(1, "roll a dice with 8 sides"), ours(2, "r1", "5"), line(3, "roll it with 9")
    request = small_prompt(tools, history, codes={"r1": "roll(8)"})
    assert 'call-2-v0 ::= ("8" | "9")\n' in request.grammar


def test_after_an_error_any_call_and_any_number_is_possible() -> None:
    steps = [SmallPromptStep("roll(8)", PromptLines(("ToolFailure: at most 6",)))]
    request = small_prompt(
        tool_set([SEND, SPEAK, ROLL]), [line(1, "roll a dice with 8 sides")], steps=steps
    )
    assert "first-call" not in root_of(request)
    assert 'call-2-v0 ::= "8"' not in request.grammar


def test_expressions_need_numbers_in_the_question_or_expressions_in_the_nearest_examples() -> None:
    request = small_prompt(TOOLS, [line(1, "say it slowly")])
    assert "days_until" not in request.grammar
    assert "days_until" in small_prompt(TOOLS, [line(1, "say it slowly 3 times")]).grammar


def test_examples_are_in_the_persons_language_if_the_tool_has_them() -> None:
    said = [text for role, text in ask(line(1, "早上好")) if role == "user"]
    assert said == ["你好", "say yes", "say it slowly", "你好", "早上好"]
    said = [text for role, text in ask(line(1, "おはよう")) if role == "user"]
    assert said == ["hello", "はいと言って", "thanks", "はいと言って", "おはよう"]
    assert ask(line(1, "?"), language="zh")[1] == ("user", "你好")
    assert ask(line(1, "おはよう"), language="zh")[3] == ("user", "はいと言って")


def test_the_last_message_leaves_out_mentions_and_replies() -> None:
    history = line(1, Reply("7"), Mention("20002", "bot"), " roll  a\ndice ")
    assert ask(history)[-1] == ("user", "roll a dice")


def test_a_voice_is_shown_as_its_words() -> None:
    media = Media(path="/uploads/a.wav")
    assert ask(line(1, Voice(media, "how late is it?")))[-1] == ("user", "how late is it?")
    assert ask(line(1, Voice(media)))[-1] == ("user", "[voice]")


def test_a_persons_consecutive_messages_are_joined() -> None:
    history = line(1, "something else", who="ann"), line(2, "say"), line(3, "good night")
    assert ask(*history)[-1] == ("user", "say\ngood night")


def test_past_answers_are_shown_as_calls() -> None:
    history = line(3, "hi"), ours(4, "r1", "Hello!"), line(5, "again")
    assert ask(*history, codes={"r1": 'send("Hello!")'})[-3:] == [
        ("user", "hi"),
        ("assistant", 'send("Hello!")'),
        ("user", "again"),
    ]


def test_unanswered_messages_of_earlier_turns_and_recalled_ones_are_left_out() -> None:
    history = (
        line(1, "chatter", who="ann"),
        line(2, "more chatter", who="bob"),
        line(3, "secret", recalled=True),
        line(4, "hi"),
        ours(5, "unknown run", "Hello!"),
        line(6, "again"),
    )
    texts = [text for _, text in ask(*history, codes={})]
    assert texts[-1] == "again"
    assert not {"chatter", "more chatter", "secret", "hi"} & set(texts)


def test_a_long_message_loses_its_middle() -> None:
    _, text = ask(line(1, "a" * 5000 + "b" * 5000))[-1]
    assert len(text) < MAX_SAID + 20
    assert text.startswith("aaa")
    assert text.endswith("bbb")


def test_steps_of_this_turn_come_last() -> None:
    steps = [SmallPromptStep('send("a" + 1)', PromptLines(("TypeError: line 1",)))]
    assert ask(line(1, "hi"), steps=steps)[-3:] == [
        ("user", "hi"),
        ("assistant", 'send("a" + 1)'),
        ("user", "TypeError: line 1"),
    ]


def test_most_prompts_begin_with_the_previous_prompt_and_its_answer() -> None:
    history: list[Record] = []
    codes: dict[str, str] = {}
    kept = 0
    before: list[tuple[str, str]] = []
    for number in range(60):
        history.append(line(2 * number, f"message {number}"))
        now = ask(*history, codes=codes)
        assert now[:9] == ask(line(1, "x"))[:9]
        assert len(now) <= 10 + 2 * MAX_EXCHANGES
        kept += now[: len(before)] == before
        before = [*now, ("assistant", f'send("{number}")')]
        codes[f"r{number}"] = f'send("{number}")'
        history.append(ours(2 * number + 1, f"r{number}"))
    assert kept > 30


def test_the_same_input_makes_the_same_request() -> None:
    history = [line(1, "hi"), ours(2, "r1"), line(3, "again")]
    codes = {"r1": 'send("Hello!")'}
    first = small_prompt(TOOLS, history, persona="A cat.", codes=codes)
    assert first == small_prompt(TOOLS, history, persona="A cat.", codes=codes)
    assert shown(first)[0][1].startswith("A cat.\n")
    assert first.temperature == 0
    assert first.cache_key == "en"
    assert "root ::=" in first.grammar


def test_a_small_model_is_offered_only_tools_that_suit_it() -> None:
    tools = tool_set(
        [
            SEND,
            # This tool has no examples, although another tool of its plugin (`SEND`) has some.
            a_tool("send_file", TEXT),
            a_tool("look", TEXT, kind=ToolKind.MULTIMODAL_AGENT, owner="other.eyes"),
            a_tool("search", TEXT, REPLY_TO, owner="other.search"),
            a_tool("run", TEXT, owner="other.workbench", for_small_models=False),
            a_tool("rare", TEXT, owner="other.search", visibility=Visibility.DEFERRED),
        ]
    )
    offered = {
        each.name: [parameter.name for parameter in each.tool.parameters]
        for each in small_tools(tools)
    }
    assert offered == {"send": ["text"], "search": ["text", "reply_to"]}


def test_beginnings_returns_for_each_language_the_messages_with_which_its_prompts_begin() -> None:
    first, *others = beginnings(TOOLS, persona="A cat.", language="zh")
    assert [each.cache_key for each in (first, *others)] == ["zh", "en", "ja"]
    prompt = small_prompt(TOOLS, [line(1, "早上好")], persona="A cat.")
    beginning = first.messages[:-1]
    assert len(beginning) > 6
    assert prompt.messages[: len(beginning)] == beginning
    assert beginnings(tool_set([])) == []


def test_a_small_prompt_without_tools_is_an_error() -> None:
    with pytest.raises(ValueError, match="at least one tool"):
        small_prompt(tool_set([]), [line(1, "hi")])


def test_a_call_has_the_optional_arguments_that_the_shown_examples_have() -> None:
    who = a_parameter("who", "str", "string", default="")
    limit = a_parameter("limit", "int", "integer", default=5)
    said = "\n".join(
        f'# User: what did {name} say?\nquote(who="{name}")' for name in ("Ann", "Bob", "Cy", "Di")
    )
    last = "\n".join(
        f"# User: show the last {number} messages\nquote(limit={number})" for number in range(2, 6)
    )
    quote = a_tool("quote", who, limit, examples=f"{said}\n{last}")
    grammar = small_prompt(tool_set([quote]), [line(1, "what did Eve say?")]).grammar
    assert '"who="' in grammar
    assert '"limit="' not in grammar
    assert grammar.count('"who="') == 1
    grammar = small_prompt(tool_set([quote]), [line(1, "show the last 9 messages")]).grammar
    assert '"who="' not in grammar
    assert '"limit="' in grammar
    grammar = small_prompt(tool_set([quote]), [line(1, "anything else?")]).grammar
    assert '"who="' in grammar
    assert '"limit="' in grammar
