"""Reads worked examples from a docstring's ``Example:`` section.

A worked example begins with a line ``# User: what a person says``. The code that answers follows,
up to the next such line. Code before the first such line is an example for readers only.
"""

import ast
import re
import textwrap
from pathlib import Path

from nekro_core.tools.tool import Example, Tool

_SAYS = re.compile(r"#\s*User\s*[:：]\s*(?P<says>.*\S)\s*\Z")
_FENCE = re.compile(r"\A```\w*\n(?P<code>.*?)\n?```\s*\Z", re.DOTALL)


def example_code(section: str) -> str:
    """Get the code of an ``Example:`` section without its fence (the lines of backquotes)."""
    text = textwrap.dedent(section.expandtabs()).strip("\n")
    fenced = _FENCE.match(text.strip())
    return fenced["code"] if fenced else text.rstrip()


def read_examples(source: str | Path) -> str:
    """Return ``source`` if it is a text, else the text of the file, or of the ``.txt`` files in the
    folder. Raises `ValueError` if it cannot be read."""
    if isinstance(source, str):
        return source
    try:
        files = sorted(source.glob("*.txt")) if source.is_dir() else [source]
        texts = [file.read_text("utf-8") for file in files]
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(
            f"examples={str(source)!r} cannot be read as UTF-8 text: {error}"
        ) from error
    if not texts:
        raise ValueError(f"examples={str(source)!r} is a folder without .txt files")
    return "\n\n".join(texts)


def first_examples(code: str, most: int) -> str:
    """Get the section's code with only the first ``most`` worked examples."""
    lines = code.splitlines()
    begins = [number for number, line in enumerate(lines) if _SAYS.match(line.strip())]
    return "\n".join(lines[: begins[most]]).rstrip() if len(begins) > most else code


def worked_examples(code: str) -> tuple[Example, ...]:
    """Get the worked examples in a section's code. An example with empty or invalid code is left
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


def all_examples(tool: Tool) -> tuple[Example, ...]:
    """Get the worked examples of the docstring, then those that only small models see."""
    return tool.examples + worked_examples(example_code(tool.more_examples))


def script_language(text: str) -> str:
    """Guess the language of a text from its characters. Return ``ja`` if it has kana, ``zh`` if it
    has Chinese characters and no kana, and otherwise ``en``."""
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
