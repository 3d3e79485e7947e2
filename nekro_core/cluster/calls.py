"""Defines calls from one process of the cluster to another. The request and the answer are
bytes."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

CALL_BYTES = 768 * 1024
"""Maximum size of a request or an answer in bytes. A NATS message has at most 1 MiB by default.
Media are not part of a call; the object store carries them."""
CALLS_AT_ONCE = 256
"""Maximum number of calls to one name that a process handles at a time. Further calls are
refused."""
LONGEST_CALL_S = 600.0
"""Maximum time limit of a call, in seconds. Sending a large file to a platform takes some
minutes."""
CALL_NAME_LENGTH = 200
"""Maximum number of characters of the name to which a call goes."""

CallHandler = Callable[[bytes], Awaitable[bytes]]
"""Handles a call. The request comes from another process and is not trusted: decode it as data. If
the handler raises a `NekroError`, the caller gets the error's text. If it raises another error, the
caller learns only that the call failed."""


class CallCarrier(Protocol):
    """Carries calls between the processes of the cluster."""

    def serve(self, name: str, handler: CallHandler) -> AbstractAsyncContextManager[None]:
        """Answer the calls to a name until the block ends. Calls that are being handled at its end
        are cancelled.

        Args:
            name: Any text of 1 to 200 characters. If several processes serve the same name, each
                call goes to one of these processes.
            handler: Handles one call. Its task is cancelled if the caller stops waiting.

        Raises:
            ValueError: The name is too long, or this process serves it already.
        """

    async def call(self, name: str, request: bytes, *, within_s: float) -> bytes:
        """Call a name and return the answer.

        If the caller is cancelled or the time limit is reached, the process that handles the call
        is told to cancel it.

        Args:
            name: The name that the called process serves.
            request: The request, at most 768 KiB.
            within_s: The time limit in seconds.

        Raises:
            NobodyServes: No process serves the name. The call was not made.
            ServerBusy: The process that serves the name handles too many calls. The call was not
                made.
            CallTooLarge: The request is too large and was not sent.
            AnswerTooLarge: The call was made, and its answer is too large to be sent.
            CallTimedOut: There was no answer in time, or the process that handled the call has
                ended. The call may have been made.
            CallFailed: The handler raised an error. The text is that of a `NekroError`; after
                another error, it says only that the call failed.
            ClusterUnavailable: The connection is down. The call may have been made.
            ValueError: The name or the time limit is not allowed.
        """


def check_call(name: str, within_s: float) -> None:
    """Raise `ValueError` if a call cannot have this name or this time limit."""
    check_call_name(name)
    if not 0 < within_s <= LONGEST_CALL_S:
        raise ValueError(f"a time limit of {within_s:g} s: expected more than 0 and at most 600")


def check_call_name(name: str) -> None:
    """Raise `ValueError` if nobody can serve this name."""
    if not 0 < len(name) <= CALL_NAME_LENGTH:
        raise ValueError(
            f"a name of {len(name)} characters: expected 1 to {CALL_NAME_LENGTH}: {name[:40]!r}"
        )
