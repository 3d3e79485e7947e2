"""A chain has two models over real connections. If the first model fails, the second one may
answer."""

import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

import anyio
import pytest

from nekro_core.llm.breaker import BreakerState
from nekro_core.llm.chain import ModelChain
from nekro_core.llm.chains import ModelChains
from nekro_core.llm.http_model import HttpChatModel
from nekro_core.llm.metered_model import MeteredModel
from nekro_core.llm.model import (
    ChatModel,
    ChatRequest,
    Delta,
    FailoverOptions,
    FunctionCall,
    ModelChoice,
    ModelError,
    ModelProfile,
    ModelRefused,
    NoModelAnswered,
    ReplyBroken,
    RequestUsage,
)
from nekro_core.llm.role_settings import RoleSettings
from nekro_core.llm.settings import LLMSettings
from tests.llm.chain.failures import FAILURES, SHORT_S, Failure
from tests.llm.conformance import DICE, ChatModelConformance, ask, words_of
from tests.peers.scripted_model import Answer, Asked, ScriptedModelServer

SWITCHED, KEPT = "the next model answers", "nothing is switched"


@dataclass
class Heard:
    """What a chain answered."""

    deltas: list[Delta] = field(default_factory=list)
    error: ModelError | None = None
    choice: ModelChoice | None = None

    @property
    def words(self) -> str:
        return words_of(self.deltas)


async def heard(model: ChatModel, request: ChatRequest) -> Heard:
    found = Heard()

    def chosen(choice: ModelChoice) -> None:
        found.choice = choice

    options = replace(request.failover, on_choice=chosen)
    try:
        async with model.stream(replace(request, failover=options)) as deltas:
            async for delta in deltas:
                found.deltas.append(delta)
    except ModelError as error:
        found.error = error
    return found


