"""Writes the short prompt for a small model: stubs (each has the signature of a function and one
sentence), worked examples, the last exchanges (each is a message and the bot's answer), and the
question.

A model of half a billion parameters does not follow instructions; it continues patterns. So the
prompt is a conversation in which people write messages and the bot answers with calls. The examples
come from the tools' documentation. The prompt ends at the point where the next call must follow.
The order suits the prompt cache of the model's server, which keeps what two prompts have in common
at their beginning. First come some examples of each tool, which are the same for all chats of one
language, then the chat's last exchanges, and last the examples that are most like the question.
While the server still processes the fixed beginning of a language for the first time, a question in
this language gets a *brief* prompt without the beginning. The server processes a brief prompt in a
few seconds.

The grammar of the reply depends on the question: the first call must be of a function that the
question can be about, calls have the optional arguments that the examples before the question use
(`shown_arguments.py`), and where examples only copy numbers from their questions, the numbers must
be those of this question (`copied_numbers.py`).
"""

import ast
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, zip_longest

from nekro_core.agent.prompt.copied_numbers import CopiedNumbers, copied_numbers
from nekro_core.agent.prompt.nearest_examples import Nearest, NearestExamples
from nekro_core.agent.prompt.question_numbers import numbers_in
from nekro_core.agent.prompt.quoting import escape_own_marks
from nekro_core.agent.prompt.shown_arguments import called_name, with_shown_arguments
from nekro_core.agent.prompt.small_step import SmallPromptStep
from nekro_core.chat import Author, Mention, Record, Reply, Text, Voice, plain_text
from nekro_core.llm.grammar import call_grammar
from nekro_core.llm.model import ChatRequest, PromptMessage
from nekro_core.tools.discovery import SEARCH, deferred_tools_of, is_search
from nekro_core.tools.examples import all_examples, script_language
from nekro_core.tools.names import NamedTool, ToolSet
from nekro_core.tools.stub import signature_text
from nekro_core.tools.tool import Example, Tool, ToolKind, Visibility

MAX_REPLY_TOKENS = 1100
"""Maximum number of tokens of a reply. It is enough for the longest reply that the grammar allows,
so that no reply is cut inside a string. The usual model needs one token for each character. A
smaller model that does not know Chinese needs up to 2.5 tokens for each character."""
MAX_CALLS = 2
"""Maximum number of calls in one reply. Most questions to a small model need one call."""
FIXED_EXAMPLES = 2
"""Number of examples of each tool at the beginning of each prompt."""
NEAREST_EXAMPLES = 4
"""Number of examples that are chosen for the question. The model reads about 30 tokens of each."""
BRIEF_EXAMPLES = 6
"""Number of examples in a brief prompt, which has about 250 tokens in total."""
BRIEF_KEY = "brief"
"""The cache key of brief prompts. The key of other prompts is their language."""
MAX_EXCHANGES = 5
"""Maximum number of past exchanges in a prompt. With more, a small model tends to repeat itself."""
ANCHOR_EVERY = 3
"""On average, one exchange in this many is allowed to be the first exchange of a prompt; see
`_anchored`."""
MAX_SAID = 600
"""Maximum number of characters of one message in the prompt. The middle of a longer message is left
out."""
MAX_PERSONA = 300
"""Maximum number of characters of the persona. The rest is cut off."""
MAX_MORE = 600
"""Maximum number of characters for the names of the plugins whose functions must be searched
for."""
MAX_ROW = 3
"""Maximum number of consecutive messages of one person that are joined into one. Of more, only the
newest are used."""

_FIRST_LANGUAGE = "en"
_LANGUAGES = (_FIRST_LANGUAGE, "zh", "ja")
_COMPUTED = '(f"'
"""The beginning of a text argument that has expressions in it, which Python computes."""
_TASK = "You are a chat bot. Answer each message by calling Python functions:"


