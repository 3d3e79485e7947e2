"""On whose behalf a plugin's code runs: what it sends belongs to that run and that chat."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from nekro_core.plugins.authoring.context import AgentCtx


@dataclass(slots=True)
class HandlerCall:
    """One call of a handler. A task that the handler started inherits it and outlives it: then the
    run is ``over``, and only who asked and where still counts."""

    ctx: AgentCtx
    over: bool = False


_current: ContextVar[HandlerCall | None] = ContextVar("nekro_maibot_call", default=None)


@contextmanager
def handler_call(ctx: AgentCtx | None) -> Iterator[None]:
    """In here a handler runs for this context; None: for nobody, as in ``on_load``."""
    call = HandlerCall(ctx) if ctx is not None else None
    token = _current.set(call)
    try:
        yield
    finally:
        _current.reset(token)
        if call is not None:
            call.over = True


def current_call() -> HandlerCall | None:
    """The call that this code belongs to, if it belongs to one."""
    return _current.get()
