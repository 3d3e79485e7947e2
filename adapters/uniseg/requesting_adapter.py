"""Provides the adapter of a platform on which people can ask to be a friend of the bot or to join a
group."""

import anyio
from nonebot.adapters import Bot

from nekro_core.api.adapter import CannotDo, ContactRequest

from .account_adapter import ManagedUnisegAdapter
from .outcome import outcome_of

ANSWER_S = 15.0
"""Time limit for the platform's call, in seconds."""


class RequestingUnisegAdapter(ManagedUnisegAdapter):
    """`ManagedUnisegAdapter` with `SupportsRequests`."""

    async def answer_request(self, request: ContactRequest, *, approve: bool, reason: str) -> None:
        """See `SupportsRequests`."""
        bot: Bot | None = self._intake.bot(request.account)
        if bot is None:
            raise CannotDo(f"account {request.account} is not connected")
        try:
            with anyio.fail_after(ANSWER_S):
                await self._platform.answer_request(request, bot, approve=approve, reason=reason)
        except TimeoutError:
            raise CannotDo(f"{self.name} did not answer within {ANSWER_S:g} s") from None
        except CannotDo:
            raise
        except Exception as error:
            raise CannotDo(f"{request.account}: {outcome_of(error).reason}") from error
