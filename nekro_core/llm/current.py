"""A chat model that passes each request to the model that is chosen at that moment."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager

from nekro_core.llm.chain import ChainLink, ModelChain
from nekro_core.llm.model import ChatModel, ChatRequest, Delta, ModelProfile


class CurrentModel:
    """A `ChatModel` that passes each request to the model that ``current`` returns at that moment.
    The owner of that model closes it."""

    def __init__(self, current: Callable[[], ChatModel]) -> None:
        self._current = current

    @property
    def present(self) -> ChatModel:
        """The model that would be asked now."""
        return self._current()

    @property
    def profile(self) -> ModelProfile:
        """See `ChatModel.profile`."""
        return self._current().profile

    def stream(self, request: ChatRequest) -> AbstractAsyncContextManager[AsyncIterator[Delta]]:
        """See `ChatModel.stream`."""
        return self._current().stream(request)

    async def prepare(self, likely: Sequence[ChatRequest] = ()) -> None:
        """See `ChatModel.prepare`."""
        await self._current().prepare(likely)

    async def aclose(self) -> None:
        """Do nothing: the owner of the model closes it."""


def chain_links(model: ChatModel) -> tuple[ChainLink, ...]:
    """Return the models of a chain, or of the chain to which a `CurrentModel` passes its requests;
    empty if the model is not a chain."""
    if isinstance(model, CurrentModel):
        return chain_links(model.present)
    return model.links if isinstance(model, ModelChain) else ()
