"""Re-exports reactive values, which are recomputed when their inputs change. Guide:
`docs/reactive.md`."""

from nekro_core.reactive.cells import AsyncCell, CellState, load
from nekro_core.reactive.errors import (
    BadInput,
    Circle,
    CommandTimeout,
    FetchFailed,
    LoopTooLong,
    NoScope,
    NotHere,
    OutputMissing,
    ReactiveError,
    Unreadable,
)
from nekro_core.reactive.execute import ExecResult, exec_
from nekro_core.reactive.fetch import fetch_data
from nekro_core.reactive.files import Written, read_sandbox_file, write_sandbox_file
from nekro_core.reactive.follow import Glimpse
from nekro_core.reactive.generate import TextCell, generate_text
from nekro_core.reactive.handle import SandboxHandle, sandbox
from nekro_core.reactive.model_tools import ModelTool
from nekro_core.reactive.scope import Resources, Scope, idle, scope, settled
from nekro_core.reactive.values import Computed, Readable, Signal, batch, cell, computed

__all__ = [
    "AsyncCell",
    "BadInput",
    "CellState",
    "Circle",
    "CommandTimeout",
    "Computed",
    "ExecResult",
    "FetchFailed",
    "Glimpse",
    "LoopTooLong",
    "ModelTool",
    "NoScope",
    "NotHere",
    "OutputMissing",
    "ReactiveError",
    "Readable",
    "Resources",
    "SandboxHandle",
    "Scope",
    "Signal",
    "TextCell",
    "Unreadable",
    "Written",
    "batch",
    "cell",
    "computed",
    "exec_",
    "fetch_data",
    "generate_text",
    "idle",
    "load",
    "read_sandbox_file",
    "sandbox",
    "scope",
    "settled",
    "write_sandbox_file",
]