def small_prompt(
    tools: ToolSet,
    history: Sequence[Record],
    *,
    persona: str = "",
    language: str = "",
    codes: Mapping[str, str] | None = None,
    steps: Sequence[SmallPromptStep] = (),
    unread: Collection[str] = (),
) -> ChatRequest:
    """Write the request for a small model's next step. The same input gives the same request.

    ``history`` has the chat's records, oldest first, and ends with the records to answer. Only its
    last few exchanges are used. ``codes`` maps run ids to their code, so that the bot's past
    answers can be shown as calls. The examples are in the language of the newest message. If that
    message has no letters, they are in ``language`` (``en``, ``zh``, ``ja``). ``unread`` has the
    languages whose beginning the model's server has not processed yet. For a question in one of
    them, the prompt is brief. Raises `ValueError` if no tool suits a small model.
    """
    offered = tools.once(small_tools)
    *past, now = _exchanges(history, codes or {})
    if any(map(str.isalpha, now.said)) or not language:
        language = script_language(now.said)
    brief = language in unread
    fixed = [] if brief else list(_examples(offered, language, FIXED_EXAMPLES))
    found = tools.once(_nearest)[language].of(
        now.said, BRIEF_EXAMPLES if brief else NEAREST_EXAMPLES
    )
    nearest = [*found.examples]
    if brief and len(nearest) < BRIEF_EXAMPLES:
        others = (each for each in _examples(offered, language, 1) if each not in nearest)
        nearest = [*islice(others, BRIEF_EXAMPLES - len(nearest)), *nearest]
    system = _brief_system(persona) if brief else _system(offered, persona, tools)
    messages = [PromptMessage.of("system", system)]
    for example in fixed:
        messages += _turn(example.says, example.code)
    shown = _anchored(past)[-1:] if brief else _anchored(past)
    for exchange in shown:
        messages += _turn(exchange.said, exchange.answered)
    for example in nearest:
        messages += _turn(example.says, example.code)
    messages.append(PromptMessage.of("user", now.said))
    for step in steps:
        messages.append(PromptMessage.of("assistant", step.code))
        messages.append(PromptMessage.of("user", step.observation.text(MAX_SAID)))
    return ChatRequest(
        messages=tuple(messages),
        max_tokens=MAX_REPLY_TOKENS,
        temperature=0.0,
        grammar=(
            call_grammar(offered, max_calls=MAX_CALLS, computes_in=language)
            if steps  # after an error, the call must differ from what was asked
            else _grammar(tools, found, [*shown, now], language)
        ),
        cache_key=BRIEF_KEY if brief else language,
    )


def beginnings(tools: ToolSet, *, persona: str = "", language: str = "") -> list[ChatRequest]:
    """Return one request for each language, ``language`` first. Each has the beginning that all
    prompts in this language have in common.

    If the model processes these requests, its server has the beginnings in its cache before the
    first question. The list is empty if no tool suits a small model.
    """
    if not tools.once(small_tools):
        return []
    order = dict.fromkeys((language or _FIRST_LANGUAGE, *_LANGUAGES))
    return [small_prompt(tools, (), persona=persona, language=each) for each in order]


def small_tools(tools: ToolSet) -> list[NamedTool]:
    """Return the tools that a small model is offered, each with the parameters that the model can
    use.

    If some tools of a plugin have worked examples, only these tools of the plugin are offered;
    otherwise all its tools are offered. A tool with the visibility `UNLISTED` is offered only if it
    has worked examples. An example counts only if its code consists of calls of tools, because a
    small model can write nothing else. Tools that the plugin excludes for small models are left
    out. For a tool with examples, only the parameters that are required or that an example uses are
    shown. Tools that return pictures are left out, since small models do not accept pictures.
    """
    seen = (Visibility.VISIBLE, Visibility.UNLISTED)
    suitable = [
        NamedTool(replace(each.tool, examples=_usable(each)), each.names)
        for each in tools.named
        if each.tool.visibility in seen and each.tool.for_small_models
    ]
    taught = {each.tool.owner for each in suitable if each.tool.examples}
    return [
        NamedTool(_with_used_parameters(each.tool), each.names)
        for each in suitable
        if each.tool.examples or each.tool.visibility is Visibility.VISIBLE
        if (each.tool.examples or each.tool.owner not in taught)
        and each.tool.kind is not ToolKind.MULTIMODAL_AGENT
    ]


def with_found(tools: ToolSet, found: Sequence[NamedTool]) -> ToolSet:
    """Return the tools, with the visibility of those in ``found`` set to `VISIBLE`."""
    if not found:
        return tools
    wanted = {id(each) for each in found}
    return ToolSet(
        tuple(
            NamedTool(replace(each.tool, visibility=Visibility.VISIBLE), each.names)
            if id(each) in wanted
            else each
            for each in tools.named
        ),
        tools.clashes,
    )


def _usable(named: NamedTool) -> tuple[Example, ...]:
    """Return those examples of a tool whose code consists only of calls, of which at least one
    calls this tool."""
    return tuple(each for each in all_examples(named.tool) if _calls_only(each.code, named.names))


def _calls_only(code: str, names: Collection[str]) -> bool:
    called = [
        called_name(statement.value)
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)
        else ""
        for statement in ast.parse(code).body
    ]
    return all(called) and any(name in names for name in called)


def _with_used_parameters(tool: Tool) -> Tool:
    if not tool.examples:
        return tool
    code = "\n".join(example.code for example in tool.examples)
    used = [each for each in tool.parameters if each.required or f"{each.name}=" in code]
    return replace(tool, parameters=tuple(used))


def _system(offered: Sequence[NamedTool], persona: str, tools: ToolSet) -> str:
    stubs = (f"{signature_text(each.tool, each.name)}  # {each.tool.summary}" for each in offered)
    shown = " ".join(persona.split())[:MAX_PERSONA]
    more = ", ".join(tools.once(deferred_tools_of).modules)[:MAX_MORE]
    searches = any(is_search(each.tool) for each in offered)
    search_line = f"# {SEARCH} finds more, of: {more}" if searches else ""
    return "\n".join(filter(None, [shown, _TASK, *stubs, search_line]))


