"""A reply is cut into prose and statements while the model writes it."""

import ast
import io
import os
import random
import sys
import sysconfig
import time
import tokenize
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nekro_core.agent.turn.code_statements import CodeStatement
from nekro_core.agent.turn.code_stream import CodeStream, Prose, StreamEvent

STDLIB = Path(sysconfig.get_paths()["stdlib"])
CONTINUING = ("else", "elif", "except", "finally")


def modules() -> Iterator[Path]:
    for name in sorted(sys.stdlib_module_names):
        if (STDLIB / f"{name}.py").is_file():
            yield STDLIB / f"{name}.py"
        for path in sorted((STDLIB / name).rglob("*.py")):
            if not {"test", "tests", "idle_test"} & set(path.parts):
                yield path


def chunks(text: str, seed: object) -> Iterator[str]:
    dice = random.Random(str(seed))
    position = 0
    while position < len(text):
        size = dice.choice((1, 2, 7, 40, 300))
        yield text[position : position + size]
        position += size


def events(reply: str, *, bare_code: bool = False, seed: object = 0) -> list[StreamEvent]:
    stream = CodeStream(bare_code=bare_code)
    found = [event for chunk in chunks(reply, seed) for event in stream.feed(chunk)]
    return found + stream.finish()


def code(reply: str) -> list[tuple[int, str]]:
    return [(e.line, e.source) for e in events(reply) if isinstance(e, CodeStatement)]


def prose(reply: str) -> str:
    return "".join(e.text for e in events(reply) if isinstance(e, Prose))


def places(tree: ast.Module, first_line: int = 1) -> list[tuple[str, int, int, int, int]]:
    return [
        (
            type(node).__name__,
            node.lineno + first_line - 1,
            node.col_offset,
            node.end_lineno + first_line - 1,
            node.end_col_offset,
        )
        for node in tree.body
    ]


def line_ranges(tree: ast.Module) -> list[tuple[int, int]]:
    """First and last line of each top-level statement. Statements on the same line count as one."""
    found: list[tuple[int, int]] = []
    for node in tree.body:
        decorators = getattr(node, "decorator_list", [])
        first, last = min([node.lineno, *(each.lineno for each in decorators)]), node.end_lineno
        if found and first <= found[-1][1]:
            found[-1] = (found[-1][0], last)
        else:
            found.append((first, last))
    return found


