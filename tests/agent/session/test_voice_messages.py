"""The words of a voice message are added to its record. The turn waits for these words."""

import re
import time
from pathlib import Path

import anyio

from nekro_core.chat import Author, Record, Text, Voice
from nekro_core.llm.scripted import ScriptedModel
from nekro_core.media.plain_wav import plain_wav_seconds
from tests.agent.bot import GROUP, LIN, Bot, running_bot
from tests.agent.conftest import BoxCache
from tests.media.sounds import silk, wav
from tests.speech.fake_transcriber import FakeTranscriber


async def voice(bot: Bot, data: bytes, name: str = "a.silk", chat=LIN) -> Voice:
    """Store a voice as an adapter does. Returns its segment."""
    media = await bot.media.keep_bytes(chat, data, name=name, expect="audio")
    assert not media.problem
    return Voice(media)


async def newest(bot: Bot, chat=LIN) -> Record:
    return next(
        r for r in reversed(await bot.store.messages.newest(chat, 9)) if r.author is Author.PERSON
    )


def _text(record: Record) -> str:
    return "".join(each.text for each in record.segments if isinstance(each, Voice))


async def test_a_question_in_a_voice_message_is_answered(folder: Path, boxes: BoxCache) -> None:
    transcriber = FakeTranscriber("How late is it?")
    model = ScriptedModel(["Half past nine."])
    async with running_bot(folder, boxes, model, transcriber=transcriber) as bot:
        said = await bot.ask("", segments=(await voice(bot, silk()),))
        assert said == ["Half past nine."]
        assert re.search(r"\n> How late is it\?\n\+ voice \S+\.wav ", bot.prompt())
        # The voice is stored in a format that browsers play and Python reads.
        (kept,) = (await newest(bot)).segments
        assert isinstance(kept, Voice)
        assert (kept.media.mime, kept.media.name, kept.text) == (
            "audio/wav",
            "a.wav",
            "How late is it?",
        )
        data = await bot.media.read(LIN, kept.media.path)
        assert data is not None
        assert plain_wav_seconds(data) == kept.media.seconds == 0.5
        assert transcriber.heard == [data]


async def test_without_a_transcriber_the_prompt_names_the_sound_file(
    folder: Path, boxes: BoxCache
) -> None:
    model = ScriptedModel(["I cannot listen yet."])
    async with running_bot(folder, boxes, model) as bot:
        await bot.ask("", segments=(await voice(bot, silk()),))
        assert ".wav" in bot.prompt()
        (kept,) = (await newest(bot)).segments
        assert isinstance(kept, Voice)
        assert (kept.media.mime, kept.text) == ("audio/wav", "")


async def test_in_a_group_a_voice_that_calls_the_bot_wakes_it(
    folder: Path, boxes: BoxCache
) -> None:
    transcriber = FakeTranscriber("So what do you think?")
    model = ScriptedModel(["Yes, Lin?"])
    async with running_bot(folder, boxes, model, transcriber=transcriber) as bot:
        name = bot.services.settings.names[0]
        await bot.say("", GROUP, segments=(await voice(bot, wav(), "a.wav", GROUP),))
        await bot.services.transcriber.settled(GROUP)
        transcriber.text = f"Hey {name}, are you there?"
        said = await bot.ask("", GROUP, segments=(await voice(bot, wav(), "b.wav", GROUP),))
        assert said == ["Yes, Lin?"]
        assert "So what do you think?" in bot.prompt()
        assert len(await bot.turns(GROUP)) == 1


async def test_a_turn_waits_for_a_slow_transcriber_up_to_a_limit(
    folder: Path, boxes: BoxCache
) -> None:
    transcriber = FakeTranscriber("too late", go=anyio.Event())
    model = ScriptedModel(["What did you say?", "Ah."])
    async with running_bot(folder, boxes, model, transcriber=transcriber, wait_s=0.05) as bot:
        said = await bot.ask("", segments=(await voice(bot, wav(), "a.wav"),))
        assert said == ["What did you say?"]
        assert "too late" not in bot.prompt()
        transcriber.go.set()
        with anyio.fail_after(30):
            while not _text(await newest(bot)):
                await anyio.sleep(0.005)
        # Words that arrive late are stored too, so the next prompt has them.
        await bot.ask("well?")
        assert "> too late" in bot.prompt()
        assert len(await bot.turns()) == 2


async def test_text_sent_during_a_transcription_is_answered_too(
    folder: Path, boxes: BoxCache
) -> None:
    transcriber = FakeTranscriber("The red one.", go=anyio.Event())
    model = ScriptedModel(["The red one, then."])
    async with running_bot(folder, boxes, model, transcriber=transcriber) as bot:
        async with bot.turn():
            await bot.say("", segments=(await voice(bot, wav(), "a.wav"),))
            await bot.say("quickly, please")
            transcriber.go.set()
        assert bot.said() == ["The red one, then."]
        assert "> The red one." in bot.prompt()
        assert "> quickly, please" in bot.prompt()


async def test_a_voice_that_a_killed_process_had_not_transcribed_is_transcribed(
    folder: Path, boxes: BoxCache
) -> None:
    transcriber = FakeTranscriber("still here", go=anyio.Event())
    async with running_bot(folder, boxes, ScriptedModel([]), transcriber=transcriber) as bot:
        await bot.say("", segments=(await voice(bot, silk()),))
        while not transcriber.heard:
            await anyio.sleep(0.005)
    model = ScriptedModel(["Good to hear."])
    transcriber = FakeTranscriber("still here")
    async with running_bot(folder, boxes, model, transcriber=transcriber, recover=True) as bot:
        with anyio.fail_after(30):
            while not bot.said():
                await anyio.sleep(0.005)
        assert "> still here" in bot.prompt()


async def test_a_voice_that_cannot_be_transcribed_is_answered_without_words(
    folder: Path, boxes: BoxCache
) -> None:
    model = ScriptedModel(["Sorry?"])
    broken = b"\x02#!SILK_V3" + b"\x10\x00" + b"?" * 7
    async with running_bot(folder, boxes, model, transcriber=FakeTranscriber()) as bot:
        assert await bot.ask("", segments=(await voice(bot, broken),)) == ["Sorry?"]
        (kept,) = (await newest(bot)).segments
        assert isinstance(kept, Voice)
        assert (kept.media.mime, kept.text) == ("audio/silk", "")


async def test_a_voice_sent_while_the_bot_was_offline_is_not_transcribed(
    folder: Path, boxes: BoxCache
) -> None:
    transcriber = FakeTranscriber("said long ago")
    model = ScriptedModel(["I was away."])
    async with running_bot(folder, boxes, model, transcriber=transcriber) as bot:
        hours_ago = {"time": time.time() - 9_999, "from_history": True}
        await bot.say("", segments=(await voice(bot, wav(), "a.wav"),), **hours_ago)
        assert await bot.ask("and now?") == ["I was away."]
        assert transcriber.heard == []


async def test_text_in_a_voice_message_is_kept(folder: Path, boxes: BoxCache) -> None:
    model = ScriptedModel(["Both."])
    async with running_bot(folder, boxes, model, transcriber=FakeTranscriber("said")) as bot:
        await bot.ask("", segments=(Text("written"), await voice(bot, wav(), "a.wav")))
        record = await newest(bot)
        assert record.segments[0] == Text("written")
        assert isinstance(record.segments[1], Voice)
        assert record.segments[1].text == "said"