def _brief_system(persona: str) -> str:
    return "\n".join(filter(None, [" ".join(persona.split())[:MAX_PERSONA], _TASK]))


def _examples(tools: Sequence[NamedTool], language: str, most: int = 0) -> Iterator[Example]:
    """Yield the examples in ``language``. If ``most`` is not 0, yield at most ``most`` examples of
    each tool. If a tool has none in this language, its English examples are used. The first example
    of each tool comes first, then the second example of each tool, and so on."""
    columns = []
    for named in tools:
        by_language: dict[str, list[Example]] = {}
        for example in named.tool.examples:
            by_language.setdefault(example.language, []).append(example)
        found = by_language.get(language) or by_language.get(_FIRST_LANGUAGE, [])
        columns.append(found[:most] if most else found)
    for row in zip_longest(*columns):
        yield from (example for example in row if example)


def _nearest(tools: ToolSet) -> Mapping[str, NearestExamples]:
    offered = tools.once(small_tools)
    return {
        language: NearestExamples(list(_examples(offered, language))) for language in _LANGUAGES
    }


def _copied(tools: ToolSet) -> Sequence[CopiedNumbers]:
    return [copied_numbers(each) for each in tools.once(small_tools)]


@dataclass(frozen=True, slots=True)
class _Exchange:
    seq: int
    said: str
    answered: str


def _grammar(tools: ToolSet, found: Nearest, exchanges: Sequence[_Exchange], language: str) -> str:
    """Return the grammar for the answer to the last of these exchanges. The functions and numbers
    of the earlier exchanges are allowed too, because the person can write "the same again"."""
    offered = tools.once(small_tools)
    numbers = [
        number for each in exchanges for number in numbers_in(f"{each.said}\n{each.answered}")
    ]
    fitting = [each for copied in tools.once(_copied) for each in copied.allowed(numbers)]
    first, computes = found.functions, True
    if first:
        before = "\n".join(each.answered for each in exchanges)
        first |= {name for each in offered for name in each.names if f"{name}(" in before}
        codes = [before, *(each.code for each in found.examples)]
        computes = bool(numbers) or any(_COMPUTED in code for code in codes)
    shown = found.examples if first else ()
    return call_grammar(
        [with_shown_arguments(each, shown) for each in fitting or offered],
        max_calls=MAX_CALLS,
        computes_in=language if computes else "",
        first=first,
    )


def _exchanges(history: Sequence[Record], codes: Mapping[str, str]) -> list[_Exchange]:
    """Return pairs of messages and answers, oldest first. The last pair is the question of the
    turn, without an answer.

    Messages that the bot did not answer are left out. In a busy group, these are most of the
    messages. Consecutive messages of one person are joined, until the bot answers. If the code that
    sent an answer is unknown, the message and its answer are left out.
    """
    exchanges: list[_Exchange] = []
    row: list[Record] = []
    answers: dict[str, str] = {}
    for record in history:
        if record.recalled or (record.author is Author.SYSTEM and not record.to_bot):
            continue
        if record.author is Author.BOT:
            answers[record.run_id] = codes.get(record.run_id, "")
            continue
        if answers or (row and row[-1].sender.user_id != record.sender.user_id):
            exchanges.append(
                _Exchange(
                    row[-1].seq if row else 0, _said(row), "\n".join(filter(None, answers.values()))
                )
            )
            row, answers = [], {}
        row.append(record)
    exchanges = [exchange for exchange in exchanges if exchange.said and exchange.answered]
    return [*exchanges, _Exchange(0, _said(row), "")]


def _anchored(past: Sequence[_Exchange]) -> Sequence[_Exchange]:
    """Return the last few exchanges, at most `MAX_EXCHANGES`, beginning with one that stays the
    first for several questions.

    If the first exchange changed with every question, the model would have to process all exchanges
    again. So the hash of an exchange's sequence number decides whether the exchange may be the
    first. The number itself is not suitable: in one chat often all numbers are even.
    """
    recent = past[-MAX_EXCHANGES:]
    for index, exchange in reversed(list(enumerate(recent))):
        if zlib.crc32(str(exchange.seq).encode()) % ANCHOR_EVERY == 0:
            return recent[index:]
    return recent


def _said(row: Sequence[Record]) -> str:
    texts = (_words(record) for record in row[-MAX_ROW:])
    return escape_own_marks(_shortened("\n".join(filter(None, texts))))


def _words(record: Record) -> str:
    """Return the words of a message, without mentions and reply marks: in this prompt every message
    is addressed to the bot."""
    segments = [
        Text(each.text) if isinstance(each, Voice) and each.text else each
        for each in record.segments
        if not isinstance(each, Mention | Reply)
    ]
    return " ".join(plain_text(segments).split())


def _shortened(text: str) -> str:
    if len(text) <= MAX_SAID:
        return text
    return f"{text[: MAX_SAID // 2]} [...] {text[-MAX_SAID // 2 :]}"


def _turn(said: str, answered: str) -> tuple[PromptMessage, PromptMessage]:
    return PromptMessage.of("user", said), PromptMessage.of("assistant", answered)
