"""Scenarios of a bot with many functions, with a plugin of another author, and in tool mode."""

from tests.e2e.scenarios import samples
from tests.e2e.scenarios.scenario import CODE, TOOLS, Subject
from tests.e2e.scenarios.scene import Scene
from tests.e2e.scenarios.work import check_dice, sum_of_dice

functions = Subject("functions")


@functions.scenario(61, bot="plugins", modes=CODE)
async def a_function_is_searched_for(scene: Scene) -> None:
    async with scene.part(61, could=2):
        await scene.ask("Lin", "How many Swiss francs are 250 euros at today's exchange rate?")
        scene.says(r"237[.,]5")


@functions.scenario(62, bot="plugins", modes=CODE)
async def a_plugin_of_the_guide(scene: Scene) -> None:
    async with scene.part(62, could=2):
        await scene.ask("Lin", "Order two margherita and one quattro formaggi for us, please.")
        text = scene.prompt(0)
        assert text.index("The kitchen closes at 22:00") > text.index("quattro formaggi")
        scene.says("formaggi", "menu|funghi|diavola|order")
        scene.never_says(r"ordered two margherita and (one|a) quattro formaggi\b(?!.*not)")


@functions.scenario(63, modes=TOOLS)
async def tools_greeting(scene: Scene) -> None:
    async with scene.part(63, could=1):
        await scene.ask("Lin", "Hi! How are you today?")
        assert len(scene.texts) == 1, scene.texts


@functions.scenario(64, modes=TOOLS)
async def tools_dates(scene: Scene) -> None:
    async with scene.part(64, could=2):
        await scene.ask(
            "Lin",
            "How many days lie between 14 July 1789 and 9 November 1989, and which weekday was "
            "the second one? Compute it, don't guess.",
        )
        scene.says(r"\b73166\b", "Thursday")


@functions.scenario(65, modes=TOOLS)
async def tools_dice_then_a_card_or_a_voice(scene: Scene) -> None:
    scene.branch = sum_of_dice
    async with scene.part(65, could=2):
        await scene.ask(
            "Lin",
            "Roll three d20. If the sum is above 30, draw a card with the sum on it, else say the "
            "sum aloud.",
        )
        check_dice(scene)


@functions.scenario(66, modes=TOOLS)
async def tools_a_table_and_a_chart(scene: Scene) -> None:
    async with scene.part(66, could=3):
        await scene.ask(
            "Lin",
            "Which city sold the most units? Tell me, and draw a chart of the units per city.",
            media=[samples.sales()],
        )
        scene.says("Porto")
        assert scene.media("picture"), "no chart was sent"


@functions.scenario(67, modes=TOOLS)
async def tools_a_reminder(scene: Scene) -> None:
    async with scene.part(67, could=1):
        await scene.ask("Lin", "Remind me in two hours to call my mother.")
        rows = scene.rows("SELECT text FROM timers WHERE chat_key = ?")
        assert len(rows) == 1, rows
        assert "mother" in str(rows[0][0]), rows
        assert len(scene.texts) == 1, scene.texts


@functions.scenario(68, bot="plugins", modes=TOOLS)
async def tools_a_function_is_searched_for(scene: Scene) -> None:
    async with scene.part(68, could=3):
        await scene.ask("Lin", "How many US dollars are 40 euros at today's exchange rate?")
        scene.says(r"43[.,]2")


@functions.scenario(69, modes=TOOLS)
async def tools_a_poem_as_file_and_voice(scene: Scene) -> None:
    async with scene.part(69, could=2):
        await scene.ask(
            "Lin",
            "Write a four-line poem about the moon, send it as a text file poem.txt and as a "
            'voice message, and say "Here is your poem!" with it.',
        )
        assert len(scene.one("file").data.decode().strip().splitlines()) >= 4
        scene.one("voice")
        scene.says("Here is your poem")


@functions.scenario(70, modes=TOOLS)
async def tools_words_by_a_function(scene: Scene) -> None:
    async with scene.part(70, could=1):
        await scene.ask(
            "Lin",
            "What is 12*12? Use send_channel_message for the answer, it has to be a reply to me.",
        )
        scene.says(r"\b144\b")
        assert len(scene.texts) == 1, f"it was said twice: {scene.texts}"
