"""Plugins' requests to models are answered, counted, and limited by the limits of the turn."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from nekro_core.api.llm import (
    ContentSegment,
    KeyRejected,
    ModelUnreachable,
    OpenAIChatMessage,
    QuotaExceeded,
    RequestRejected,
    gen_openai_chat_response,
    gen_openai_embeddings,
    get_model_group_info,
    model_groups,
)
from nekro_core.compat.nekro_agent.models.groups import ModelGroups
from nekro_core.llm.chains import ModelChains
from nekro_core.llm.groups import ModelGroupSettings
from nekro_core.llm.model import (
    ChatRequest,
    ImagePart,
    PromptMessage,
    RequestUsage,
    TextDelta,
    TextPart,
)
from nekro_core.llm.role_budget import BudgetedRoles, RoleBudget
from nekro_core.llm.role_settings import RoleSettings
from nekro_core.llm.scripted import ScriptedAnswer, ScriptedModel
from nekro_core.llm.settings import LLMSettings
from nekro_core.plugins.authoring.binding import loading
from nekro_core.plugins.authoring.call import call_scope
from nekro_core.plugins.authoring.current import NoCurrentBot
from nekro_core.plugins.models.endpoints import PluginModels
from nekro_core.plugins.models.metered import UsageLedger
from nekro_core.policy.limits import Limits, Measure, UsageLimit
from nekro_core.store import ModelUse, Usage
from tests.peers.scripted_model import Answer, ScriptedModelServer
from tests.plugins.world import World

KEY = "sk-test-0123456789"
NO_MODEL = LLMSettings()


@dataclass
class Book:
    """Records the model uses that the ledger writes."""

    uses: list[ModelUse] = field(default_factory=list)

    def add(self, use: ModelUse) -> None:
        self.uses.append(use)


class PluginCaller:
    """A plugin that calls models, in a bot with a scripted model."""

    def __init__(self, world: World, model: ScriptedModel, own: LLMSettings = NO_MODEL) -> None:
        self.world = world
        self.book = Book()
        others = {
            "draw": ModelGroupSettings(
                base_url="http://127.0.0.1:9/v1",
                model="painter",
                api_key=SecretStr(KEY),
                type="draw",
                temperature=0.3,
            )
        }
        self.groups = ModelGroups.of(own, others, embedded=model.profile.name)
        self.models = PluginModels(model, own, others, UsageLedger(self.book, lambda: 1000.0))

    @contextmanager
    def inside(self, limits: Limits | None = None, *, tool: bool = True) -> Iterator[None]:
        """Run code as a plugin's tool in a turn with these limits, or as a task of the plugin."""
        services = replace(
            self.world.services, models=self.models, extensions={ModelGroups: self.groups}
        )
        ctx = self.world.ctx(services=services, owner="ann.weather", meter=limits)
        binding = replace(self.world.binding, services=services)
        with loading(binding, "local/weather"), call_scope(ctx if tool else None):
            yield


async def test_the_bots_own_model_answers_and_its_use_is_recorded(world: World) -> None:
    usage = RequestUsage(prompt_tokens=50, completion_tokens=7, cached_tokens=10)
    model = ScriptedModel([ScriptedAnswer(chunks=["It ", "rains."], usage=usage)])
    caller = PluginCaller(world, model)
    limits = Limits([UsageLimit(Measure.STEPS, 5), tokens := UsageLimit(Measure.TOKENS, 1000)])
    message = OpenAIChatMessage.from_text("user", "weather?")
    with caller.inside(limits):
        response = await gen_openai_chat_response(
            model="whatever", messages=[{"role": "system", "content": "be brief"}, message]
        )
    assert response.response_content == "It rains."
    assert (response.token_input, response.token_output) == (50, 7)
    assert (response.token_consumption, response.use_model) == (57, model.profile.name)
    assert [each["role"] for each in response.messages] == ["system", "user", "assistant"]
    assert tokens.taken == 57
    (use,) = caller.book.uses
    assert (use.plugin, use.chat_key, use.user_id, use.run_id) == (
        "ann.weather",
        "onebot_v11-group_30003",
        "10001",
        "run-1",
    )
    assert (use.prompt_tokens, use.completion_tokens, use.cached_tokens) == (50, 7, 10)


