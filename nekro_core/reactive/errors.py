"""The errors of this package::

    NekroError
    └── ToolFailure
        └── ReactiveError
            ├── NoScope         a cell is made outside of a scope, or in a scope that has ended
            ├── NotHere         a cell is made or set inside of a `computed`, which may only read
            ├── Circle          a value depends on itself
            ├── BadInput        an input is not plain data, so it cannot be compared
            ├── FetchFailed     the network gave no data
            ├── Unreadable      data from the network or a file is not text, or not JSON
            ├── CommandTimeout  a command in a box took too long; its box is destroyed
            ├── OutputMissing   a command succeeded and did not write an expected file
            └── LoopTooLong     a model called tools in every reply up to the limit

A *cell* is a value that is computed again when its inputs change. A `computed` is a value that is
derived from other values. A *scope* (``async with scope():``) owns cells and ends them.

The texts of the errors contain nothing about the host, because the model reads the text of an error
that a tool raises. Errors of other packages (`SandboxError`, `ModelError`) are raised unchanged.
"""

from nekro_core.tools.outcome import ToolFailure


class ReactiveError(ToolFailure):
    """The base class of the errors of this package."""


class NoScope(ReactiveError):
    """An `AsyncCell` or a box was made outside of ``async with scope():``, or after its end."""


class NotHere(ReactiveError):
    """A `computed` made or set a cell. It may only read."""


class Circle(ReactiveError):
    """A value depends on itself."""


class BadInput(ReactiveError):
    """An input cannot be compared with its previous value."""


class FetchFailed(ReactiveError):
    """The address gave no data. The text has the reason."""


class Unreadable(ReactiveError):
    """The argument ``mode`` asks for text or JSON, and the bytes are not text, or not JSON."""


class CommandTimeout(ReactiveError):
    """A command did not end in time.

    Args:
        message: The text of the error, with the number of seconds.
        stdout: What the command had written by then, at most 1 MiB.
        stderr: What the command had written as error output by then, at most 1 MiB.
    """

    def __init__(self, message: str, *, stdout: str = "", stderr: str = "") -> None:
        super().__init__(message)
        self.stdout = stdout
        self.stderr = stderr


class OutputMissing(ReactiveError):
    """The command ended with 0 and did not write a requested file."""


class LoopTooLong(ReactiveError):
    """The model called tools in each of its replies, up to the limit."""
