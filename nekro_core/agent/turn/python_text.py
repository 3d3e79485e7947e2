"""Analyses a model's Python without running it."""

import ast
import warnings

from nekro_core.tools.names import ToolSet


def try_parse(source: str) -> ast.Module | None:
    """Parse source. Returns None if it is not valid Python."""
    with warnings.catch_warnings():
        # Keep warnings about the model's strings, such as "\\d", out of the log.
        warnings.simplefilter("ignore")
        try:
            return ast.parse(source)
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            return None


def count_statements(source: str) -> int:
    """Count statements as the code in the box counts them: ``a; b`` is two statements, and invalid
    source is one."""
    tree = try_parse(source)
    return 1 if tree is None else len(tree.body)


def is_no_op(text: str) -> bool:
    """Return True if a reply, or its code, has only ``pass`` or comments: the model intends to do
    nothing. An empty block gives False, because models write it by accident."""
    lines = (line.strip() for line in text.splitlines())
    code = "\n".join(line for line in lines if not line.startswith(("```", "~~~")))
    tree = try_parse(code) if code.strip() else None
    return tree is not None and all(isinstance(node, ast.Pass) for node in tree.body)


def is_call(text: str, tools: ToolSet) -> bool:
    """Return whether a whole reply is valid Python that calls a tool at its top level."""
    tree = try_parse(text)
    if tree is None:
        return False
    calls = [node.value for node in tree.body if isinstance(node, ast.Expr)]
    calls = [node.value if isinstance(node, ast.Await) else node for node in calls]
    return any(
        isinstance(node, ast.Call) and tools.resolve(ast.unparse(node.func)) is not None
        for node in calls
    )
