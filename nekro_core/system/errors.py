"""The root of all errors that this framework defines."""


class NekroError(Exception):
    """Something that nekro-core refuses or cannot do.

    Every error class of the framework derives from it, so ``except NekroError`` catches them all.
    A class that also derives from a builtin (`ChatKeyError` is a `ValueError`) is caught as that
    too. Each room draws the tree of its own errors in the module that defines them.

    Not below it are builtin errors that functions raise as such (their docstrings name them),
    errors of other packages, those of adapters and plugins, what runs inside a box, and
    `LoopBlocked`, which is no `Exception`.
    """
