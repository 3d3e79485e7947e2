"""Model groups change while requests run. Running requests use the old model until they end; later
requests use the new one."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest

from nekro_core.llm.groups import ModelGroupSettings
from nekro_core.llm.http_model import HttpChatModel
from nekro_core.llm.model import ChatModel, ChatRequest, PromptMessage, TextDelta
from nekro_core.llm.named import NamedModels
from nekro_core.llm.replaceable import ReplaceableModel
from nekro_core.llm.scripted import ScriptedModel
from nekro_core.llm.settings import LLMSettings
from tests.peers.scripted_model import Answer, ScriptedModelServer

QUESTION = ChatRequest(messages=(PromptMessage.of("user", "hi"),))


def group(server: ScriptedModelServer, model: str = "one", **changes) -> ModelGroupSettings:
    return ModelGroupSettings(base_url=server.base_url, model=model, **changes)


@asynccontextmanager
async def named(groups: dict[str, ModelGroupSettings]) -> AsyncIterator[NamedModels]:
    models = NamedModels(groups)
    try:
        yield models
    finally:
        await models.aclose()


async def answer_of(model: ChatModel | None) -> str:
    assert model is not None
    async with model.stream(QUESTION) as deltas:
        return "".join([each.text async for each in deltas if isinstance(each, TextDelta)])


async def test_a_new_group_can_be_used_at_once_and_listeners_are_called() -> None:
    heard = []
    async with ScriptedModelServer(["hello"]) as server, named({}) as models:
        models.listen(lambda: heard.append([*models.groups]))
        assert models.get("fast") is None
        await models.replace({"fast": group(server)})
        assert await answer_of(models.get("fast")) == "hello"
        assert await models.replace({}) is None
        assert models.get("fast") is None
    assert heard == [["fast"], []]


async def test_a_model_that_was_returned_uses_the_new_settings_of_its_group() -> None:
    async with ScriptedModelServer(["old"]) as old, ScriptedModelServer(["new"]) as new:
        async with named({"fast": group(old)}) as models:
            model = models.get("FAST")
            assert model is models.get("fast")
            assert await answer_of(model) == "old"
            await models.replace({"fast": group(new, "two", vision=True)})
            assert await answer_of(model) == "new"
            assert model is not None
            assert (model.profile.name, model.profile.vision) == ("two", True)
        assert new.requests[0].body["model"] == "two"


@pytest.mark.parametrize("removed", [False, True])
async def test_a_running_request_uses_the_old_model_until_it_ends(removed) -> None:
    go_on = anyio.Event()
    words: list[str] = []
    async with (
        ScriptedModelServer([Answer(chunks=["a", go_on, "b"])]) as old,
        ScriptedModelServer(["new"]) as new,
        named({"fast": group(old)}) as models,
    ):
        model = models.get("fast")
        assert model is not None
        async with model.stream(QUESTION) as deltas:
            async for delta in deltas:
                if not isinstance(delta, TextDelta):
                    continue
                words.append(delta.text)
                if delta.text == "a":
                    with anyio.fail_after(30):  # the change does not wait for the request
                        await models.replace({} if removed else {"fast": group(new)})
                    go_on.set()
        assert words == ["a", "b"]
        assert old.requests[0].finished
        if not removed:
            assert await answer_of(model) == "new"


async def test_a_turn_can_use_the_model_of_a_removed_group_until_it_ends() -> None:
    async with (
        ScriptedModelServer(["first", "second", "third"]) as server,
        named({"fast": group(server)}) as models,
    ):
        model = models.get("fast")
        assert await answer_of(model) == "first"
        await models.replace({})
        assert [await answer_of(model), await answer_of(model)] == ["second", "third"]


async def test_an_unchanged_group_keeps_its_connection() -> None:
    async with ScriptedModelServer(["one", "two", "three"]) as server:
        async with named({"fast": group(server)}) as models:
            await answer_of(models.get("fast"))
            await models.replace({"fast": group(server), "other": group(server, "x")})
            await answer_of(models.get("fast"))
            assert server.connections == 1
            await models.replace({"fast": group(server, temperature=0.5)})
            await answer_of(models.get("fast"))
        assert server.connections == 2


async def test_a_group_that_was_changed_to_embeddings_has_no_chat_model() -> None:
    async with ScriptedModelServer(["one"]) as server, named({"a": group(server)}) as models:
        assert models.get("a") is not None
        await models.replace({"a": group(server, type="embedding")})
        assert models.get("a") is None


async def test_a_replaced_model_is_closed_after_its_last_request() -> None:
    closed: list[str] = []

    class Watched(ScriptedModel):
        async def aclose(self) -> None:
            closed.append("closed")

    go_on = anyio.Event()

    async def slow() -> AsyncIterator[str]:
        yield "a"
        await go_on.wait()
        yield "b"

    model = ReplaceableModel(Watched([slow(), "x"]))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(answer_of, model)
        await anyio.wait_all_tasks_blocked()
        await model.replace(ScriptedModel(["new"]))
        assert closed == []
        go_on.set()
    assert closed == ["closed"]
    assert await answer_of(model) == "new"
    await model.replace(ScriptedModel([]))


async def test_an_endpoint_can_be_asked_again_after_it_was_closed() -> None:
    async with ScriptedModelServer(["one", "two"]) as server:
        model = HttpChatModel(LLMSettings(base_url=server.base_url, model="m"))
        assert await answer_of(model) == "one"
        await model.aclose()
        assert await answer_of(model) == "two"
        await model.aclose()
        await model.aclose()
