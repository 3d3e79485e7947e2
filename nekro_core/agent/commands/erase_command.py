"""Defines ``/erase``, which erases a person when that person or a super user asks for it."""

from collections.abc import AsyncIterator
from math import ceil
from typing import Annotated, Literal

from loguru import logger

from nekro_core.agent.commands.services import CommandServices, command_texts
from nekro_core.agent.erasure.erasure import PersonErasure
from nekro_core.chat import ChatKey
from nekro_core.plugins.authoring.command_response import CmdCtl, CommandResponse
from nekro_core.plugins.authoring.commands import Command, CommandExecutionContext
from nekro_core.plugins.commands.arguments import Arg
from nekro_core.policy.permissions import CommandPermission
from nekro_core.policy.quotas import DAY_S
from nekro_core.store import Person

_ME = "me"
_AGAIN_S = 600.0
"""Minimum number of seconds between two erasures of one member, because an erasure rewrites the
whole database while all chats wait. If any quota is set, the time is `DAY_S` instead. An erasure
also deletes the record of how much of a quota was used. So a member could erase themselves to get a
new quota."""
_MOST_KNOWN = 1000


def erase_command(services: CommandServices, erasing: PersonErasure) -> Command:
    """Return the command. Without its argument ``sure`` it only says what would be erased."""
    say = services.catalogue.say
    done_at: dict[int, float] = {}  # keys are hashes: no id of an erased person may be stored

    def waits_s(person: Person, chat_key: ChatKey) -> float:
        done = done_at.get(hash((person.adapter, person.user_id)))
        if done is None:
            return 0.0
        policies = services.policies
        quotas = (
            *policies.conduct.book.quotas(),
            policies.person_quota(chat_key, person.user_id),
            policies.of(chat_key).chat_quota,
        )
        bounded = any(value for quota in quotas for _, value in quota)
        return max(done + (DAY_S if bounded else _AGAIN_S) - services.clock(), 0.0)

    def note(person: Person) -> None:
        done_at[hash((person.adapter, person.user_id))] = services.clock()
        if len(done_at) > _MOST_KNOWN:
            del done_at[next(iter(done_at))]

    async def plan(person: Person, lang: str) -> CommandResponse:
        traces = await erasing.look(person)
        return CmdCtl.message(
            say(
                "own.erase.plan",
                lang,
                messages=traces.messages,
                chats=len(traces.chats),
                turns=traces.turns,
                files=len({medium.path for _, medium in traces.media}),
                boxes=len(traces.with_boxes),
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
        chat_key = ChatKey.parse(context.chat_key)
        person = erasing.person(chat_key, user_id)
        if not sure:
            yield await plan(person, lang)
            return
        if not context.is_super_user and (wait := waits_s(person, chat_key)):
            yield CmdCtl.failed(say("own.erase.lately", lang, minutes=ceil(wait / 60)))
            return
        done = await services.actions.now.erase(context, chat_key, user_id)
        note(person)
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
        # The answer has been sent. Now delete the command and the answer too.
        await erasing.finish(person, record.seq)
        logger.info("a person was erased: {} messages, {} chats", done.messages, done.chats)

    return Command(
        name="erase",
        handler=erase,
        permission=CommandPermission.USER,
        **command_texts(services.catalogue, "erase"),
    )
