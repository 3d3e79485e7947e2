"""Defines calls from one process of the cluster to another: a request as bytes, and an answer."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

CALL_BYTES = 768 * 1024
"""Maximum size of a request or an answer in bytes. NATS takes 1 MiB in one message. Media are not
part of a call; the object store carries them."""
CALLS_AT_ONCE = 256
"""Maximum number of calls that one server handles at a time. Further ones are refused."""
LONGEST_CALL_S = 600.0
"""Upper bound of the time limit of a call, in seconds. A large file needs some minutes."""
CALL_NAME_LENGTH = 200
"""Maximum number of characters of a name."""

CallHandler = Callable[[bytes], Awaitable[bytes]]
"""Handles a call. The request comes from another process and is not trusted: decode it as data. If
it raises a `NekroError`, the caller gets the error's text. Of any other error, the caller only
learns that there was one."""


class CallCarrier(Protocol):
    """Carries calls between the processes of the cluster."""

    def serve(self, name: str, handler: CallHandler) -> AbstractAsyncContextManager[None]:
        """Answer the calls to a name until the block ends. Then calls under way are cancelled.

        Args:
            name: Any text of 1 to 200 characters. If several processes serve one name, each call
                goes to one of them.
            handler: Handles one call. It is cancelled if the caller stops waiting.

        Raises:
            ValueError: The name is too long, or this process serves it already.
        """

    async def call(self, name: str, request: bytes, *, within_s: float) -> bytes:
        """Call a name and return the answer.

        If the caller is cancelled or the time is over, the other side is told and cancels the call.

        Args:
            name: The name.
            request: At most 768 KiB.
            within_s: The time limit in seconds.

        Raises:
            NobodyServes: No process serves the name. The call was not made.
            ServerBusy: The server has too many calls. The call was not made.
            CallTooLarge: The request is too large and was not sent, or the answer was too large.
            CallTimedOut: There was no answer in time. The call may have been made.
            CallFailed: The other side failed. The text is its error.
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
