"""Shows the library of personas, changes it, and tries a persona on a conversation."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from nekro_core.agent.turn.persona_trial import try_persona
from nekro_core.agent.turn.services import PromptServices
from nekro_core.chat import ChatKey
from nekro_core.llm.model import RequestUsage
from nekro_core.operator.actions import Area, action, query
from nekro_core.operator.audit import AuditLog, Change, UndoCall
from nekro_core.operator.errors import ChangedMeanwhile, InvalidParameters, NoSuchItem
from nekro_core.operator.roles import AccessRole, Actor
from nekro_core.policy.personas import (
    MAX_TEXT,
    Persona,
    PersonaChanged,
    PersonaLibrary,
    UnknownPersona,
)

PersonaName = Annotated[str, Field(min_length=1, max_length=64)]
PersonaText = Annotated[str, Field(max_length=MAX_TEXT)]


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonaLine:
    """A persona in the list.

    Attributes:
        name: Its name.
        revision: The number of its newest version.
        text: The newest version.
        saved_at: When it was saved, in seconds since 1970.
        by: Who saved it.
        removed_at: When it was removed; 0 if it is in use.
    """

    name: str
    revision: int
    text: str
    saved_at: float
    by: str
    removed_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonaReply:
    """What the bot would have written with a persona. Nothing was sent.

    Attributes:
        reply: The text.
        question_seq: The number of the message that it answers, in the chat's history.
        model: The model that was asked.
        seconds: How long it took.
        usage: The tokens; None if the endpoint reported none.
        money: The cost.
    """

    reply: str
    question_seq: int
    model: str
    seconds: float
    usage: RequestUsage | None
    money: float


class Personas(Area):
    """The library of personas.

    Args:
        audit: The audit log.
        library: The personas.
        services: The bot's services, for trials.
    """

    name = "personas"

    def __init__(self, audit: AuditLog, library: PersonaLibrary, services: PromptServices) -> None:
        super().__init__(audit)
        self._library = library
        self._services = services

    @query(role=AccessRole.VIEWER)
    async def all(self, actor: Actor, *, removed: bool = False) -> list[PersonaLine]:  # noqa: ARG002
        """List the personas by name.

        Args:
            removed: List only personas that were removed and can be brought back.
        """
        return [_line(each) for each in self._library.all(removed=removed)]

    @query(role=AccessRole.VIEWER)
    async def one(self, actor: Actor, *, persona: PersonaName) -> Persona:  # noqa: ARG002
        """Get a persona with all its versions.

        Args:
            persona: Its name.
        """
        try:
            return self._library.get(persona)
        except UnknownPersona as error:
            raise NoSuchItem(str(error)) from None

    @query(role=AccessRole.VIEWER)
    async def everywhere(self, actor: Actor) -> str:  # noqa: ARG002
        """Get the name of the persona that all chats without a persona of their own use; empty if
        they use the persona of the settings."""
        return self._services.policies.conduct.book.bot.persona_name or ""

    @action(role=AccessRole.OPERATOR)
    async def use_everywhere(
        self,
        actor: Actor,
        *,
        persona: Annotated[str, Field(max_length=64)] = "",
    ) -> Change[str]:
        """Choose the persona of all chats that have no persona of their own.

        Args:
            persona: Its name; empty for the persona of the settings.
        """
        if persona and self._in_use(persona) is None:
            raise NoSuchItem(f"there is no persona {persona!r}")
        conduct = self._services.policies.conduct
        if conduct.book.bot.persona is not None:
            raise InvalidParameters(
                {
                    "persona": "the policy of the whole bot has a text of its own, which would "
                    "win: remove `persona` from the table [bot] of conduct.toml first"
                }
            )
        old = await self.everywhere(actor)
        await conduct.put(("bot",), "persona_name", persona or None)
        undo = UndoCall(action="personas.use_everywhere", parameters={"persona": old})
        return Change(result=persona, subject=persona or old, old=old, new=persona, undo=undo)

    @action(role=AccessRole.OPERATOR)
    async def save(
        self,
        actor: Actor,
        *,
        persona: PersonaName,
        text: PersonaText,
        revision: int | None = None,
        note: Annotated[str, Field(max_length=500)] = "",
    ) -> Change[PersonaLine]:
        """Save a new persona, or a new version of a persona. Chats that name the persona use the
        new version at once.

        Args:
            persona: Its name.
            text: The text.
            revision: The revision that the person has seen; 0 for a new persona.
            note: Why the version was made.
        """
        old = self._in_use(persona)
        try:
            saved = await self._library.save(
                persona, text, revision=revision, by=actor.name, note=note
            )
        except PersonaChanged as error:
            raise ChangedMeanwhile(str(error)) from None
        return _change(old, saved)

    @action(role=AccessRole.OPERATOR)
    async def restore(
        self, actor: Actor, *, persona: PersonaName, number: Annotated[int, Field(ge=1)]
    ) -> Change[PersonaLine]:
        """Save an older version as the newest one.

        Args:
            persona: The name.
            number: The number of the version.
        """
        old = self._in_use(persona)
        try:
            saved = await self._library.restore(persona, number, by=actor.name)
        except UnknownPersona as error:
            raise NoSuchItem(str(error)) from None
        return _change(old, saved)

    @action(role=AccessRole.OPERATOR)
    async def remove(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        persona: PersonaName,
        revision: int | None = None,
    ) -> Change[None]:
        """Take a persona out of use. It can be brought back. Chats that name it use the bot's own
        persona.

        Args:
            persona: The name.
            revision: The revision that the person has seen.
        """
        try:
            gone = await self._library.remove(persona, revision=revision)
        except PersonaChanged as error:
            raise ChangedMeanwhile(str(error)) from None
        except UnknownPersona as error:
            raise NoSuchItem(str(error)) from None
        undo = UndoCall(action="personas.bring_back", parameters={"persona": gone.name})
        return Change(result=None, subject=gone.name, old=gone.newest.text, undo=undo)

    @action(role=AccessRole.OPERATOR)
    async def bring_back(self, actor: Actor, *, persona: PersonaName) -> Change[PersonaLine]:  # noqa: ARG002
        """Put a removed persona into use again.

        Args:
            persona: The name.
        """
        try:
            back = await self._library.bring_back(persona)
        except UnknownPersona as error:
            raise NoSuchItem(str(error)) from None
        undo = UndoCall(action="personas.remove", parameters={"persona": back.name})
        return Change(result=_line(back), subject=back.name, new=back.newest.text, undo=undo)

    @action(role=AccessRole.OPERATOR)
    async def try_out(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        chat_key: ChatKey,
        persona: PersonaName | None = None,
        text: PersonaText | None = None,
        last: Annotated[int, Field(ge=1, le=200)] = 30,
    ) -> Change[PersonaReply]:
        """Ask the model how it would answer the last message of a chat with a persona. Nothing is
        sent or stored. The request costs tokens.

        Args:
            chat_key: The chat.
            persona: The name of a saved persona.
            text: The text of a persona, which need not be saved. Give either ``text`` or
                ``persona``.
            last: How many of the newest messages the model sees.
        """
        if (persona is None) == (text is None):
            raise InvalidParameters({"persona": "expected either a name or a text"})
        if text is None:
            assert persona is not None
            text = self._library.text(persona)
            if text is None:
                raise NoSuchItem(f"there is no persona {persona!r}")
        trial = await try_persona(self._services, chat_key, text, last=last)
        reply = PersonaReply(
            reply=trial.reply,
            question_seq=trial.question.seq,
            model=trial.model,
            seconds=trial.seconds,
            usage=trial.usage,
            money=trial.money,
        )
        return Change(result=reply, subject=str(chat_key))

    def _in_use(self, name: str) -> Persona | None:
        try:
            persona = self._library.get(name)
        except UnknownPersona:
            return None
        return None if persona.removed_at else persona


def _line(persona: Persona) -> PersonaLine:
    newest = persona.newest
    return PersonaLine(
        name=persona.name,
        revision=persona.revision,
        text=newest.text,
        saved_at=newest.saved_at,
        by=newest.by,
        removed_at=persona.removed_at,
    )


def _change(old: Persona | None, saved: Persona) -> Change[PersonaLine]:
    undo = UndoCall(action="personas.remove", parameters={"persona": saved.name})
    if old is not None:
        parameters = {"persona": saved.name, "number": old.revision}
        undo = UndoCall(action="personas.restore", parameters=parameters)
    return Change(
        result=_line(saved),
        subject=saved.name,
        old=old.newest.text if old else None,
        new=saved.newest.text,
        undo=undo,
    )
