"""Errors of queries and actions of operators.

::

    NekroError
    └── OperatorError
        ├── NotAllowed          the actor's role or token does not allow the operation
        ├── InvalidParameters   a parameter is missing, unknown or has an impossible value
        ├── NoSuchItem          there is no such operation, chat, turn, plugin ...
        ├── ChangedMeanwhile    somebody else has changed the same thing since it was read
        ├── ProcessAway         the process of the cluster that has to do it does not answer
        └── RefusedElsewhere    the process of the cluster that has to do it refuses it

An operation may also raise the errors of the rooms (packages of ``nekro_core``) that it uses. The
texts of those errors are also written for people.
"""

from collections.abc import Mapping

from nekro_core.system.errors import NekroError


class OperatorError(NekroError):
    """An operation was refused. Nothing was changed."""


class NotAllowed(OperatorError):
    """The actor may not do this. The text says which role or scope is needed."""


class InvalidParameters(OperatorError):
    """Parameters are wrong.

    Attributes:
        problems: For each faulty parameter, its name and what was expected. A nested name has dots
            between its parts.
    """

    def __init__(self, problems: Mapping[str, str]) -> None:
        super().__init__("; ".join(f"{name}: {problem}" for name, problem in problems.items()))
        self.problems = dict(problems)


class NoSuchItem(OperatorError):
    """There is no such thing. The text names what was asked for."""


class ChangedMeanwhile(OperatorError):
    """The thing was changed by somebody else since the actor read it. The text says by whom, if
    known. Read it again, and then change it."""


class ProcessAway(OperatorError):
    """Another process of the cluster has to carry the operation out, and it cannot be reached, or
    no worker owns the chat now. The text says whether the operation may have been carried out."""


class RefusedElsewhere(OperatorError):
    """Another process of the cluster could not carry the operation out. The text is that of its
    error."""
