"""Recognizes replies without code that are not meant for people: silence, and calls written as
JSON."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from nekro_core.llm.model import FunctionCall

_MARKED_SILENCE = re.compile(
    r"[\[(<（【〈《*_`\s]+"
    r"(?:no[ _-]?(?:reply|response|answer|output|message)(?: needed)?|silen(?:ce|t)|pass"
    r"|stays? silent|不回复|不回答|沉默|無回答|返信なし|返信しない|沈黙)"
    r"[\s.。*_`\])>）】〉》]+",
    re.IGNORECASE,
)
_BARE_SILENCE = re.compile(r"<?no[_-](?:reply|response|answer|output)>?\.?", re.IGNORECASE)
SILENT_CODE = "pass"
"""In code mode, a reply that is only this word means silence, even without the code fence, which
some models leave out. The prompt tells the model so. In tool mode the word may be an answer."""
_WRAPPED = re.compile(
    r"\A\s*(?:```[a-z_]*|<(?:tool_call|function_call|function|tool)>)?\s*(?P<json>[\[{].*[\]}])\s*"
    r"(?:```|</(?:tool_call|function_call|function|tool)>)?\s*\Z",
    re.DOTALL | re.IGNORECASE,
)
_NOT_WORDS = ("{", "[", "<", "```", "~~~")
_MOST_CHARS = 100_000
"""Maximum number of characters of a reply that is parsed as JSON."""
_NAMES = ("name", "function", "tool", "tool_name", "function_name", "action")
_ARGUMENTS = ("arguments", "args", "parameters", "params", "input", "kwargs", "action_input")
_CODE_RUNNERS = frozenset({"python", "code_interpreter", "execute_python", "run_python", "exec"})
"""Names of tools of other programs that run code. Models call such tools although no prompt names
them."""


def is_silence(text: str) -> bool:
    """Return whether the first line of a reply says only that there is no reply, such as
    ``[no reply]`` or ``NO_REPLY``."""
    first = text.strip().partition("\n")[0].strip()
    return bool(_MARKED_SILENCE.fullmatch(first) or _BARE_SILENCE.fullmatch(first))


def may_be_no_words(beginning: str) -> bool:
    """Return whether a reply that begins like this may turn out to be silence, a call or code. Do
    not send such a beginning before the whole reply is known."""
    return beginning.lstrip().startswith(_NOT_WORDS) or is_silence(beginning)


def json_calls(text: str, is_tool: Callable[[str], bool]) -> list[FunctionCall]:
    """If a whole reply is JSON that calls tools, return the calls. Otherwise return an empty list.
    ``is_tool`` says whether a function of this name exists."""
    found = _WRAPPED.match(text) if len(text) <= _MOST_CHARS else None
    if found is None:
        return []
    try:
        value = json.loads(found["json"])
    except (ValueError, RecursionError):
        return []
    calls = [*_calls_in(value)]
    known = bool(calls) and all(is_tool(each.name) or each.name in _CODE_RUNNERS for each in calls)
    return calls if known else []


def _calls_in(value: Any) -> Iterator[FunctionCall]:
    match value:
        case list():
            for each in value:
                yield from _calls_in(each)
        case {"tool_calls": list(calls)}:
            yield from _calls_in(calls)
        case {"function": dict(function)}:
            yield from _calls_in(function)
        case dict():
            name = next((value[key] for key in _NAMES if isinstance(value.get(key), str)), "")
            yield FunctionCall(call_id="", name=name, arguments=_arguments_of(value))
        case _:
            yield FunctionCall(call_id="", name="")


def _arguments_of(call: Mapping[str, Any]) -> Mapping[str, Any]:
    given: Any = next((call[key] for key in _ARGUMENTS if key in call), {})
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except (ValueError, RecursionError):
            return {}
    return given if isinstance(given, dict) else {}