def parse(source: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(source)


# --- against the standard library ----------------------------------------------------------------


def test_modules_of_the_standard_library_in_random_chunks() -> None:
    """A quarter of the modules is drawn, the same in each run, so that the test fails only because
    of a change. ``STDLIB_SEED=2`` draws others, and ``make stdlib`` tests all of them."""
    found = list(modules())
    assert len(found) > 500
    seed = os.environ.get("STDLIB_SEED", "1")
    dice = random.Random(seed)
    for path in found if seed == "all" else dice.sample(found, len(found) // 4):
        with tokenize.open(path) as file:
            source = file.read()
        try:
            whole = parse(source)
        except SyntaxError:
            continue  # lib2to3 and others have files with wrong syntax, for their own tests
        assert cut(source, f"{seed} {path.name}") == line_ranges(whole), path


def cut(source: str, seed: str) -> list[tuple[int, int]]:
    """First and last line of each statement that the stream yields. Checks the text of the
    statement too."""
    lines = source.split("\n")
    found = []
    for event in events(source, bare_code=True, seed=seed):
        assert isinstance(event, CodeStatement)
        last = event.line + event.source.count("\n") - 1
        assert event.source == "".join(f"{line}\n" for line in lines[event.line - 1 : last])
        found.append((event.line, last))
    return found


def decided_at(source: str) -> list[int]:
    """For each statement, how many characters must have been read before its end is certain.
    CPython's tokens decide. The end of a simple statement is certain at its NEWLINE. The end of a
    compound statement is certain at the next token in column 0, as soon as the first characters of
    this token cannot begin one of the four keywords in `CONTINUING`.
    """
    starts = [0]
    for line in source.split("\n"):
        starts.append(starts[-1] + len(line) + 1)
    ignored = (tokenize.COMMENT, tokenize.NL, tokenize.INDENT, tokenize.DEDENT)
    tokens = [
        token
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type not in (*ignored, tokenize.ENDMARKER)
    ]
    lines: list[list[tokenize.TokenInfo]] = [[]]
    for token in tokens:
        lines[-1].append(token)
        if token.type == tokenize.NEWLINE:
            lines.append([])
    lines.pop()
    ends: list[int] = []
    compound = decorated = False
    for line in lines:
        first, newline = line[0], line[-1]
        if compound and first.start[1] == 0 and not decorated and first.string not in CONTINUING:
            text = source[starts[first.start[0] - 1] :]
            whole = next(
                size
                for size in range(1, len(text) + 1)
                if not any(
                    word.startswith(text[:size]) for word in CONTINUING if len(text[:size]) > 0
                )
            )
            ends.append(starts[first.start[0] - 1] + whole)
            compound = False
        if not compound:
            decorated = first.string == "@"
            words = ("if", "for", "while", "try", "with", "def", "class", "async", "@")
            compound = first.string in words or (first.string == "match" and line[-2].string == ":")
            if not compound:
                ends.append(starts[newline.start[0] - 1] + newline.end[1])
        elif decorated and first.string != "@":
            decorated = False
    if compound:
        # The end of the last statement is certain only at the end of the reply.
        ends.append(len(source) + 1)
    return ends


@pytest.mark.parametrize(
    "name",
    ["argparse", "ast", "dataclasses", "enum", "inspect", "textwrap", "typing", "asyncio/tasks"],
)
def test_each_statement_is_yielded_at_the_character_that_makes_its_end_certain(name: str) -> None:
    source = (STDLIB / f"{name}.py").read_text()
    stream = CodeStream(bare_code=True)
    read: list[int] = []
    for count, character in enumerate(source, start=1):
        read += [count for _ in stream.feed(character)]
    read += [len(source) + 1 for _ in stream.finish()]
    assert read == decided_at(source)


def test_the_work_is_linear_in_the_length_of_the_reply() -> None:
    body = "".join(f"    value_{number} = call({number}, 'text')\n" for number in range(15_999))
    reply = "def everything():\n" + body
    began = time.process_time()
    (statement,) = events(reply, bare_code=True)
    assert isinstance(statement, CodeStatement)
    assert statement.source == reply
    # Measured at 0.25 s. If the stream parsed all text again after each line, it would take 18 s.
    assert time.process_time() - began < 5


# --- what is a statement -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "statements"),
    [
        ("a = 1; b = 2\nc = 3\n", ["a = 1; b = 2\n", "c = 3\n"]),
        ("if x:\n    a\n\n# why\nelse:\n    b\nc\n", None),
        ("try:\n    a\nexcept E:\n    b\nelse:\n    c\nfinally:\n    d\nelsewhere = 1\n", None),
        ("if x: a\nelif y: b\nelse_ = 1\n", ["if x: a\nelif y: b\n", "else_ = 1\n"]),
        (
            "match = 1\nmatch(x)\nmatch x:\n    case 1:\n        a\n    case _:\n        b\nc\n",
            None,
        ),
        ("match[x:] \nmatch: int\nmatch (\n  x\n): # why\n  case 1: a\n", None),
        ("@a\n\n# why\n@b(\n)\nasync def f():\n    pass\n@c\nclass D: pass\nx\n", None),
        ("x = (1,\n\n2)\ny = '''\n```\n'''\n", None),
        ("x = 'a\\\nb'\ny = 1 + \\\n  2\n", None),
        ("if x:\n    pass\n\\\nelse:\n    pass\ny = 1\n", None),
        ("if x:\n    pass\n\\\ny = 1\n", None),
        ("if x:\n  pass\n  \\\nif y:\n    pass\n", None),
        ("\fx = 1\n  \fy = 2\nif z:\n\ta\n\f# c\n\tb\n\fw\n", None),
        ("f'{x!r:>{width}}' f\"{d['a']}\" rf'\\{x}' f'{{' '}'\ny\n", None),
        ("f'''{\nx\n:{y}}\n```\n'''\nz\n", None),
        ("x = {'a': lambda: [1][0:1]}\nif (y := 1): z\n", None),
        ("print(1if x else'y')\nb'\\''; r'\\'' \nu\"\"\"\"a\"\"\"\n", None),
        ("x = 'é'; 变量 = '```'\nwhile 变量:\n  break\nelse:\n  pass\n变量\n", None),
        ("# only\n\n  # comments\n", []),
        ("", []),
    ],
)
def test_statements_are_cut_where_python_cuts_them(
    source: str, statements: list[str] | None
) -> None:
    found = [e for e in events(source, bare_code=True) if isinstance(e, CodeStatement)]
    if statements is not None:
        assert [statement.source for statement in found] == statements
    together = [place for s in found for place in places(parse(s.source), s.line)]
    assert together == places(parse(source))


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
def test_line_endings_and_byte_order_marks_are_normalized(ending: str) -> None:
    reply = "\ufeff```python\n\ufeffx = 1\nif x:\n    y\nz\n```\n".replace("\n", ending)
    assert code(reply) == [(2, "x = 1\n"), (3, "if x:\n    y\n"), (5, "z\n")]


def test_quotes_inside_an_f_string_field_are_read_as_in_python_3_12() -> None:
    line = 'print(f"{data["key"]} and {"```"}")\n'
    assert code(f"```\n{line}x = 1\n```\n") == [(2, line), (3, "x = 1\n")]


@pytest.mark.parametrize(
    "wrong",
    ["print('never closed)", "print(f'{x)", "print(f'{x')", "x = )", "y = (1]", "f'}'", 'f"{x:a"'],
)
def test_a_line_that_can_never_be_python_is_yielded_at_its_end(wrong: str) -> None:
    stream = CodeStream()
    assert stream.feed("```\na = 1\n" + wrong) == [CodeStatement("a = 1\n", 2)]
    assert stream.feed("\n") == [CodeStatement(wrong + "\n", 3)]
    assert stream.feed("b = 2\n```\nprose") == [CodeStatement("b = 2\n", 4)]
    assert stream.finish() == [Prose("prose", 6)]


# --- what is code and what is prose --------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "statements", "said"),
    [
        ("Hello!", [], "Hello!"),
        ("", [], ""),
        ("```python\nx\n```", [(2, "x\n")], ""),
        ("```\nx\n```", [(2, "x\n")], ""),
        ("```PY\nx\n```", [(2, "x\n")], ""),
        ("``` python3 title=a\nx\n```", [(2, "x\n")], ""),
        ("````python\nx\n````\n", [(2, "x\n")], ""),
        ("Here:\n```py\nx\n```\nDone.", [(3, "x\n")], "Here:\nDone."),
        ("```json\n{}\n```\n", [], "```json\n{}\n```\n"),
        ("```md\n```python\nx\n```\n", [], "```md\n```python\nx\n```\n"),
        ("```sh\nls\n```\n```py\nx\n```", [(5, "x\n")], "```sh\nls\n```\n"),
        ("```\nx\n```\nand\n```\ny\n```", [(2, "x\n"), (6, "y\n")], "and\n"),
        ("```\nx = '''\n```\n'''\n```\nend", [(2, "x = '''\n```\n'''\n")], "end"),
        ("```\nif x:\n    y\n```\n```\nelse\n```\n", [(2, "if x:\n    y\n"), (6, "else\n")], ""),
        ("```\nprint(1", [(2, "print(1\n")], ""),
        ("```\nx = '''open\n```\nmore", [(2, "x = '''open\n```\nmore\n")], ""),
        ("```\nprint((1\n```\nso", [(2, "print((1\n")], "so"),
        ("```\nx = 1```\nso", [(2, "x = 1\n")], "so"),
        ("```\nx = 1 # ```\ny\n```", [(2, "x = 1 # ```\n"), (3, "y\n")], ""),
        ("```\nx\n``` and so on\n", [(2, "x\n")], "and so on\n"),
        ("```python\nx\n```python\ny\n```\n", [(2, "x\n"), (4, "y\n")], ""),
        ("1. so\n   ```python\n   if x:\n       y\n   ```\n", [(3, "if x:\n    y\n")], "1. so\n"),
        ("- ```python\n  x\n  y\n  ```\n", [(2, "x\n"), (3, "y\n")], "- \n"),
        ("Sure:```python\nx\n```", [(2, "x\n")], "Sure:\n"),
        ("use ```x``` here\n", [], "use ```x``` here\n"),
        ("```\n```\n", [], ""),
        ("~~~python\nx = 1\n~~~\nend", [(2, "x = 1\n")], "end"),
        ('~~~py\nx = """\n~~~\n"""\n~~~~\n', [(2, 'x = """\n~~~\n"""\n')], ""),
        ("~~~json\n{}\n~~~\nend", [], "~~~json\n{}\n~~~\nend"),
        ("one\n~~~\ntwo\n", [], "one\n~~~\ntwo\n"),
        ("~~~python\nx\n", [(2, "x\n")], ""),
        ("<code>\nif x:\n    y\n</code>\nend", [(2, "if x:\n    y\n")], "end"),
        ("<code>x = 1</code>\nend", [(1, "x = 1\n")], "end"),
        (
            "<python lang=\"3\">\ns = '''\n</python>\n'''\n</python>",
            [(2, "s = '''\n</python>\n'''\n")],
            "",
        ),
        ("use <code>x</code> here\n", [], "use <code>x</code> here\n"),
        ("```tool_code\nx\n```", [(2, "x\n")], ""),
    ],
)
def test_fenced_code_is_separated_from_prose(
    reply: str, statements: list[tuple[int, str]], said: str
) -> None:
    assert code(reply) == statements
    assert prose(reply).strip("\n") == said.strip("\n")


