"""Models of a running bot are added, changed and removed, for chats and for plugins."""

from pathlib import Path

from nekro_core.app.app import App
from nekro_core.app.settings import Settings
from nekro_core.chat import ChatKey
from nekro_core.llm.groups import ModelGroupSettings
from nekro_core.llm.model import ChatModel, ChatRequest, PromptMessage, TextDelta
from nekro_core.llm.scripted import ScriptedModel
from nekro_core.llm.settings import LLMSettings
from tests.peers.scripted_model import ScriptedModelServer

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
        assert await answer_of(policies.of(CHAT).model) == "the first default"  # no group "fast"

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
