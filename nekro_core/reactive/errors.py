"""What goes wrong in this room::

    NekroError
    └── ToolFailure
        └── ReactiveError
            ├── NoScope         made outside of a scope, or in one that is over
            ├── NotHere         made or changed inside of a `computed`, which only reads
            ├── Circle          a value that depends on itself
            ├── BadInput        an input that is no plain data: nobody could tell whether it changed
            ├── FetchFailed     nothing came from the network
            ├── Unreadable      what came, from the network or a file, is not as ``mode`` says
            ├── CommandTimeout  a command in a box took too long; its box is gone with it
            ├── OutputMissing   a command ended well and left no file where one was expected
            └── LoopTooLong     a model went on calling tools

Their texts hold nothing of the host: raised out of a tool, they are told to the model as they are.
What the rooms below raise (`SandboxError`, `ModelError`) comes through as it is.
"""

from nekro_core.tools.outcome import ToolFailure


class ReactiveError(ToolFailure):
    """The root of what this room raises."""


class NoScope(ReactiveError):
    """Cells that run something have an owner: ``async with scope():`` around what makes them."""


class NotHere(ReactiveError):
    """A `computed` is a function of what it reads; it makes no cells and sets none."""


class Circle(ReactiveError):
    """A value is computed from what is computed from it."""


class BadInput(ReactiveError):
    """An input that cannot be compared with the one before it."""


class FetchFailed(ReactiveError):
    """There is nothing from that address; the text says why."""


class Unreadable(ReactiveError):
    """Bytes that are no text, or no JSON."""


class CommandTimeout(ReactiveError):
    """A command did not end in time.

    Args:
        message: What to tell the reader, with the number of seconds.
        stdout: What the command had written by then, at most 1 MiB.
        stderr: The same of its error output.
    """

    def __init__(self, message: str, *, stdout: str = "", stderr: str = "") -> None:
        super().__init__(message)
        self.stdout = stdout
        self.stderr = stderr


class OutputMissing(ReactiveError):
    """The command ended with 0 and the file is not there."""


class LoopTooLong(ReactiveError):
    """The model called tools in every one of its replies, up to the limit."""