async def test_a_turn_without_tokens_left_makes_no_more_requests(world: World) -> None:
    usage = RequestUsage(prompt_tokens=90, completion_tokens=20)
    caller = PluginCaller(world, ScriptedModel([ScriptedAnswer(chunks=["a"], usage=usage)]))
    limits = Limits([UsageLimit(Measure.STEPS, 5), UsageLimit(Measure.TOKENS, 100)])
    with caller.inside(limits):
        await gen_openai_chat_response("m", [{"role": "user", "content": "1"}])
        with pytest.raises(QuotaExceeded, match="tokens: 110 of at most 100"):
            await gen_openai_chat_response("m", [{"role": "user", "content": "2"}])
        with pytest.raises(QuotaExceeded):
            await gen_openai_embeddings("m", "x", base_url="http://127.0.0.1:9/v1")
    assert len(caller.book.uses) == 1


async def test_an_interrupted_answer_is_counted_by_an_estimate(world: World) -> None:
    caller = PluginCaller(world, ScriptedModel([ScriptedAnswer(chunks=["many words ", 60.0])]))
    with caller.inside(), pytest.raises(ModelUnreachable, match=r"within 0\.2 s"):
        await gen_openai_chat_response("m", [{"role": "user", "content": "hi"}], max_wait_time=0.2)
    (use,) = caller.book.uses
    assert use.estimated
    assert use.completion_tokens > 0


async def test_a_request_of_a_plugins_task_is_counted_for_the_plugin_only(world: World) -> None:
    caller = PluginCaller(world, ScriptedModel(["yes"]))
    with caller.inside(tool=False):
        await gen_openai_chat_response("m", [{"role": "user", "content": "hi"}])
    (use,) = caller.book.uses
    assert (use.plugin, use.chat_key, use.user_id) == ("local/weather", "", "")


async def test_outside_a_bot_a_request_is_an_error() -> None:
    with pytest.raises(NoCurrentBot, match="inside a running bot"):
        await gen_openai_chat_response("m", [])


async def test_another_endpoint_receives_all_messages_and_options(world: World) -> None:
    caller = PluginCaller(world, ScriptedModel([]))
    async with ScriptedModelServer(["a cat"], api_key=KEY) as server:
        with caller.inside():
            response = await gen_openai_chat_response(
                model="seer",
                messages=[
                    OpenAIChatMessage.create_empty("user")
                    .add(ContentSegment.text_content("what is "))
                    .batch_add([ContentSegment.text_content("this?")])
                    .add(ContentSegment.image_content_from_bytes(b"\x89PNG\r\n\x1a\n"))
                    .tidy()
                ],
                temperature=0.5,
                top_p=0.9,
                extra_body={"top_k": 3},
                api_key=KEY,
                base_url=server.base_url,
                log_path="/nowhere",
            )
            with pytest.raises(KeyRejected):
                await gen_openai_chat_response(
                    "seer",
                    [{"role": "user", "content": "hi"}],
                    api_key="sk-another-9876543",
                    base_url=server.base_url,
                )
        asked = server.requests[0].body
        await caller.models.aclose()
    assert response.response_content == "a cat"
    assert (asked["model"], asked["temperature"], asked["top_p"]) == ("seer", 0.5, 0.9)
    assert asked["top_k"] == 3
    text, image = asked["messages"][0]["content"]
    assert text == {"type": "text", "text": "what is this?"}
    assert image["image_url"]["url"].startswith("data:image/png;base64,")
    assert [use.model for use in caller.book.uses] == ["seer"]


