"""``/erase``: a person is forgotten, at their own word or an operator's."""

from collections.abc import AsyncIterator
from functools import partial
from typing import Annotated, Literal, Protocol

from loguru import logger

from nekro_core.agent.describing import described
from nekro_core.agent.erasing import Erasing
from nekro_core.agent.ports import Ports
from nekro_core.chat import ChatKey
from nekro_core.plugin.commands.access import CommandPermission
from nekro_core.plugin.commands.arguments import Arg
from nekro_core.plugin.commands.command import Command, CommandExecutionContext
from nekro_core.plugin.commands.response import CmdCtl, CommandResponse
from nekro_core.store import Person

_ME = "me"


class Forgetting(Protocol):
    """The sessions, as far as this goes."""

    async def stop(self, chat_key: ChatKey) -> bool:
        """Stop the chat's turn."""

    def forget_person(self, chat_key: ChatKey, user_id: str) -> None:
        """Drop what a person said and nobody has answered."""


def erase_command(ports: Ports, erasing: Erasing, sessions: Forgetting) -> Command:
    """The command. Said once it tells what there is; with ``sure`` behind it, it is done."""
    say = ports.catalogue.say

    async def plan(person: Person, lang: str) -> CommandResponse:
        traces = await erasing.look(person)
        boxes = {*traces.private, *traces.worked, *(chat for chat, _ in traces.media)}
        return CmdCtl.message(
            say(
                "own.erase.plan",
                lang,
                messages=traces.messages,
                chats=len(traces.chats),
                turns=traces.turns,
                files=len({medium.path for _, medium in traces.media}),
                boxes=len(boxes),
            )
        )

    async def erase(
        context: CommandExecutionContext,
        who: Annotated[str, Arg(positional=True)] = _ME,
        sure: Annotated[Literal["", "sure"], Arg(positional=True)] = "",
    ) -> AsyncIterator[CommandResponse]:
        lang, record = context.lang, context.record
        assert record is not None
        user_id = context.user_id if who == _ME else who
        if user_id != context.user_id and not context.is_super_user:
            yield CmdCtl.failed(say("own.erase.not_allowed", lang))
            return
        if not user_id:
            yield CmdCtl.failed(say("command.nobody", lang))
            return
        person = erasing.person(ChatKey.parse(context.chat_key), user_id)
        if not sure:
            yield await plan(person, lang)
            return
        ctx = context.ctx
        assert ctx is not None
        done = await erasing.erase(
            person,
            stop=sessions.stop,
            drop=sessions.forget_person,
            plugins=partial(ports.plugins.on_user_erase, ctx, person.adapter, user_id),
        )
        answer = say(
            "own.erase.done",
            lang,
            messages=done.messages,
            chats=done.chats,
            turns=done.turns,
            files=done.files,
            boxes=done.boxes,
            others=done.others + done.elsewhere,
        )
        if left := len(done.left):
            answer = f"{answer}\n{say('own.erase.left', lang, count=left)}"
        yield CmdCtl.success(answer)
        # The answer has been sent. That it was, and the line that asked for it, go as well.
        await erasing.finish(person, record.seq)
        logger.info("a person was erased: {} messages, {} chats", done.messages, done.chats)

    return Command(
        name="erase",
        handler=erase,
        permission=CommandPermission.USER,
        **described(ports.catalogue, "erase"),
    )
