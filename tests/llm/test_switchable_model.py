"""A model is replaced while requests to it are under way."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from nekro_core.llm.groups import ModelGroupSettings
from nekro_core.llm.model import (
    ChatRequest,
    Delta,
    ModelProfile,
    PromptMessage,
    ReplyFinished,
    TextDelta,
)
from nekro_core.llm.named import NamedModels
from nekro_core.llm.switchable_model import SwitchableModel

REQUEST = ChatRequest(messages=(PromptMessage.of("user", "hello"),), max_tokens=10)


class Speaker:
    """A model that says its name."""

    def __init__(self, name: str) -> None:
        self.profile = ModelProfile(name=name)
        self.closed = False

    @asynccontextmanager
    async def stream(self, request: ChatRequest) -> AsyncIterator[AsyncIterator[Delta]]:
        async def deltas() -> AsyncIterator[Delta]:
            yield TextDelta(self.profile.name)
            assert not self.closed, "a model that answers is not closed"
            yield ReplyFinished("stop")

        yield deltas()

    async def prepare(self, likely: Sequence[ChatRequest] = ()) -> None:
        pass

    async def aclose(self) -> None:
        self.closed = True


async def said(model: SwitchableModel) -> str:
    async with model.stream(REQUEST) as deltas:
        return "".join([each.text async for each in deltas if isinstance(each, TextDelta)])


async def test_the_next_request_goes_to_the_new_model() -> None:
    old, new = Speaker("old"), Speaker("new")
    model = SwitchableModel(old)
    assert await said(model) == "old"
    await model.replace(new)
    assert await said(model) == "new"
    assert model.profile.name == "new"
    assert (old.closed, new.closed) == (True, False)
    await model.aclose()
    assert new.closed


async def test_a_request_that_has_begun_ends_with_the_old_model() -> None:
    old, new = Speaker("old"), Speaker("new")
    model = SwitchableModel(old)
    async with model.stream(REQUEST) as deltas:
        await anext(deltas)
        await model.replace(new)
        assert not old.closed
        assert await anext(deltas) == ReplyFinished("stop")
        assert await said(model) == "new"
        assert not old.closed
    assert old.closed


async def test_a_changed_group_answers_with_its_new_endpoint() -> None:
    def group(model: str) -> ModelGroupSettings:
        return ModelGroupSettings(base_url="http://127.0.0.1:9/v1", model=model)

    groups = {"fast": group("one")}
    models = NamedModels(groups, make=lambda settings: Speaker(settings.model))
    first = models.get("fast")
    assert first is not None
    assert first.profile.name == "one"
    assert models.get("fast") is first
    groups["fast"] = group("two")
    assert models.get("fast") is first, "rooms that hold the model see the new one"
    assert first.profile.name == "two"
    del groups["fast"]
    assert models.get("fast") is None
    await models.aclose()