@pytest.mark.parametrize(
    "messages",
    [
        [{"role": "wizard", "content": "x"}],
        [{"role": "user", "content": [{"type": "video"}]}],
        [{"role": "user", "content": [{"type": "image_url"}]}],
        [{"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "%"}}]}],
    ],
)
async def test_invalid_messages_are_refused(world: World, messages: list[Any]) -> None:
    with (
        PluginCaller(world, ScriptedModel([])).inside(),
        pytest.raises(ValueError, match=r"a (message|part)"),
    ):
        await gen_openai_chat_response("m", messages)


async def test_an_invalid_endpoint_is_refused(world: World) -> None:
    caller = PluginCaller(world, ScriptedModel([]))
    with caller.inside(), pytest.raises(RequestRejected, match="no endpoint"):
        await gen_openai_chat_response(
            "m", [{"role": "user", "content": "x"}], base_url="ftp://example.com"
        )


async def test_model_groups_have_the_operators_settings(world: World, tmp_path: Path) -> None:
    caller = PluginCaller(world, ScriptedModel(["hello"]))
    with caller.inside():
        draw = get_model_group_info("draw")
        assert (draw.CHAT_MODEL, draw.API_KEY, draw.MODEL_TYPE) == ("painter", KEY, "draw")
        assert draw.TEMPERATURE == 0.3
        default = model_groups()["default"]
        # Plugins read the values of a group and pass them to the request.
        response = await gen_openai_chat_response(
            model=default.CHAT_MODEL,
            messages=[{"role": "user", "content": "hi"}],
            base_url=default.BASE_URL,
            api_key=default.API_KEY,
        )
        assert response.response_content == "hello"
        with pytest.raises(KeyError, match="NEKRO_MODELS__MY_MODEL__BASE_URL"):
            model_groups()["my-model"]


async def test_a_request_to_the_endpoint_of_the_bots_own_model_is_answered_by_that_model(
    world: World,
) -> None:
    own = LLMSettings(base_url="http://127.0.0.1:9/v1", model="m", api_key=SecretStr(KEY))
    caller = PluginCaller(world, ScriptedModel(["mine"]), own)
    with caller.inside():
        group = model_groups()["default"]
        assert group.API_KEY == KEY
        answer = await gen_openai_chat_response(
            "m", [{"role": "user", "content": "x"}], base_url=group.BASE_URL, api_key=group.API_KEY
        )
    assert answer.response_content == "mine"


# ---- embeddings


def near(one: list[float], other: list[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


async def test_without_an_endpoint_the_bot_makes_vectors(world: World) -> None:
    caller = PluginCaller(world, ScriptedModel([]))
    with caller.inside():
        group = model_groups()["text-embedding"]
        vectors = await gen_openai_embeddings(
            model=group.CHAT_MODEL,
            input=["开心的猫咪", "一只开心的猫", "生气的狗", "", "happy cat", "the happy cats"],
            api_key=group.API_KEY,
            base_url=group.BASE_URL,
            dimensions=256,
        )
        single = await gen_openai_embeddings(input="happy cat", dimensions=256)
        with pytest.raises(ValueError, match="3 dimensions"):
            await gen_openai_embeddings(input="x", dimensions=3)
    happy, similar, angry, nothing, cat, cats = vectors
    assert near(happy, similar) > 0.4 > near(happy, angry)
    assert near(cat, cats) > 0.4 > abs(near(cat, angry))
    assert single == cat
    assert all(near(each, each) == pytest.approx(1) for each in (happy, nothing, cat))
    assert caller.book.uses == []


def embedded(*vectors: list[float], **more: Any) -> Answer:
    rows = [{"index": n, "embedding": v} for n, v in reversed([*enumerate(vectors)])]
    return Answer(body=json.dumps({"data": rows, **more}).encode(), content_type="application/json")


async def test_an_endpoint_can_make_vectors(world: World) -> None:
    caller = PluginCaller(world, ScriptedModel([]))
    script = [
        embedded([1.0, 0.0], [0.0, 1.0], usage={"prompt_tokens": 12}),
        embedded([1, 2]),
        Answer(status=401, error={"message": f"bad key {KEY}"}),
        Answer(body=b"<html>", content_type="text/html"),
        embedded([1.0]),
    ]
    async with ScriptedModelServer(script) as server:
        endpoint = {"model": "e", "api_key": KEY, "base_url": server.base_url}
        with caller.inside():
            both = await gen_openai_embeddings(input=["a", "b"], dimensions=2, **endpoint)
            assert both == [[1.0, 0.0], [0.0, 1.0]]
            assert await gen_openai_embeddings(input="a", **endpoint) == [1.0, 2.0]
            with pytest.raises(KeyRejected) as refused:
                await gen_openai_embeddings(input="a", **endpoint)
            assert KEY not in str(refused.value)
            with pytest.raises(RequestRejected, match="no embeddings"):
                await gen_openai_embeddings(input="a", **endpoint)
            with pytest.raises(RequestRejected, match="no embeddings"):
                await gen_openai_embeddings(input=["a", "b"], **endpoint)
        asked = server.requests[0]
    assert asked.path == "/v1/embeddings"
    assert (asked.body["input"], asked.body["dimensions"]) == (["a", "b"], 2)
    assert [(use.prompt_tokens, use.estimated) for use in caller.book.uses] == [
        (12, False),
        (1, True),
    ]


def test_messages_can_be_built_step_by_step(tmp_path: Path) -> None:
    picture = tmp_path / "x.jpg"
    picture.write_bytes(b"\xff\xd8\xff")
    message = OpenAIChatMessage("user", "look").add("here").extend(OpenAIChatMessage("user", "!"))
    message.add(ContentSegment.image_content_from_path(picture))
    message.add(ContentSegment.image_content("https://example.com/y.png"))
    parts = message.tidy().to_dict()["content"]
    assert parts[0] == {"type": "text", "text": "lookhere!"}
    assert parts[1]["image_url"]["url"].startswith("data:image/jpeg;base64,")
    assert parts[2]["image_url"]["url"] == "https://example.com/y.png"

    class Template:
        def render(self, **values: Any) -> str:
            return f"hello {values['name']}"

    assert OpenAIChatMessage.from_template("user", Template(), name="Lin").content == [
        ContentSegment.text_content("hello Lin")
    ]


async def test_pictures_are_sent_to_the_model(world: World) -> None:
    model = ScriptedModel(["ok"])
    with PluginCaller(world, model).inside():
        content = [
            ContentSegment.text_content("see"),
            ContentSegment.image_content("data:image/gif;base64,R0lGODlh"),
        ]
        await gen_openai_chat_response("m", [{"role": "user", "content": content}])
    words, picture = model.requests[0].messages[0].parts
    assert words == TextPart("see")
    assert isinstance(picture, ImagePart)
    assert (picture.mime, picture.data) == ("image/gif", b"GIF89a")


async def test_a_plugin_asks_the_model_of_a_role_and_its_requests_are_counted_for_the_role(
    world: World,
) -> None:
    usage = RequestUsage(prompt_tokens=600, completion_tokens=100)
    quick = ScriptedModel([ScriptedAnswer(chunks=["in short"], usage=usage)] * 3)
    settings = RoleSettings(quick=("small",), quick_tokens_a_day=1000)
    chains, uses = ModelChains(settings, {"small": quick}.get), RoleUses()
    caller = PluginCaller(world, ScriptedModel([]))
    caller.models = PluginModels(
        ScriptedModel([]),
        NO_MODEL,
        {},
        UsageLedger(uses, lambda: 1000.0),
        roles=BudgetedRoles(chains, RoleBudget(settings, uses, lambda: 1000.0)),
    )
    with caller.inside():
        ctx = caller.world.ctx(
            services=replace(caller.world.services, models=caller.models), owner="ann.weather"
        )
        assert ctx.models.role("vision") is None
        with pytest.raises(RequestRejected, match="expected one of chat, quick"):
            ctx.models.role("fast")
        model = ctx.models.role("quick")
        assert model is not None
        said = ChatRequest(messages=(PromptMessage.of("user", "sum up"),))
        for _ in range(2):
            async with model.stream(said) as deltas:
                first, *_ = [each async for each in deltas]
            assert first == TextDelta("in short")
        with pytest.raises(QuotaExceeded, match="QUICK_TOKENS_A_DAY"):
            async with model.stream(said) as deltas:
                [each async for each in deltas]
    assert [(each.plugin, each.role) for each in uses.uses] == [("ann.weather", "quick")] * 2


class RoleUses(Book):
    """A `Book` that also adds up the uses of a role."""

    async def usage_of_role(self, *, since: float, role: str) -> Usage:
        mine = [each for each in self.uses if each.role == role]
        return Usage(
            prompt_tokens=sum(each.prompt_tokens for each in mine),
            completion_tokens=sum(each.completion_tokens for each in mine),
        )
