"""How the bot behaves in a chat now: the settings, and over them what the operator says of it."""

from collections.abc import Callable
from dataclasses import dataclass

from loguru import logger

from nekro_core.chat import Author, ChatKey, Record
from nekro_core.llm.model import ChatModel
from nekro_core.policy import ChatOverrides, ChatState, PolicyFile, Quota
from nekro_core.policy.settings import Mode, PolicyDefaults, TriggerSettings

_DEFAULT = "default"
"""The name of the bot's own model among the groups."""
_MOST_KNOWN = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatPolicy:
    """What counts in one chat. ``chat_quota`` and ``person_quota`` leave nothing open."""

    state: ChatState
    names: tuple[str, ...]
    persona: str
    trigger: TriggerSettings
    mode: Mode
    model: ChatModel
    ignored: frozenset[str]
    chat_quota: Quota
    person_quota: Quota


class PolicyResolver:
    """The manner of each chat; what is changed in the file counts at once. ``models`` finds a
    further model by the name of its group."""

    def __init__(
        self,
        conduct: PolicyFile,
        settings: PolicyDefaults,
        trigger: TriggerSettings,
        model: ChatModel,
        models: Callable[[str], ChatModel | None] = lambda _: None,
        *,
        adapter_of: Callable[[str], str] = lambda instance: instance.partition(".")[0],
    ) -> None:
        self.conduct = conduct
        self._settings = settings
        self._trigger = trigger
        self._model = model
        self._models = models
        self._adapter_of = adapter_of
        self._known: dict[ChatKey, tuple[ChatOverrides, ChatPolicy]] = {}
        conduct.listen(self._known.clear)

    def of(self, chat_key: ChatKey) -> ChatPolicy:
        """How the bot behaves there."""
        said = self.conduct.of(chat_key)
        known = self._known.get(chat_key)
        if known is None or known[0] is not said:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            known = self._known[chat_key] = said, self._made(chat_key, said)
        return known[1]

    def person_quota(self, chat_key: ChatKey, user_id: str) -> Quota:
        """What a person who asks there may use."""
        instance = chat_key.instance
        person = self.conduct.person(self._adapter_of(instance), instance, user_id)
        return person.quota.over(self.of(chat_key).person_quota)

    def hears(self, record: Record) -> bool:
        """Whether a record is any of the agent's business: the chat is on, and nobody wrote it
        who is ignored there."""
        manner = self.of(record.chat_key)
        if manner.state is not ChatState.ON:
            return False
        return record.author is not Author.PERSON or not self.is_ignored(record)

    def is_ignored(self, record: Record) -> bool:
        """Whether whoever wrote it is ignored there."""
        user_id, instance = record.sender.user_id, record.chat_key.instance
        if not user_id:
            return False
        if user_id in self.of(record.chat_key).ignored:
            return True
        return self.conduct.person(self._adapter_of(instance), instance, user_id).ignored

    def _made(self, chat_key: ChatKey, said: ChatOverrides) -> ChatPolicy:
        settings, turn = self._settings, self._settings.turn
        trigger = self._trigger
        if said.private is not None:
            trigger = trigger.model_copy(update={"private": said.private})
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
            state=said.state or ChatState.ON,
            names=settings.names if said.names is None else said.names,
            persona=settings.persona if said.persona is None else said.persona,
            trigger=trigger,
            mode=said.mode or settings.mode_of(chat_key),
            model=self._model_of(chat_key, said.model or _DEFAULT),
            ignored=said.ignore,
            chat_quota=said.chat_quota.over(of_chats),
            person_quota=said.person_quota.over(of_people),
        )

    def _model_of(self, chat_key: ChatKey, name: str) -> ChatModel:
        if name == _DEFAULT:
            return self._model
        found = self._models(name)
        if found is None:
            logger.error("{}: there is no model {!r}; the bot's own answers", chat_key, name)
        return found or self._model
