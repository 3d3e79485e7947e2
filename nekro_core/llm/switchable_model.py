"""A model that can be replaced by another one while the bot runs."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from nekro_core.llm.model import ChatModel, ChatRequest, Delta, ModelProfile


class SwitchableModel:
    """A `ChatModel` that passes all requests to another model, which `replace` can change.

    A request that has begun stays with the model that it was sent to. That model is closed when its
    last request has ended.
    """

    def __init__(self, model: ChatModel) -> None:
        self._model = model
        self._requests: dict[int, int] = {}
        self._replaced: list[ChatModel] = []

    @property
    def current(self) -> ChatModel:
        """The model that gets the next request."""
        return self._model

    @property
    def profile(self) -> ModelProfile:
        """Return what the current model can do."""
        return self._model.profile

    async def replace(self, model: ChatModel) -> None:
        """Let ``model`` answer from now on, and close the old model if it has no requests."""
        self.set(model)
        await self._close_unused()

    def set(self, model: ChatModel) -> None:
        """Let ``model`` answer from now on. The old model is closed when a request ends, or with
        this object."""
        self._replaced.append(self._model)
        self._model = model

    @asynccontextmanager
    async def stream(self, request: ChatRequest) -> AsyncIterator[AsyncIterator[Delta]]:
        """See `ChatModel.stream`."""
        model = self._model
        self._requests[id(model)] = self._requests.get(id(model), 0) + 1
        try:
            async with model.stream(request) as deltas:
                yield deltas
        finally:
            self._requests[id(model)] -= 1
            if self._replaced:
                await self._close_unused()

    async def prepare(self, likely: Sequence[ChatRequest] = ()) -> None:
        """See `ChatModel.prepare`."""
        await self._model.prepare(likely)

    async def aclose(self) -> None:
        """Close the current model and all that it replaced."""
        while self._replaced:
            await self._replaced.pop().aclose()
        await self._model.aclose()

    async def _close_unused(self) -> None:
        unused = [each for each in self._replaced if not self._requests.get(id(each))]
        for model in unused:
            self._replaced.remove(model)
            self._requests.pop(id(model), None)
        for model in unused:
            await model.aclose()
