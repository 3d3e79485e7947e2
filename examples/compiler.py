"""Compile a module: one box gets the source, runs several steps, and returns the results."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nekro_core.api.reactive import AsyncCell, Computed, ExecResult, Readable, computed, exec_

_COMPILE = """
import py_compile
py_compile.compile("src/module.py", "dist/module.pyc", doraise=True)
"""

_NAMES = """
import json, pathlib, tokenize
with open("src/module.py", "rb") as source:
    names = [token.string for token in tokenize.tokenize(source.readline) if token.type == 1]
pathlib.Path("dist/names.json").write_text(json.dumps(sorted(set(names))))
"""


@dataclass(frozen=True)
class Compiler:
    """The build and its results."""

    build: AsyncCell[ExecResult]
    bytecode: Computed[bytes]
    names: Computed[list[str]]
    complaint: Computed[str]


def compiler(source: Readable[str]) -> Compiler:
    """Compile the source, and compile it again whenever it changes."""
    build = exec_(
        [
            "mkdir -p dist",
            ["python3", "compile.py"],
            ["python3", "names.py"],
        ],
        files={
            "src/module.py": source,
            "compile.py": _COMPILE,
            "names.py": _NAMES,
            "dist/module.pyc": "bytes",
            "dist/names.json": "json",
        },
    )

    def made(path: str, nothing: Any) -> Callable[[], Any]:
        return lambda: build.result.files.get(path, nothing) if build.result else nothing

    return Compiler(
        build=build,
        bytecode=computed(made("dist/module.pyc", b"")),
        names=computed(made("dist/names.json", [])),
        complaint=computed(lambda: build.result.stderr if build.result else ""),
    )
