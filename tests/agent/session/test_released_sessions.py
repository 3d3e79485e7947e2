"""A process that shares the work gives chats up. It ends their sessions without answering, and the
process that takes the chats over continues their work."""

from collections.abc import AsyncIterator
from pathlib import Path

import anyio

from nekro_core.agent.session.given_records import GivenRecords
from nekro_core.chat import ChatKey
from nekro_core.llm.scripted import ScriptedModel
from tests.agent.bot import GROUP, LIN, LONG, answer, fence, running_bot, until
from tests.agent.conftest import BoxCache
from tests.agent.shared_work import REST, EchoCommand, HaltingReply


def in_group(chat_key: ChatKey) -> bool:
    return chat_key == GROUP


async def test_waiting_messages_of_a_released_chat_are_answered_by_its_next_owner(
    folder: Path, boxes: BoxCache
) -> None:
    model = ScriptedModel([answer("the other chat"), answer("here")])
    async with running_bot(folder, boxes, model, trigger=LONG) as bot:
        await bot.say("Nekro, are you there?", GROUP, to_bot=True)
        await bot.say("and here?")
        assert bot.sessions.live_count == 2
        await bot.sessions.release(in_group)
        assert bot.sessions.live_count == 1
        assert await bot.turns(GROUP) == []
        async with bot.turn():
            bot.typed()
        assert bot.said() == ["the other chat"]

        await bot.sessions.recover(in_group)
        async with bot.turn(GROUP):
            bot.typed(GROUP)
        assert bot.said(GROUP) == ["here"]


async def test_a_running_turn_of_a_released_chat_is_resumed_by_its_next_owner(
    folder: Path, boxes: BoxCache
) -> None:
    halting = HaltingReply()
    async with running_bot(folder, boxes, ScriptedModel([halting.chunks(), REST])) as bot:
        await bot.say("count")
        await halting.begun.wait()
        await until(lambda: bot.said() == ["one"])
        await bot.sessions.release(lambda _: True)
        assert not bot.sessions.working(LIN)
        turn = await bot.last_turn()
        assert turn.running, "the next owner must find the turn"

        async with bot.turn():
            await bot.sessions.recover(lambda _: True)
        assert bot.said() == ["one", "two"]
        turn = await bot.last_turn()
        assert (turn.stop, turn.attempts) == ("finished", 2)


async def test_a_chat_that_was_released_gets_a_new_session(folder: Path, boxes: BoxCache) -> None:
    model = ScriptedModel([answer("again")])
    async with running_bot(folder, boxes, model, trigger=LONG) as bot:
        await bot.say("first")
        await bot.sessions.release(lambda _: True)
        # The release ends a session before its task has made a step, too.
        await bot.sessions.recover(lambda _: True)
        await bot.sessions.release(lambda _: True)
        assert bot.sessions.live_count == 0
        await bot.sessions.recover(lambda _: True)
        async with bot.turn():
            await bot.say("second")
            bot.typed()
        assert bot.said() == ["again"]
        assert "> first" in bot.prompt()


async def test_a_record_that_is_found_twice_is_given_to_its_session_once(
    folder: Path, boxes: BoxCache
) -> None:
    prepared: list[ChatKey] = []

    async def prepare(chat_key: ChatKey) -> None:
        prepared.append(chat_key)

    model = ScriptedModel([answer("one answer")])
    async with running_bot(folder, boxes, model, trigger=LONG) as bot:
        record = await bot.say("are you there?")
        command = await bot.say("/help")
        await bot.sessions.release(lambda _: True)
        given = GivenRecords()
        await bot.sessions.recover(lambda _: True, prepare=prepare, given=given)
        assert prepared == [LIN]
        assert record.seq in given
        assert not given.add(record.seq)
        assert command.seq in given
        await bot.sessions.look(lambda _: True, prepare=prepare, given=given)
        assert prepared == [LIN], "nothing is new"
        # Another process stores a record and ends before it publishes it.
        late = await bot.store.messages.newest_seq() + 1
        await bot.journal.note(GROUP, "it is four o'clock", trigger=True)
        assert late not in given
        await bot.sessions.look(in_group, prepare=prepare, given=given)
        assert prepared == [LIN, GROUP]
        assert late in given


