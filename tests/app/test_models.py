"""Models of a running bot are added, changed and removed, for chats and for plugins."""

from pathlib import Path

import anyio

from nekro_core.app.app import App
from nekro_core.app.settings import Settings
from nekro_core.chat import ChatKey
from nekro_core.llm.breaker import BreakerState
from nekro_core.llm.groups import ModelGroupSettings
from nekro_core.llm.model import ChatModel, ChatRequest, PromptMessage, TextDelta
from nekro_core.llm.role_settings import RoleSettings
from nekro_core.llm.roles import ModelRole
from nekro_core.llm.scripted import ScriptedModel
from nekro_core.llm.settings import LLMSettings
from tests.peers.scripted_model import Answer, ScriptedModelServer

CHAT = ChatKey.parse("web-private_lin")
QUESTION = ChatRequest(messages=(PromptMessage.of("user", "hi"),))


async def answer_of(model: ChatModel) -> str:
    async with model.stream(QUESTION) as deltas:
        return "".join([each.text async for each in deltas if isinstance(each, TextDelta)])


async def test_chats_and_plugins_use_new_models_at_once(tmp_path: Path) -> None:
    (tmp_path / "conduct.toml").write_text('[chats."web-private_lin"]\nmodel = "fast"\n', "utf-8")
    settings = Settings(nekro_data_dir=tmp_path)
    async with (
        ScriptedModelServer(lambda asked: f"I am {asked.body['model']}") as server,
        App.open(settings, {}, model=ScriptedModel(["the first default", "again"])) as app,
    ):
        models, policies = app.runtime.models, app.runtime.services.policies
        groups, endpoints = models.views.groups, models.views.endpoints
        # there is no group "fast" yet
        assert await answer_of(policies.of(CHAT).model) == "the first default"

        fast = ModelGroupSettings(base_url=server.base_url, model="quick")
        await models.replace(models.llm, {"fast": fast})
        assert await answer_of(policies.of(CHAT).model) == "I am quick"
        assert groups["fast"].CHAT_MODEL == "quick"

        own = LLMSettings(base_url=server.base_url, model="large", vision=True)
        await models.replace(own, {"fast": fast})
        elsewhere = ChatKey.parse("web-private_other")
        assert await answer_of(policies.of(elsewhere).model) == "I am large"
        assert policies.of(elsewhere).model.profile.vision
        assert groups["default"].CHAT_MODEL == "large"
        assert await answer_of(await endpoints.chat("whatever")) == "I am large"

        await models.replace(own, {})
        assert await answer_of(policies.of(CHAT).model) == "I am large"
        assert "fast" not in groups


async def test_roles_and_chains_change_while_the_bot_runs(tmp_path: Path) -> None:
    settings = Settings(nekro_data_dir=tmp_path)
    elsewhere = ChatKey.parse("web-private_other")

    def answer(asked):
        broken = asked.body["model"] == "broken"
        return Answer(status=503) if broken else f"I am {asked.body['model']}"

    async with (
        ScriptedModelServer(answer) as server,
        App.open(settings, {}, model=ScriptedModel(lambda _: "the default")) as app,
    ):
        runtime = app.runtime
        models, policies, roles = runtime.models, runtime.services.policies, runtime.roles
        assert roles.model(ModelRole.QUICK) is None
        assert await answer_of(policies.of(elsewhere).model) == "the default"

        groups = {
            name: ModelGroupSettings(base_url=server.base_url, model=name)
            for name in ("broken", "good")
        }
        await models.replace(models.llm, groups)
        newer = RoleSettings(chat=("broken", "good"), quick=("good",))
        settings.nekro_roles.take_over(newer)
        await models.replace(models.llm, groups)
        assert await answer_of(policies.of(elsewhere).model) == "I am good"
        assert await answer_of(await models.views.endpoints.chat("")) == "I am good"
        quick = roles.model(ModelRole.QUICK)
        assert quick is not None
        assert await answer_of(quick) == "I am good"
        uses = runtime.services.store.model_uses
        with anyio.fail_after(30):
            while (await uses.usage_of_role(since=0.0, role="quick")).steps != 1:
                await anyio.sleep(0.01)

        # A change of a model's settings makes the bot ask the model again at once.
        assert models.chains.breakers["broken"].state is BreakerState.OPEN
        mended = {**groups, "broken": ModelGroupSettings(base_url=server.base_url, model="ok")}
        await models.replace(models.llm, mended)
        assert await answer_of(policies.of(elsewhere).model) == "I am ok"
