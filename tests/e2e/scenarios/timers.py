"""Scenarios with reminders and voice messages."""

from tests.e2e.scenarios import samples
from tests.e2e.scenarios.replies import ModelReply
from tests.e2e.scenarios.scenario import Subject
from tests.e2e.scenarios.scene import Scene
from tests.e2e.whole_bot import fence

timers = Subject("timers")

_TIMERS = "SELECT kind, cron, workdays, state, text, title FROM timers WHERE chat_key = ?"


@timers.scenario(28)
async def a_reminder_once_and_one_for_weekdays(scene: Scene) -> None:
    async with scene.part(28, could=2, why="the wish, and the time that has come", tools=3):
        await scene.say(
            "Lin",
            "Remind me in ten seconds to take the bread out of the oven, and every weekday at 9 "
            "to water the plants.",
        )
        await scene.settled(2)
        scene.says("bread", "plants|weekday")
        repeated = [row for row in scene.rows(_TIMERS) if row[1]]
        assert len(repeated) == 1, f"one repeated timer was expected: {scene.rows(_TIMERS)}"
        ((_, cron, days, *_rest),) = repeated
        assert str(cron).startswith("0 9 * * "), cron
        assert days == "mon_fri" or "1-5" in str(cron) or "mon-fri" in str(cron).lower(), repeated
        assert "bread" in scene.texts[-1].lower(), f"nobody was reminded: {scene.texts}"


@timers.scenario(29)
async def reminders_are_listed_and_cancelled(scene: Scene) -> None:
    async with scene.part(29, could=2, why="one of the calls set them", tools=3):
        if scene.mode == "code":
            scene.give(
                fence(
                    'create_recurring_timer("Standup of the team", "30 9 * * *", days="mon_fri", '
                    'title="Standup")\n'
                    'create_recurring_timer("Take the pills", "0 20 * * *", title="Pills")\n'
                    'send_channel_message("Both are set.")'
                )
            )
        else:
            scene.give(_set_by_calls())
        await scene.ask(
            "Lin", "Remind us of the standup on weekdays at 9:30, and me of my pills at 20:00."
        )
        await scene.ask("Lin", "Which reminders are set? And cancel the standup.")
        scene.says("pills", "standup")
        left = [row for row in scene.rows(_TIMERS) if row[3] in ("active", "waiting", "")]
        titles = [str(row[4]) for row in scene.rows(_TIMERS)]
        assert not any("Standup" in each for each in titles), f"it is not cancelled: {titles}"
        assert any("pills" in each for each in titles), f"the wrong one is cancelled: {left}"


def _set_by_calls() -> ModelReply:
    standup = {
        "event": "Standup of the team",
        "cron": "30 9 * * *",
        "days": "mon_fri",
        "title": "Standup",
    }
    pills = {"event": "Take the pills", "cron": "0 20 * * *", "title": "Pills"}
    return ModelReply(
        "Both are set.",
        tuple({"name": "create_recurring_timer", "args": args} for args in (standup, pills)),
    )


@timers.scenario(30, place="qq")
async def a_voice_in_german_and_slower(scene: Scene) -> None:
    async with scene.part(30, could=2, why="two messages"):
        await scene.ask("Lin", "Sag bitte als Sprachnachricht: Guten Morgen, liebe Leute!")
        first = samples.wav_seconds(scene.one("voice").data)
        await scene.ask("Lin", "Noch einmal, aber langsamer.")
        voices = scene.media("voice")
        assert len(voices) == 2, f"{len(voices)} voices"
        second = samples.wav_seconds(voices[1].data)
        assert second > 1.1 * first, f"{first:.2f} s, then {second:.2f} s"


@timers.scenario(31, place="qq")
async def a_voice_that_cannot_be_heard(scene: Scene) -> None:
    async with scene.part(31, could=1):
        await scene.ask("Lin", "", media=[samples.voice()])
        assert "you cannot hear it" in scene.prompt()
        scene.says(r"can't|cannot|can’t|unable|not able", "hear|listen|play|voice|audio")