class TwoModels:
    """Chains of models at addresses, closed after the test."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self._stack = stack
        self.ahead = 0.0
        """The number of seconds by which the clock of the chains is ahead."""
        self.pauses: list[float] = []
        """The pauses before retries, in seconds."""
        self.models: dict[str, ChatModel] = {}
        self.chains = ModelChains(
            RoleSettings(), self.models.get, clock=lambda: time.monotonic() + self.ahead
        )

    def add(self, name: str, address: str, **settings) -> None:
        fields = {"base_url": address, "model": name, "api_key": "sk-0123456789", **settings}
        model = HttpChatModel(LLMSettings(**fields), sleep=self._pause)
        self._stack.push_async_callback(model.aclose)
        self.models[name] = model

    async def _pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        await anyio.sleep(seconds)

    def chain(self, *names: str) -> ModelChain:
        chain = self.chains.chain(names)
        assert chain is not None
        return chain


@pytest.fixture
async def two():
    async with AsyncExitStack() as stack:
        yield TwoModels(stack)


class TestChainConformance(ChatModelConformance):
    @pytest.fixture
    async def model(self, two: TwoModels):
        def answer(asked: Asked):
            return Answer(chunks=["yes, ", "one ", "two"])

        async with ScriptedModelServer(answer) as server:
            two.add("first", server.base_url)
            two.add("second", server.base_url)
            yield two.chain("first", "second")


async def outcome(case: Failure, folder: Path, two: TwoModels) -> tuple[str, str]:
    """Ask a chain of a model that fails in this way and a model that works. Return whether the
    chain switched, and the reason."""
    async with case.server(folder) as failing, ScriptedModelServer(["from the second"]) as good:
        two.add("first", failing, **case.limits)
        two.add("second", good.base_url)
        chain = two.chain("first", "second")
        await chain.prepare()
        reply = await heard(chain, ask("hi", functions=(DICE,)))
        if reply.words == "from the second":
            assert reply.error is None
            assert reply.choice is not None
            (passed,) = reply.choice.passed
            assert passed.seconds >= (SHORT_S * 0.9 if case.limits else 0.0)
            return SWITCHED, passed.reason.value
        assert not good.requests
        assert isinstance(reply.error, ReplyBroken | ModelRefused)
        assert reply.choice is not None
        assert reply.choice.name == "first"
        return KEPT, ""


@pytest.mark.parametrize("case", FAILURES, ids=lambda case: f"{case.moment}: {case.what}")
async def test_a_failure_at_any_moment_has_the_outcome_of_the_table(
    case: Failure, tmp_path: Path, two: TwoModels
) -> None:
    with anyio.fail_after(40):  # without the limits of the case, a silent server is given 90 s
        found = await outcome(case, tmp_path, two)
    assert found == (SWITCHED if case.reason else KEPT, case.reason)
    assert two.pauses == [], "the next model is asked at once"


async def test_two_models_that_fail_alternately_answer_each_request(two: TwoModels) -> None:
    first = [Answer(status=503), "one", Answer(status=503), "three"]
    second = ["zero", Answer(status=503), "two", Answer(status=503)]
    async with ScriptedModelServer(first) as one, ScriptedModelServer(second) as other:
        two.add("first", one.base_url, retries=0)
        two.add("second", other.base_url, retries=0)
        chain = two.chain("first", "second")
        said = []
        for _ in range(4):
            reply = await heard(chain, ask("hi"))
            said.append(reply.words)
        # The second request goes to the second model, because the first one cools down. The second
        # model fails, so the first one is tried again.
        assert said == ["zero", "one", "two", "three"]
        assert (len(one.requests), len(other.requests)) == (4, 4)
    assert not one.unexpected
    assert not other.unexpected


async def test_a_model_that_cools_down_is_not_asked_and_then_tried_by_one_request(
    two: TwoModels,
) -> None:
    async with (
        ScriptedModelServer([Answer(status=500), "back"]) as one,
        ScriptedModelServer(lambda _: "second") as other,
    ):
        two.add("first", one.base_url)
        two.add("second", other.base_url)
        chain = two.chain("first", "second")
        assert chain.profile.name == "first"
        assert (await heard(chain, ask("hi"))).words == "second"
        assert chain.profile.name == "second"
        cooling = await heard(chain, ask("hi"))
        assert cooling.words == "second"
        assert cooling.choice is not None
        (passed,) = cooling.choice.passed
        assert passed.reason.value == "cooling"
        assert "unreachable" in passed.detail
        assert len(one.requests) == 1
        two.ahead += 30
        assert two.chains.breakers["first"].state is BreakerState.HALF_OPEN
        assert (await heard(chain, ask("hi"))).words == "back"
        assert two.chains.breakers["first"].state is BreakerState.CLOSED


async def test_if_all_fail_the_error_names_each_model_and_its_reason(two: TwoModels) -> None:
    async with (
        ScriptedModelServer([Answer(status=401, error={"message": "bad key"})]) as one,
        ScriptedModelServer([Answer(status=429, retry_after=900)]) as other,
    ):
        two.add("first", one.base_url)
        two.add("second", other.base_url)
        reply = await heard(two.chain("first", "second"), ask("hi"))
    assert isinstance(reply.error, NoModelAnswered)
    assert [(each.name, each.reason.value) for each in reply.error.passed] == [
        ("first", "key"),
        ("second", "quota"),
    ]
    assert "sk-0123456789" not in str(reply.error)


async def test_the_last_model_is_asked_with_its_own_retries(two: TwoModels) -> None:
    async with (
        ScriptedModelServer([Answer(status=500)]) as one,
        ScriptedModelServer([Answer(status=500), "at last"]) as other,
    ):
        two.add("first", one.base_url)
        two.add("second", other.base_url)
        assert (await heard(two.chain("first", "second"), ask("hi"))).words == "at last"
        assert (len(one.requests), len(other.requests)) == (1, 2)


async def test_a_chain_of_one_model_raises_the_models_own_error(two: TwoModels) -> None:
    async with ScriptedModelServer([Answer(status=400, error={"message": "no"})]) as one:
        two.add("first", one.base_url)
        reply = await heard(two.chain("first"), ask("hi"))
    assert type(reply.error).__name__ == "RequestRejected"


async def test_the_cost_of_a_failed_model_is_reported(two: TwoModels) -> None:
    async with (
        ScriptedModelServer([Answer(thoughts=["let me think"], then="break")]) as one,
        ScriptedModelServer(["fine"]) as other,
    ):
        prices = {"prompt_price": 1000.0, "completion_price": 1000.0}
        two.add("first", one.base_url, **prices)
        two.add("second", other.base_url, **prices)
        reply = await heard(two.chain("first", "second"), ask("hi"))
    assert reply.choice is not None
    (passed,) = reply.choice.passed
    assert passed.usage is not None
    assert passed.usage.estimated
    assert passed.cost > 0


class CostLedger:
    """Adds up what is counted."""

    def __init__(self) -> None:
        self.costs: list[float] = []
        self.tokens: list[int] = []

    def check(self) -> None:
        pass

    def now(self) -> float:
        return 1_000.0

    def count(
        self,
        usage: RequestUsage,
        profile: ModelProfile,
        started: float,
        *,
        role: str = "",
        chat: str = "",
        extra_cost: float = 0.0,
    ) -> None:
        self.costs.append(profile.price.of(usage) + extra_cost)
        self.tokens.append(usage.tokens)


async def test_the_cost_of_a_chain_is_counted_if_all_its_models_fail(two: TwoModels) -> None:
    thinking = Answer(thoughts=["let me think"], then="break")
    async with ScriptedModelServer(lambda _: thinking) as server:
        prices = {"prompt_price": 1000.0, "completion_price": 1000.0, "retries": 0}
        two.add("first", server.base_url, **prices)
        two.add("second", server.base_url, **prices)
        ledger = CostLedger()
        reply = await heard(MeteredModel(two.chain("first", "second"), ledger), ask("hi"))
    assert isinstance(reply.error, NoModelAnswered)
    assert ledger.costs == [sum(each.cost for each in reply.error.passed)]
    assert ledger.costs[0] > 0
    assert ledger.tokens == [0], "the tokens of failed models are not counted as an answer"


async def test_an_empty_reply_is_an_answer_if_the_request_allows_it(two: TwoModels) -> None:
    async with ScriptedModelServer([Answer()]) as one, ScriptedModelServer(["no"]) as other:
        two.add("first", one.base_url)
        two.add("second", other.base_url)
        silent = ask("hi", failover=FailoverOptions(may_be_empty=True))
        reply = await heard(two.chain("first", "second"), silent)
        assert (reply.words, reply.error) == ("", None)
        assert not other.requests
    assert isinstance(reply.deltas[0], RequestUsage)


async def test_a_more_expensive_model_is_asked_only_if_the_operator_allows_it(
    two: TwoModels,
) -> None:
    async with (
        ScriptedModelServer(lambda _: Answer(status=500)) as one,
        ScriptedModelServer(lambda _: "dear words") as other,
    ):
        two.add("cheap", one.base_url, prompt_price=1.0, completion_price=2.0, retries=0)
        two.add("dear", other.base_url, prompt_price=2.0, completion_price=9.0)
        reply = await heard(two.chain("cheap", "dear"), ask("hi"))
        assert isinstance(reply.error, NoModelAnswered)
        assert [each.reason.value for each in reply.error.passed] == ["unreachable", "dearer"]
        assert "it costs 3.75, and the chain's first model 1.25" in str(reply.error)
        assert not other.requests
        for allowed in (RoleSettings(allow_dearer=True), RoleSettings(max_price=4.0)):
            two.chains.settings = allowed
            two.chains.changed()
            assert (await heard(two.chain("cheap", "dear"), ask("hi"))).words == "dear words"
        two.chains.settings = RoleSettings(max_price=3.0)
        two.chains.changed()
        assert (await heard(two.chain("cheap", "dear"), ask("hi"))).error is not None


async def test_a_prompt_is_written_again_for_a_model_with_a_smaller_context(
    two: TwoModels,
) -> None:
    async with (
        ScriptedModelServer([Answer(status=500)]) as one,
        ScriptedModelServer(["short"]) as other,
    ):
        two.add("large", one.base_url, context_tokens=100_000)
        two.add("small", other.base_url, context_tokens=4_000)
        chain = two.chain("large", "small")

        async def rewrite(profile) -> ChatRequest:
            return ask(f"a prompt for {profile.context_tokens} tokens")

        options = FailoverOptions(written_for=chain.profile, rewrite=rewrite)
        reply = await heard(chain, ask("a long prompt", failover=options))
        assert reply.words == "short"
        assert one.requests[0].last_user_text == "a long prompt"
        assert other.requests[0].last_user_text == "a prompt for 4000 tokens"


async def test_a_broken_call_is_yielded_with_its_problem_and_not_repeated(two: TwoModels) -> None:
    case = next(each for each in FAILURES if "function call" in each.moment)
    async with case.server(Path()) as failing, ScriptedModelServer(["no"]) as other:
        two.add("first", failing)
        two.add("second", other.base_url)
        reply = await heard(two.chain("first", "second"), ask("hi", functions=(DICE,)))
        assert not other.requests
    (call,) = [each for each in reply.deltas if isinstance(each, FunctionCall)]
    assert call.problem
