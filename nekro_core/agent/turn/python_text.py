"""Analyses a model's Python without running it."""

import ast
import warnings

from nekro_core.tools.names import ToolSet


def try_parse(source: str) -> ast.Module | None:
    """Parse source. None if it is no valid Python."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "\\d" in somebody else's string is no news to our log
        try:
            return ast.parse(source)
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            return None


def count_statements(source: str) -> int:
    """Count statements as the code in the box does: ``a; b`` is two, invalid source is one."""
    tree = try_parse(source)
    return 1 if tree is None else len(tree.body)


def is_no_op(text: str) -> bool:
    """Whether a reply, or its code, does nothing on purpose: it has only ``pass`` or comments. An
    empty block is an accident and does not count."""
    lines = (line.strip() for line in text.splitlines())
    code = "\n".join(line for line in lines if not line.startswith(("```", "~~~")))
    tree = try_parse(code) if code.strip() else None
    return tree is not None and all(isinstance(node, ast.Pass) for node in tree.body)


def is_call(text: str, tools: ToolSet) -> bool:
    """Whether a whole reply is Python that calls a tool at its top level."""
    tree = try_parse(text)
    if tree is None:
        return False
    calls = [node.value for node in tree.body if isinstance(node, ast.Expr)]
    calls = [node.value if isinstance(node, ast.Await) else node for node in calls]
    return any(
        isinstance(node, ast.Call) and tools.resolve(ast.unparse(node.func)) is not None
        for node in calls
    )
