"""Reads worked examples from a docstring's ``Example:`` section.

The convention: a line ``# User: what a person says``, then the code that answers it, up to the next
such line. Code before the first such line is an example for readers only.
"""

import ast
import re
import textwrap

from nekro_core.tools.tool import Example

_SAYS = re.compile(r"#\s*User\s*[:：]\s*(?P<says>.*\S)\s*\Z")
_FENCE = re.compile(r"\A```\w*\n(?P<code>.*?)\n?```\s*\Z", re.DOTALL)


def example_code(section: str) -> str:
    """The code of an ``Example:`` section without its fence."""
    text = textwrap.dedent(section.expandtabs()).strip("\n")
    fenced = _FENCE.match(text.strip())
    return fenced["code"] if fenced else text.rstrip()


def first_examples(code: str, most: int) -> str:
    """The section's code without the worked examples after the first ``most``."""
    lines = code.splitlines()
    begins = [number for number, line in enumerate(lines) if _SAYS.match(line.strip())]
    return "\n".join(lines[: begins[most]]).rstrip() if len(begins) > most else code


def worked_examples(code: str) -> tuple[Example, ...]:
    """The worked examples in a section's code. One whose code is empty or does not parse is left
    out."""
    found: list[Example] = []
    says, lines = "", list[str]()
    for line in [*code.splitlines(), "# User: end"]:
        if match := _SAYS.match(line.strip()):
            answer = textwrap.dedent("\n".join(lines)).strip()
            if says and answer and _parses(answer):
                found.append(Example(says=says, code=answer, language=script_language(says)))
            says, lines = match["says"], []
        else:
            lines.append(line)
    return tuple(found)


def script_language(text: str) -> str:
    """``ja`` for a text with kana, ``zh`` for one with other Chinese characters, else ``en``."""
    if any("\u3041" <= character <= "\u30ff" for character in text):
        return "ja"
    if any("\u4e00" <= character <= "\u9fff" for character in text):
        return "zh"
    return "en"


def _parses(code: str) -> bool:
    try:
        ast.parse(code)
    except (SyntaxError, ValueError):
        return False
    return True
