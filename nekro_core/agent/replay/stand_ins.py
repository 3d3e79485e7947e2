"""The objects that a replay uses in place of the platform, the policy, the plugins, and the model
with its hooks."""

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace

from nekro_core.agent.turn.services import PromptPlugins
from nekro_core.chat import ChatKey, Delivery, DeliveryState, Receipt, Text
from nekro_core.delivery.adapter import Capabilities
from nekro_core.llm.model import ChatModel, ChatRequest, Delta, ModelProfile
from nekro_core.plugins.authoring.context import AgentCtx
from nekro_core.plugins.authoring.services import BoxFiles, MessageSender
from nekro_core.plugins.host.hooks import PromptInjection
from nekro_core.plugins.host.kinds import BoxExtras
from nekro_core.policy import Quota
from nekro_core.policy.resolver import ChatPolicy, PolicyResolver
from nekro_core.tools.names import ToolSet


class ShownPlatform:
    """An adapter that sends nothing. It reports every message as arrived."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._sent = 0

    def capabilities(self, chat_key: ChatKey) -> Capabilities:  # noqa: ARG002
        """See `Adapter.capabilities`."""
        return Capabilities(inline=frozenset({Text}), alone=frozenset())

    async def send(self, delivery: Delivery) -> Receipt:  # noqa: ARG002
        """Return a receipt that says that the message has arrived."""
        self._sent += 1
        return Receipt(state=DeliveryState.SENT, message_id=f"replay-{self._sent}")

    async def own_accounts(self, chat_key: ChatKey) -> frozenset[str]:  # noqa: ARG002
        """See `Adapter.own_accounts`."""
        return frozenset()

    async def start(self) -> None:
        """Do nothing."""

    async def aclose(self) -> None:
        """Do nothing."""


class UnhookedModel:
    """A model whose requests name no chat, so that the hooks of plugins do not change them."""

    def __init__(self, model: ChatModel) -> None:
        self._model = model

    @property
    def profile(self) -> ModelProfile:
        """See `ChatModel`."""
        return self._model.profile

    def stream(self, request: ChatRequest) -> AbstractAsyncContextManager[AsyncIterator[Delta]]:
        """See `ChatModel`."""
        return self._model.stream(replace(request, chat=""))

    async def prepare(self, likely: Sequence[ChatRequest] = ()) -> None:
        """Do nothing."""

    async def aclose(self) -> None:
        """Do nothing: the bot still uses the model."""


class ReplayPlugins:
    """The bot's plugins, without running their code: the functions that the plugins offer now, and
    the texts that the plugins added to the original prompt."""

    def __init__(
        self,
        plugins: PromptPlugins,
        sender: MessageSender,
        injections: Sequence[PromptInjection],
    ) -> None:
        self._plugins = plugins
        self._sender = sender
        self._injections = tuple(injections)

    def tools_for(self, chat_key: ChatKey) -> ToolSet:
        """See `PromptPlugins`."""
        return self._plugins.tools_for(chat_key)

    async def tools_in(self, ctx: AgentCtx) -> ToolSet:
        """Return the tools of the chat's adapter. Plugins are not asked which tools they offer in
        this context."""
        return self._plugins.tools_for(ctx.chat)

    def box_extras(self, ctx: AgentCtx) -> BoxExtras:
        """See `PromptPlugins`."""
        return self._plugins.box_extras(ctx)

    def context_for(
        self,
        chat_key: ChatKey,
        *,
        user_id: str = "",
        user_name: str = "",
        message_id: str = "",
        run_id: str = "",
        box: BoxFiles | None = None,
    ) -> AgentCtx:
        """See `PromptPlugins`. Messages are only shown."""
        ctx = self._plugins.context_for(
            chat_key,
            user_id=user_id,
            user_name=user_name,
            message_id=message_id,
            run_id=run_id,
            box=box,
        )
        return replace(ctx, services=replace(ctx.services, outgoing=self._sender))

    async def prompt_injections(
        self,
        ctx: AgentCtx,  # noqa: ARG002
        asleep: Collection[str] = (),  # noqa: ARG002
    ) -> tuple[PromptInjection, ...]:
        """Return the texts of the original prompt."""
        return self._injections


class ReplayPolicies(PolicyResolver):
    """The policy of one chat with the replay's changes. Quotas do not apply."""

    def __init__(self, policies: PolicyResolver, policy: ChatPolicy) -> None:
        self.conduct = policies.conduct
        self.saving_model = lambda _: None
        self._policy = replace(policy, chat_quota=Quota(), person_quota=Quota())

    def of(self, chat_key: ChatKey) -> ChatPolicy:  # noqa: ARG002
        """See `PolicyResolver.of`."""
        return self._policy

    def person_quota(self, chat_key: ChatKey, user_id: str) -> Quota:  # noqa: ARG002
        """See `PolicyResolver.person_quota`."""
        return Quota()
