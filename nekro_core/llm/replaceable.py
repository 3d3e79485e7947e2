"""Provides a chat model that can be replaced by another model while requests run."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio
from loguru import logger

from nekro_core.llm.model import ChatModel, ChatRequest, Delta, ModelProfile

_CLOSE_S = 10.0
"""Maximum number of seconds for closing a model that is no longer used. The embedded model must end
a process."""


@dataclass(slots=True, eq=False)
class _Use:
    """A model, and the number of its requests that run now."""

    model: ChatModel
    requests: int = 0
    retired: bool = False


class ReplaceableModel:
    """A `ChatModel` that passes its requests to another model.

    If the model is replaced while a request runs, the old model finishes this request. It is closed
    after its last request. The next request goes to the new model. A retired model (see `retire`)
    still answers, so that a turn that began with this model can be finished; it closes its
    connections after each request.
    """

    def __init__(self, model: ChatModel) -> None:
        self._use = _Use(model)
        self._preparing = anyio.CancelScope()

    @property
    def profile(self) -> ModelProfile:
        """Return the abilities of the present model."""
        return self._use.model.profile

    @property
    def present(self) -> ChatModel:
        """Return the present model."""
        return self._use.model

    async def replace(self, model: ChatModel) -> None:
        """Use another model from now on. Does not wait for running requests. If the old model is
        being prepared, the preparation is cancelled, because it may be a long download."""
        old, self._use = self._use, _Use(model)
        self._preparing.cancel()
        await self._retire(old)

    async def retire(self) -> None:
        """Close the model as soon as no request runs, and again after each later request."""
        await self._retire(self._use)

    async def prepare(self, likely: Sequence[ChatRequest] = ()) -> None:
        """See `ChatModel.prepare`. It ends when the model is replaced."""
        with anyio.CancelScope() as self._preparing:
            async with self._using() as model:
                await model.prepare(likely)

    @asynccontextmanager
    async def stream(self, request: ChatRequest) -> AsyncIterator[AsyncIterator[Delta]]:
        """See `ChatModel.stream`."""
        async with self._using() as model, model.stream(request) as deltas:
            yield deltas

    async def aclose(self) -> None:
        """Close the present model at once."""
        await self._use.model.aclose()

    @asynccontextmanager
    async def _using(self) -> AsyncIterator[ChatModel]:
        use = self._use
        use.requests += 1
        try:
            yield use.model
        finally:
            use.requests -= 1
            if use.retired and not use.requests:
                await _close(use.model)

    async def _retire(self, use: _Use) -> None:
        use.retired = True
        if not use.requests:
            await _close(use.model)


async def _close(model: ChatModel) -> None:
    with anyio.move_on_after(_CLOSE_S, shield=True):
        try:
            await model.aclose()
        except Exception:  # noqa: BLE001 - errors of an old model must not end requests
            logger.exception("the model {} could not be closed", model.profile.name)
