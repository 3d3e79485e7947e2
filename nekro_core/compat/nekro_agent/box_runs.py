"""Runs code of plugins in the boxes of chats."""

import uuid
from functools import partial

import anyio

from nekro_core.agent.prompt.transcript import media_of
from nekro_core.agent.turn.boxes import LAST_WORDS_S, ChatBox
from nekro_core.agent.turn.run_calls import RunCalls, guest_functions
from nekro_core.agent.turn.services import TurnServices
from nekro_core.chat import ChatKey
from nekro_core.compat.nekro_agent.plugin_run import Asker, PluginRun
from nekro_core.sandbox.box import (
    Answer,
    BackendUnavailable,
    BoxLost,
    GuestCall,
    GuestFunction,
    GuestValue,
    RunResult,
    StopReason,
)
from nekro_core.tools.outcome import ToolFailure


class ChatCodeRunner:
    """Runs code in the same way as the code of a model's reply: in the chat's box, with the same
    tools and limits. The code gets its own variables. If a turn is running code in this box, the
    plugin's code waits for the turn.
    """

    def __init__(self, services: TurnServices) -> None:
        self._services = services

    async def run(self, chat: ChatKey, code: str, asker: Asker) -> PluginRun:
        """Run code, and store the run with its calls. Raises `StoreUnavailable`, and `ToolFailure`
        if there is no box or if the box is lost."""
        services, boxes = self._services, self._services.boxes
        if boxes.unavailable:
            raise ToolFailure(f"no code can run here: {boxes.unavailable}")
        try:
            chat_box = await boxes.open(chat)
        except (BackendUnavailable, BoxLost) as error:
            raise ToolFailure(f"no code can run in {chat}: {error}") from error
        try:
            records = await services.store.messages.newest(chat, services.settings.prompt.history)
            await chat_box.put_uploads([media for record in records for media in media_of(record)])
            return await self._run(chat, code, asker, chat_box)
        except BoxLost as error:
            raise ToolFailure(f"the box of {chat} was lost: {error}") from error
        finally:
            with anyio.move_on_after(LAST_WORDS_S, shield=True):
                await boxes.close(chat, chat_box, changed=True)

    async def _run(self, chat: ChatKey, code: str, asker: Asker, chat_box: ChatBox) -> PluginRun:
        services, runs, run_id = self._services, self._services.store.runs, uuid.uuid4().hex
        ctx = services.plugins.context_for(
            chat,
            user_id=asker.user_id,
            user_name=asker.user_name,
            message_id=asker.message_id,
            run_id=run_id,
            box=chat_box.box,
        )
        tools = await services.plugins.tools_in(ctx)
        calls = RunCalls(
            tools,
            ctx,
            note=partial(services.inbox.note, chat, run_id=run_id),
            clock=services.clock,
            wall=services.wall,
        )

        async def answer(call: GuestCall) -> Answer:
            return calls.code_answer(call.name, await calls.call(call))

        extras = services.plugins.box_extras(ctx)
        await chat_box.put_links(extras.links)
        names: list[GuestFunction | GuestValue] = [*tools.once(guest_functions)]
        names += [GuestValue(name, text) for name, text in extras.values.items()]
        await runs.begin(run_id, chat, code=code)
        result = RunResult(stop=StopReason.CANCELLED)
        try:
            run = await chat_box.box.start_run(names, answer, services.run_limits)
            try:
                await run.feed(code, 1)
                result = await run.finish()
            except BaseException:
                with anyio.move_on_after(LAST_WORDS_S, shield=True):
                    await run.cancel()
                raise
        finally:
            with anyio.move_on_after(LAST_WORDS_S, shield=True):
                if unsaved := calls.take_unsaved():
                    await runs.add_calls(run_id, unsaved)
                await runs.end(
                    run_id,
                    output=result.output,
                    stop=result.stop.value,
                    error=result.error,
                    seconds=result.seconds,
                )
        return PluginRun(result=result, observed=tuple(calls.observed))
