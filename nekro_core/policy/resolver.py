"""Computes how the bot behaves in a chat, from the settings and the operator's overrides."""

from collections.abc import Callable
from dataclasses import dataclass

from loguru import logger

from nekro_core.chat import Author, ChatKey, Record
from nekro_core.llm.model import ChatModel
from nekro_core.policy import ChatOverrides, ChatState, PolicyFile, Quota
from nekro_core.policy.settings import Mode, PolicyDefaults, TriggerSettings
from nekro_core.policy.tool_choice import ToolChoice

_DEFAULT = "default"
"""The name of the bot's default model among the model groups."""
_MOST_CACHED = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatPolicy:
    """The settings in force in one chat. No field of ``chat_quota`` and ``person_quota`` is
    None."""

    state: ChatState
    names: tuple[str, ...]
    persona: str
    trigger: TriggerSettings
    mode: Mode
    model: ChatModel
    tools: ToolChoice
    ignored: frozenset[str]
    chat_quota: Quota
    person_quota: Quota


class PolicyResolver:
    """Computes the policy of each chat. A change of the overrides file takes effect at once.

    Args:
        conduct: The operator's overrides.
        settings: The settings in force without overrides.
        trigger: The trigger settings in force without overrides.
        model: The bot's default model.
        models: Returns another model by the name of its group, or a chain by several names
            (``fast,strong``).
        personas: Returns a persona of the library by its name.
        adapter_of: Returns the name of an instance's adapter.
        saving: Called with the share of a daily budget that is left, from 0 to 1. Returns the
            cheaper model that answers then; None if the chat's own model answers.
    """

    def __init__(
        self,
        conduct: PolicyFile,
        settings: PolicyDefaults,
        trigger: TriggerSettings,
        model: ChatModel,
        models: Callable[[str], ChatModel | None] = lambda _: None,
        *,
        personas: Callable[[str], str | None] = lambda _: None,
        adapter_of: Callable[[str], str] = lambda instance: instance.partition(".")[0],
        saving: Callable[[float], ChatModel | None] = lambda _: None,
    ) -> None:
        self.conduct = conduct
        self._settings = settings
        self._trigger = trigger
        self._model = model
        self._models = models
        self._personas = personas
        self._adapter_of = adapter_of
        self.saving_model = saving
        self._cached: dict[ChatKey, tuple[ChatOverrides, ChatPolicy]] = {}
        self._latest: dict[Mode, tuple[ChatOverrides, ChatPolicy]] = {}
        """The policy that was computed last, for each mode. Most chats have no table of their own
        in the overrides file, so they share one policy, which takes 1.4 kB."""
        conduct.listen(self.recompute)

    def recompute(self) -> None:
        """Compute all policies anew when they are needed next, because the settings, the overrides,
        the models or the personas changed."""
        self._cached.clear()
        self._latest.clear()

    def of(self, chat_key: ChatKey) -> ChatPolicy:
        """Return the policy of a chat."""
        overrides = self.conduct.of(chat_key)
        cached = self._cached.get(chat_key)
        if cached is None or cached[0] is not overrides:
            if len(self._cached) >= _MOST_CACHED:
                self._cached.clear()
            cached = self._cached[chat_key] = self._resolved(chat_key, overrides)
        return cached[1]

    def names_of_other_accounts(self, chat_key: ChatKey) -> tuple[str, ...]:
        """Return the names by which people call the bot's other accounts, without the names that
        the account of this chat has too."""
        if not self.conduct.book.accounts:
            return ()
        own = {name.casefold() for name in self.of(chat_key).names}
        return tuple(
            name
            for instance, overrides in self.conduct.book.accounts.items()
            if instance != chat_key.instance
            for name in overrides.names or ()
            if name.casefold() not in own
        )

    def model_named(self, name: str) -> ChatModel | None:
        """Return the model with a name: the model of a group, a chain for several names
        (``fast,strong``), or the bot's default model for ``default``. Returns None if there is no
        such model, or if it does not answer chat requests."""
        return self._model if name == _DEFAULT else self._models(name)

    def person_quota(self, chat_key: ChatKey, user_id: str) -> Quota:
        """Return the quota of a person in a chat."""
        instance = chat_key.instance
        person = self.conduct.person(self._adapter_of(instance), instance, user_id)
        return person.quota.over(self.of(chat_key).person_quota)

    def hears(self, record: Record) -> bool:
        """Return whether a record is passed to the agent: the chat is on, and the record's author
        is not ignored."""
        policy = self.of(record.chat_key)
        if policy.state is not ChatState.ON:
            return False
        return record.author is not Author.PERSON or not self.is_ignored(record)

    def is_ignored(self, record: Record) -> bool:
        """Return True if a record gets no answer: a plugin of NoneBot answered it, or the overrides
        say that its author is ignored, either in this chat or on the whole account or platform."""
        if record.answered_elsewhere:
            return True
        user_id, instance = record.sender.user_id, record.chat_key.instance
        if not user_id:
            return False
        if user_id in self.of(record.chat_key).ignored:
            return True
        return self.conduct.person(self._adapter_of(instance), instance, user_id).ignored

    def _resolved(
        self, chat_key: ChatKey, overrides: ChatOverrides
    ) -> tuple[ChatOverrides, ChatPolicy]:
        mode = overrides.mode or self._settings.mode_of(chat_key)
        latest = self._latest.get(mode)
        if latest is None or latest[0] is not overrides:
            policy = self._resolve(chat_key, overrides, mode)
            latest = self._latest[mode] = overrides, policy
        return latest

    def _resolve(self, chat_key: ChatKey, overrides: ChatOverrides, mode: Mode) -> ChatPolicy:
        settings, turn = self._settings, self._settings.turn
        trigger = self._trigger
        if overrides.private is not None:
            trigger = trigger.model_copy(update={"private": overrides.private})
        if overrides.participation is not None:
            of_chat = trigger.participation.model_copy(update={"mode": overrides.participation})
            trigger = trigger.model_copy(update={"participation": of_chat})
        of_chats = Quota(
            turns=turn.chat_turns_a_day,
            tokens=turn.chat_tokens_a_day,
            money=turn.chat_money_a_day,
        )
        of_people = Quota(
            turns=turn.user_turns_a_day,
            tokens=turn.user_tokens_a_day,
            money=turn.user_money_a_day,
        )
        return ChatPolicy(
            state=overrides.state or ChatState.ON,
            names=settings.names if overrides.names is None else overrides.names,
            persona=self._persona_of(chat_key, overrides),
            trigger=trigger,
            mode=mode,
            model=self._model_of(chat_key, overrides.model or _DEFAULT),
            tools=ToolChoice.of(overrides.tools),
            ignored=overrides.ignore,
            chat_quota=overrides.chat_quota.over(of_chats),
            person_quota=overrides.person_quota.over(of_people),
        )

    def _persona_of(self, chat_key: ChatKey, overrides: ChatOverrides) -> str:
        if overrides.persona is not None:
            return overrides.persona
        if not overrides.persona_name:
            return self._settings.persona
        persona = self._personas(overrides.persona_name)
        if persona is None:
            name = overrides.persona_name
            logger.error("{}: there is no persona {!r}; the bot's own is used", chat_key, name)
        return self._settings.persona if persona is None else persona

    def _model_of(self, chat_key: ChatKey, name: str) -> ChatModel:
        if name == _DEFAULT:
            return self._model
        model = self._models(name)
        if model is None:
            logger.error("{}: there is no model {!r}; the default model answers", chat_key, name)
        return model or self._model
