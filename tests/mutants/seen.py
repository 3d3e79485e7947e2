"""A pytest plugin that records which tests reach which lines of the mutated modules.

A test can notice a mutant only if it reaches the mutant's line, so only such tests have to run.
`marked` makes a copy of a module with a call of `note` before each statement of a function. If a
test starts another program, the program lacks this plugin, and the call does nothing there.

``MUTANTS_SEEN``: a file to write to, ``{test: {"seconds": s, "lines": {module: [line]}}}``.
``MUTANTS_TESTS``: a file with names of tests; only these run, in this order.
"""

import ast
import json
import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

_CALL = "_a_line_was_seen"


def marked(source: str, module: str) -> str:
    """The source with a call of `note` before each statement of its functions."""
    tree = ast.parse(source)
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for holder in ast.walk(function):
                for name in ("body", "orelse", "finalbody"):
                    body = getattr(holder, name, None)
                    if isinstance(body, list) and not isinstance(holder, ast.ClassDef):
                        setattr(holder, name, _with_calls(body, module))
    ahead = (
        "import sys\n"
        f"{_CALL} = getattr(sys.modules.get('tests.mutants.seen'), 'note', lambda *_: None)\n"
    )
    at = next(
        index
        for index, each in enumerate(tree.body)
        if not isinstance(each, ast.Expr) and not _is_future(each)
    )
    tree.body[at:at] = ast.parse(ahead).body
    return ast.unparse(ast.fix_missing_locations(tree))


def _is_future(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"


def _with_calls(body: list[ast.stmt], module: str) -> list[ast.stmt]:
    if any(isinstance(each, ast.Expr) and _is_call(each) for each in body):
        return body  # the calls were added with the enclosing function
    result: list[ast.stmt] = []
    for index, each in enumerate(body):
        docstring = (
            index == 0 and isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant)
        )
        if not docstring and not isinstance(each, ast.Nonlocal | ast.Global):
            result += ast.parse(f"{_CALL}({module!r}, {each.lineno})").body
        result.append(each)
    return result


def _is_call(each: ast.Expr) -> bool:
    call = each.value
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == _CALL


_seen: defaultdict[str, set[int]] = defaultdict(set)
_tests: dict[str, dict[str, object]] = {}


def note(module: str, line: int) -> None:
    """Record that a line of a marked module was reached."""
    _seen[module].add(line)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Record the lines that a test reaches, including its fixtures."""
    _seen.clear()
    result = yield
    row = _tests.setdefault(item.nodeid, {"seconds": 0.0, "lines": {}})
    row["lines"] = {module: sorted(lines) for module, lines in _seen.items()}
    return result


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add up the time that a test takes."""
    row = _tests.setdefault(report.nodeid, {"seconds": 0.0, "lines": {}})
    row["seconds"] = float(str(row["seconds"])) + report.duration


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep only the tests that `MUTANTS_TESTS` lists, in that order."""
    if not (path := os.environ.get("MUTANTS_TESTS")):
        return
    wanted = {name: place for place, name in enumerate(json.loads(Path(path).read_text()))}
    gone = [item for item in items if item.nodeid not in wanted]
    items[:] = sorted(
        (item for item in items if item.nodeid in wanted), key=lambda item: wanted[item.nodeid]
    )
    config.hook.pytest_deselected(items=gone)


def pytest_sessionfinish() -> None:
    """Write the record to the file that `MUTANTS_SEEN` names."""
    if path := os.environ.get("MUTANTS_SEEN"):
        Path(path).write_text(json.dumps(_tests))
