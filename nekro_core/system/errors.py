"""Defines the base class of all errors of this framework."""


class NekroError(Exception):
    """nekro-core refuses to do something, or cannot do it.

    Every error class of the framework derives from this class, so ``except NekroError`` catches
    them all. Some classes also derive from a builtin error: `ChatKeyError` is a `ValueError`, and
    ``except ValueError`` catches it too. The module that defines a room's errors shows their tree.

    Four kinds of errors do not derive from `NekroError`: builtin errors, which the docstrings of
    the functions name; errors of other packages, adapters and plugins; errors of code that runs
    inside a box; and `LoopBlocked`, which is not an `Exception`.
    """
