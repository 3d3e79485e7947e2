"""Checks for things that the project must have only once, such as a client for HTTP.

Each check lists the files that use or make a second one.
"""

import ast
import re
from collections.abc import Iterator

from tests.house.packages import imported
from tests.house.tree import GUEST, Module, Tree

HTTP_CLIENT = "httpx"
"""The HTTP client that our code uses."""
OTHER_HTTP_CLIENTS = frozenset(
    {"aiohttp", "curl_cffi", "httpcore", "httpcore2", "httplib2", "httpx2", "openai", "pycurl"}
    | {"requests", "urllib3"}
)
"""Clients that a library may install. `http.client` and `urllib.request` are checked as well."""
_OF_PYTHON = ("http.client", "urllib.request")


def other_http_clients(tree: Tree) -> dict[str, str]:
    """Files that import an HTTP client other than ours, and where."""
    found: dict[str, str] = {}
    for module, where in imported(tree, with_python=True):
        top = module.partition(".")[0]
        if top in OTHER_HTTP_CLIENTS or f"{module}.".startswith(tuple(f"{m}." for m in _OF_PYTHON)):
            path = where.partition(":")[0]
            found.setdefault(path, f"{where}: imports {module}; our HTTP client is {HTTP_CLIENT}")
    return found


_WAITERS = frozenset(
    {"CapacityLimiter", "Lock", "MemoryObjectSendStream", "Queue", "Semaphore", "deque"}
)
"""Types that a dictionary of locks, queues or limiters has as its values."""
KEYED_QUEUES = "nekro_core/system/keyed_queue.py"


def other_keyed_queues(tree: Tree) -> dict[str, str]:
    """Files other than `KEYED_QUEUES` with a dictionary of locks or queues by key, and where."""
    return {
        module.path: f"{module.path}:{line}: one lock or queue for each key; "
        f"use a class of {KEYED_QUEUES}"
        for module in tree
        if module.path != KEYED_QUEUES and not module.path.startswith(GUEST)
        for line in _keyed_waiters(module)
    }


def _keyed_waiters(module: Module) -> Iterator[int]:
    own = {
        each.name
        for each in module.nodes
        if isinstance(each, ast.ClassDef) and _names(each) & _WAITERS
    }
    for node in module.nodes:
        annotation = node.annotation if isinstance(node, ast.AnnAssign) else None
        if isinstance(annotation, ast.Subscript) and "ict" in ast.unparse(annotation.value):
            kinds = annotation.slice
            value = kinds.elts[-1] if isinstance(kinds, ast.Tuple) else kinds
            if _names(value) & (_WAITERS | own):
                yield node.lineno
        elif (
            isinstance(node, ast.Call)
            and getattr(node.func, "attr", "") == "setdefault"
            and _names(node.args[-1]) & (_WAITERS | own)
        ):
            yield node.lineno


RATE_WINDOW = "nekro_core/system/rate_window.py"


def other_rate_windows(tree: Tree) -> dict[str, str]:
    """Files other than `RATE_WINDOW` with a loop that drops old times from the front of a list."""
    return {
        module.path: f"{module.path}:{node.lineno}: counts what happened in a while; "
        f"use the class of {RATE_WINDOW}"
        for module in tree
        if module.path != RATE_WINDOW
        for node in module.nodes
        if isinstance(node, ast.While) and _forgets_by_time(node)
    }


def _forgets_by_time(loop: ast.While) -> bool:
    pops = any(
        isinstance(each, ast.Call) and ast.unparse(each).endswith((".popleft()", ".pop(0)"))
        for statement in loop.body
        for each in ast.walk(statement)
    )
    by_time = any(
        isinstance(each, ast.Compare)
        and "[0]" in ast.unparse(each)
        and any(isinstance(part, ast.Sub | ast.Add) for part in ast.walk(each))
        for each in ast.walk(loop.test)
    )
    return pops and by_time


CONFINEMENT = "nekro_core/system/confinement/"
_CONFINING = frozenset({"prctl", "setrlimit", "syscall", "unshare"})


def other_confinement(tree: Tree) -> dict[str, str]:
    """Files outside `CONFINEMENT` and the guest code in which a process gives up its own rights."""
    return {
        module.path: f"{module.path}:{node.lineno}: calls {node.func.attr}; "
        f"what confines a process is in {CONFINEMENT}"
        for module in tree
        if not module.path.startswith((CONFINEMENT, GUEST))
        for node in module.nodes
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in _CONFINING
    }


STORE = "nekro_core/store/"
_STATEMENT = re.compile(
    r"\s*(SELECT\s.+\sFROM|INSERT\s+INTO|UPDATE\s+\w+\s+SET|DELETE\s+FROM|PRAGMA|CREATE\s+TABLE)\b",
    re.DOTALL,
)


def sql_elsewhere(tree: Tree) -> dict[str, str]:
    """Files outside `STORE` with an SQL statement, and where."""
    return {
        module.path: f"{module.path}:{node.lineno}: SQL is written in {STORE}"
        for module in tree
        if not module.path.startswith(STORE)
        for node in module.nodes
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and _STATEMENT.match(node.value)
    }


_TO_PEOPLE = frozenset({"HTMLResponse", "PlainTextResponse", "Text"})
"""Functions whose arguments people read. The methods of `CmdCtl` are such functions, too."""
_CJK = re.compile("[\u3041-\u30ff\u4e00-\u9fff]{2}")
_SENTENCE = re.compile(r"[^\W\d_].* .*[^\W\d_]|[^\W\d_]{2}.* ", re.DOTALL)


def sentences_in_code(tree: Tree) -> dict[str, str]:
    """Files of the core and of adapters that contain sentences for people.

    Such sentences belong into the catalogue. The check finds every text in Chinese or Japanese, and
    an English text that is an argument of a function in `_TO_PEOPLE`. It skips plugins, which use
    `i18n_text`, and `nekro_core.testing`, whose texts are read by authors of tests.
    """
    found: dict[str, str] = {}
    for module in tree:
        if module.path.startswith(("plugins/", "nekro_core/testing/", GUEST)):
            continue
        for text, line in (*_chinese_or_japanese(module), *_said(module)):
            found.setdefault(
                module.path, f"{module.path}:{line}: {text[:40]!r} belongs into the catalogue"
            )
    return found


def _chinese_or_japanese(module: Module) -> Iterator[tuple[str, int]]:
    comments = {id(each.value) for each in module.nodes if isinstance(each, ast.Expr)}
    for node in module.nodes:
        if isinstance(node, ast.Constant) and id(node) not in comments:
            text = node.value
            if isinstance(text, str) and _CJK.search(text):
                yield text, node.lineno


def _said(module: Module) -> Iterator[tuple[str, int]]:
    for node in module.nodes:
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        if name in _TO_PEOPLE or name.startswith("CmdCtl."):
            for each in (part for given in node.args for part in ast.walk(given)):
                text = each.value if isinstance(each, ast.Constant) else None
                if isinstance(text, str) and _SENTENCE.search(text):
                    yield text, node.lineno


def _names(node: ast.AST) -> set[str]:
    return {
        getattr(each, "attr", getattr(each, "id", ""))
        for each in ast.walk(node)
        if isinstance(each, ast.Name | ast.Attribute)
    }