async def test_a_turn_does_not_read_records_that_were_not_given_to_its_session(
    folder: Path, boxes: BoxCache
) -> None:
    """Another process, which receives the messages, has stored a second question. The turn could
    read this question with the history, before the plugins' hooks have seen it."""
    stored, asked = anyio.Event(), anyio.Event()

    async def first() -> AsyncIterator[str]:
        asked.set()
        await stored.wait()
        yield fence("print('a step')")

    model = ScriptedModel([first(), answer("to the first"), answer("to the second")])
    async with running_bot(folder, boxes, model, feeds=False) as bot:
        given = GivenRecords()
        bot.sessions.given_of = lambda _: given
        one = await bot.store_only("one?")
        async with bot.turn():
            bot.sessions.on_shared_record(one, given)
            await asked.wait()
            two = await bot.store_only("and two?")
            stored.set()
        assert bot.said() == ["to the first"]
        assert "and two?" not in bot.prompt()
        async with bot.turn():
            bot.sessions.on_shared_record(two, given)
        bot.sessions.on_shared_record(two, given)
        await anyio.sleep(0.1)
        assert bot.said() == ["to the first", "to the second"]
        assert "> and two?" in bot.prompt()


async def test_a_turn_knows_what_was_answered_after_a_question_that_it_does_not_know_yet(
    folder: Path, boxes: BoxCache
) -> None:
    """Three questions have waited for an owner. It is given one after the other. The answer to the
    first one is newer than the third question, which the second turn must not read yet."""
    model = ScriptedModel([answer("to the first"), answer("to the second")])
    async with running_bot(folder, boxes, model, feeds=False) as bot:
        given = GivenRecords()
        bot.sessions.given_of = lambda _: given
        one, two = await bot.store_only("one?"), await bot.store_only("and two?")
        await bot.store_only("and three?")
        async with bot.turn():
            bot.sessions.on_shared_record(one, given)
        async with bot.turn():
            bot.sessions.on_shared_record(two, given)
        assert bot.said() == ["to the first", "to the second"]
        assert "to the first" in bot.prompt()
        assert "and three?" not in bot.prompt()


async def test_a_command_that_another_owner_has_begun_does_not_run(
    folder: Path, boxes: BoxCache
) -> None:
    echo = EchoCommand()
    async with running_bot(folder, boxes, ScriptedModel([]), feeds=False) as bot:
        bot.commands.book.add_builtin(echo.command)
        begun = await bot.store_only("/echo begun")
        assert await bot.store.decisions.claim_command(begun.seq)
        assert not await bot.store.decisions.claim_command(begun.seq)
        await bot.store_only("/echo left")
        given = GivenRecords()

        async def prepare(_: ChatKey) -> None:
            return

        await bot.sessions.recover(lambda _: True, prepare=prepare, given=given)
        await until(lambda: echo.calls == ["left"])
        bot.sessions.on_shared_record(begun, given)
        bot.sessions.on_shared_record(await bot.store_only("/echo new"), given)
        await until(lambda: echo.calls == ["left", "new"])
        await bot.sessions.look(lambda _: True, prepare=prepare, given=given)
        await anyio.sleep(0.1)
        assert echo.calls == ["left", "new"]


async def test_records_of_a_person_whom_another_process_erases_are_not_answered(
    folder: Path, boxes: BoxCache
) -> None:
    asked = anyio.Event()

    async def endless() -> AsyncIterator[str]:
        asked.set()
        await anyio.sleep_forever()
        yield ""

    model = ScriptedModel([endless()])
    async with running_bot(folder, boxes, model) as bot:
        async with bot.turn():
            await bot.say("forget me")
            await asked.wait()
            # This question waits until the turn has ended.
            await bot.say("and here", user="mei")
            for user in ("lin", "mei"):
                person = bot.runtime.erasure.person(LIN, user)
                await bot.store.erasing.erase(person, await bot.store.erasing.look(person))
            await bot.sessions.forget_erased()
        assert bot.said() == []
        assert len(model.requests) == 1


def test_numbers_of_given_records_are_forgotten_once_all_before_them_were_given() -> None:
    given = GivenRecords()
    assert [given.add(seq) for seq in (7, 9, 7)] == [True, True, False]
    given.all_through(8)
    assert len(given) == 1
    assert [seq in given for seq in (1, 8, 9, 10)] == [True, True, True, False]
    given.all_through(3)
    assert 8 in given
