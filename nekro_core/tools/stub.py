"""Writes a tool as a Python stub: the signature, types and docstring that the model reads."""

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum

from nekro_core.tools.examples import first_examples
from nekro_core.tools.tool import Parameter, Tool

_INDENT = "    "
_EXAMPLES = 2
"""Maximum number of worked examples in a stub's docstring. A small model gets the other examples
separately."""
_CHOICES = re.compile(r"Literal\[('[^'\\]*'(?:, '[^'\\]*')*)\]")
_SHOWN_BY_DEFAULT = (str, int, float, bool)
"""Types that are left out if a default shows them."""


def signature_text(tool: Tool, name: str = "") -> str:
    """Write the signature with the name: ``name(text: str, speed: float = 1.0) -> str``."""
    shown = name or (tool.name if tool.name.isidentifier() else tool.python_name)
    return f"{shown}{parameters_text(tool)}"


def parameters_text(tool: Tool) -> str:
    """Write the signature without the name: ``(text: str, speed: float = 1.0) -> str``."""
    returns = f" -> {tool.returns_type}" if tool.returns_type else ""
    return f"({', '.join(_parameters(tool.parameters))}){returns}"


def stub(tool: Tool, name: str = "") -> str:
    """Write the tool as a Python function whose body is only a docstring.

    ``name`` is the name in the model's code; empty for the tool's own name. Of a dotted name, only
    the last part is used. The text is always valid Python.
    """
    signature = signature_text(tool, name.rpartition(".")[2])
    return f"def {signature}:\n{_INDENT}{_quoted(doc(tool))}"


def outline(tool: Tool, name: str = "") -> str:
    """Write the tool as a signature and a few indented lines, for a large model: what it does, its
    arguments, result and errors. It has no worked examples and no headings. These were two fifths
    of the stubs of the built-in tools. The outline leaves out types that a default shows, and
    results that nobody needs to read.

    ``name`` is the name in the model's code; empty for the tool's own name.
    """
    lines = [tool.summary or tool.description or tool.name, *tool.details.splitlines()]
    for each in tool.parameters:
        if each.description:
            lines += _described(each).splitlines()
    reads_result = not (tool.confirms or tool.kind.gives_text)
    if tool.returns and not tool.confirms:
        lines += f"Returns: {tool.returns}".splitlines()
    lines += (f"Raises: {each}" for each in tool.raises)
    body = _indented("\n".join(line for line in lines if line.strip()))
    shown = name or (tool.name if tool.name.isidentifier() else tool.python_name)
    # Leave out the type of the result if there is a line "Returns".
    typed = tool.returns_type and reads_result and not tool.returns
    returns = f" -> {tool.returns_type}" if typed else ""
    return f"{shown}({', '.join(_parameters(tool.parameters, brief=True))}){returns}\n{body}"


def doc(tool: Tool) -> str:
    """Write the docstring: summary, details, arguments, result, errors and the first worked
    examples, in Google style."""
    sections = [tool.summary or tool.description or tool.name, tool.details]
    described = [each for each in tool.parameters if each.description]
    sections.append(_section("Args", (_described(each) for each in described)))
    sections.append(_section("Returns", (tool.returns,) if tool.returns else ()))
    sections.append(_section("Raises", tool.raises))
    example = first_examples(tool.example, _EXAMPLES)
    sections.append(_section("Example", (example,) if example else ()))
    return "\n\n".join(filter(None, sections))


def _parameters(parameters: Sequence[Parameter], *, brief: bool = False) -> Iterator[str]:
    starred = False
    for each in parameters:
        if each.keyword_only and not each.variadic and not starred:
            starred = True
            yield "*"
        starred = starred or (each.variadic and not each.keyword_only)
        yield _parameter(each, brief=brief)


def _parameter(parameter: Parameter, *, brief: bool) -> str:
    stars = ("**" if parameter.keyword_only else "*") if parameter.variadic else ""
    shown = _brief_type(parameter) if brief else parameter.type_text
    kind = f": {shown}" if shown else ""
    text = f"{stars}{parameter.name}{kind}"
    if parameter.required or parameter.variadic:
        return text
    equals = " = " if kind else "="
    return f"{text}{equals}{default_text(parameter.default)}"


def _brief_type(parameter: Parameter) -> str:
    """Return the type, with choices as ``"a"|"b"``; an empty text if the default shows the type."""
    default = parameter.default
    if type(default) is parameter.annotation and parameter.annotation in _SHOWN_BY_DEFAULT:
        return ""
    text = parameter.type_text
    if default is None:
        text = text.removesuffix(" | None")
    return _CHOICES.sub(_choices, text)


def _choices(found: re.Match[str]) -> str:
    return found[1].replace("', '", '"|"').replace("'", '"')


def default_text(value: object) -> str:
    """Write a default as Python source; ``...`` if the value cannot be written as a literal."""
    plain = value.value if isinstance(value, Enum) else value
    text = repr(plain)
    try:
        return text if ast.literal_eval(text) == plain else "..."
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return "..."


def _described(parameter: Parameter) -> str:
    first, *rest = parameter.description.splitlines()
    return "\n".join((f"{parameter.name}: {first}", *(f"{_INDENT}{line}" for line in rest)))


def _section(title: str, lines: Iterable[str]) -> str:
    body = "\n".join(line for entry in lines for line in entry.splitlines())
    return f"{title}:\n{_indented(body)}" if body else ""


def _indented(text: str, indent: str = _INDENT) -> str:
    return "\n".join(f"{indent}{line}".rstrip() for line in text.splitlines())


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    if escaped.endswith('"'):
        escaped = f'{escaped[:-1]}\\"'
    first, *rest = escaped.splitlines() or [""]
    if not rest:
        return f'"""{first}"""'
    return f'"""{first}\n{_indented(chr(10).join(rest))}\n{_INDENT}"""'
