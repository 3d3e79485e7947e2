"""Implements the cluster's calls inside one process, without NATS."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from loguru import logger

from nekro_core.cluster.calls import (
    CALL_BYTES,
    CALLS_AT_ONCE,
    CallHandler,
    check_call,
    check_call_name,
)
from nekro_core.cluster.errors import (
    AnswerTooLarge,
    CallFailed,
    CallTimedOut,
    CallTooLarge,
    NobodyServes,
    ServerBusy,
)
from nekro_core.system.errors import NekroError


class _Served:
    """A handler, and the cancel scopes of the calls that it handles now."""

    def __init__(self, handler: CallHandler) -> None:
        self.handler = handler
        self.scopes: set[anyio.CancelScope] = set()


class LocalCalls:
    """Implements `CallCarrier` for callers and servers of one process."""

    def __init__(self, *, at_once: int = CALLS_AT_ONCE) -> None:
        self._at_once = at_once
        self._served: dict[str, _Served] = {}

    @asynccontextmanager
    async def serve(self, name: str, handler: CallHandler) -> AsyncIterator[None]:
        """See `CallCarrier.serve`."""
        check_call_name(name)
        if name in self._served:
            raise ValueError(f"{name} is served by this process already")
        served = self._served[name] = _Served(handler)
        try:
            yield
        finally:
            del self._served[name]
            for scope in served.scopes:
                scope.cancel()

    async def call(self, name: str, request: bytes, *, within_s: float) -> bytes:
        """See `CallCarrier.call`."""
        check_call(name, within_s)
        if len(request) > CALL_BYTES:
            raise CallTooLarge(f"a request of {len(request)} bytes; at most {CALL_BYTES} are sent")
        served = self._served.get(name)
        if served is None:
            raise NobodyServes(f"nobody serves {name} now")
        if len(served.scopes) >= self._at_once:
            raise ServerBusy(f"{name} handles {self._at_once} calls already")
        with anyio.CancelScope(deadline=anyio.current_time() + within_s) as scope:
            served.scopes.add(scope)
            try:
                answer = await served.handler(request)
            except NekroError as error:
                raise CallFailed(str(error)) from error
            except Exception as error:
                logger.exception("the handler of {} failed", name)
                raise CallFailed(f"{name} failed; its log has the reason") from error
            finally:
                served.scopes.discard(scope)
            if len(answer) > CALL_BYTES:
                raise AnswerTooLarge(f"an answer of {len(answer)} bytes; at most {CALL_BYTES}")
            return answer
        raise CallTimedOut(f"{name} did not answer within {within_s:g} s")