def test_a_bare_code_reply_may_also_have_a_fence() -> None:
    assert events("x = 1\ny", bare_code=True) == [
        CodeStatement("x = 1\n", 1),
        CodeStatement("y\n", 2),
    ]
    assert events("```python\nx\n```\nso", bare_code=True) == [
        CodeStatement("x\n", 2),
        Prose("so", 4),
    ]


def test_a_lone_surrogate_does_not_reach_the_box() -> None:
    assert code("```\nx = '\ud800'\n```") == [(2, "x = '\ufffd'\n")]


@given(st.text(alphabet="ax1 \n\r\t\f\\'\"`{}()[]:;#@=!fbr\ufeff", max_size=60), st.integers())
def test_chunk_boundaries_make_no_difference(reply: str, seed: int) -> None:
    stream = CodeStream()
    assert events(reply, seed=seed) == [*stream.feed(reply), *stream.finish()]


@given(st.text(alphabet="ax1 \n\t\\'\"`{}()[]:;#@=fbr", max_size=60))
def test_no_letter_of_a_reply_is_lost(reply: str) -> None:
    kept = "".join(e.text if isinstance(e, Prose) else e.source for e in events(reply))
    letters = [c for c in reply if c.isalnum()]
    dropped = len(letters) - len([c for c in kept if c.isalnum()])
    if "`" not in reply and "#" not in reply:
        assert dropped == 0
