"""Scenarios in which the bot mostly talks: greetings, questions, languages, Markdown, long
texts."""

import re

from tests.e2e.scenarios.scenario import CODE, Subject
from tests.e2e.scenarios.scene import Scene
from tests.peers.onebot_v11 import at, text
from tests.peers.onebot_v11.messages import Json

words = Subject("words")


@words.scenario(1, place="qq")
async def greeting_in_a_group(scene: Scene) -> None:
    async with scene.part(1, could=1):
        await scene.ask("Lin", "Good morning! Nice to have you here.")
        assert len(scene.texts) == 1, f"one message was expected: {scene.texts}"


@words.scenario(2)
async def dates_and_a_prime(scene: Scene) -> None:
    async with scene.part(2, could=1, tools=2):
        await scene.ask(
            "Lin",
            "How many days is it from 29 February 2024 to 25 December 2031, which weekday is that "
            "Christmas, and is 2^61-1 a prime?",
        )
        scene.says(r"\b2856\b", "Thursday", "prime")
        scene.never_says("not (a )?prime")


@words.scenario(3)
async def a_question_without_a_function(scene: Scene) -> None:
    async with scene.part(3, could=1):
        await scene.ask("Lin", "Why is the sky blue? Two sentences, please.")
        scene.says("scatter", "blue")


@words.scenario(12)
async def the_network_is_wanted(scene: Scene) -> None:
    async with scene.part(12, could=1, tools=2):
        await scene.ask("Lin", "Fetch https://wttr.in/Oslo and tell me the weather there now.")
        scene.says(r"can't|cannot|can’t|unable|no (network|internet)|not able|don't have|have no")
        scene.never_says(r"-?\d+ ?°")


@words.scenario(14, modes=CODE)
async def a_very_long_message(scene: Scene) -> None:
    async with scene.part(14, could=1):
        await scene.ask(
            "Lin",
            "Post the numbers from 1 to 2400 here in the chat as text, separated by spaces. "
            "No file.",
        )
        numbers = [int(each) for each in re.findall(r"\d+", scene.told.replace("\n", " "))]
        assert set(range(1, 2401)) <= set(numbers), f"numbers are missing: {len(set(numbers))}"
        assert not scene.media("file"), "a file was sent"


@words.scenario(44)
async def chinese_with_a_chart_and_japanese(scene: Scene) -> None:
    async with scene.part(44, could=2, why="two messages", tools=3):
        await scene.ask(
            "小明", "本金10000元，年利率3%，复利，每年末的本息是多少？算5年，并画一张图。"
        )
        assert scene.media("picture"), "no chart was sent"
        scene.says(r"11592\.7|1\.159", "[\u4e00-\u9fff]{2}")
        before = len(scene.texts)
        await scene.ask("田中", "俳句を一つ作ってください。テーマは冬の朝です。")
        assert re.search("[\u3040-\u30ff]", "".join(scene.texts[before:])), "not in Japanese"


@words.scenario(45)
async def a_persona_by_command(scene: Scene) -> None:
    async with scene.part(45, could=1):
        await scene.ask(
            "Lin",
            "/persona You are Captain Flint, a grumpy pirate. You call everybody matey.",
            to_bot=False,
        )
        await scene.ask("Lin", "Who are you, and what do you think of Mondays?")
        scene.says("matey")


@words.scenario(46, place="qq")
async def a_table_is_asked_for_on_qq(scene: Scene) -> None:
    async with scene.part(46, could=1):
        await scene.ask(
            "Lin",
            "Give me a table with Mercury, Venus, Earth and Mars: diameter in km, moons, and how "
            "long a day is. And mark the largest one in bold.",
        )
        scene.never_says(r"\|\s*:?-{2,}", r"\*\*")
        if not scene.media("picture"):
            scene.says("Mercury", "Venus", "Earth", "Mars", "6792|6779|6794|6800")


@words.scenario(47, modes=CODE)
async def code_is_only_to_be_shown(scene: Scene) -> None:
    async with scene.part(47, could=1):
        await scene.ask(
            "Lin",
            "How do I reverse a list in Python? Just show me the code, with a sentence for each "
            "of two ways.",
        )
        scene.says(r"\[::-1\]", r"reverse[d]?\(")


@words.scenario(48, modes=CODE)
async def fences_inside_of_a_message(scene: Scene) -> None:
    async with scene.part(48, could=1):
        await scene.ask(
            "Lin",
            "Write me a short README in Markdown for a tool called `tidy`, with an install "
            "section that has a code block in ```bash fences, and post it here as Markdown "
            "source that I can copy.",
        )
        scene.says("tidy", "install")
        whole = scene.told + "".join(f.data.decode() for f in scene.media("file"))
        assert whole.count("```") >= 2 or "bash" in whole, f"no code block: {whole[-600:]!r}"


_SENTENCES = [
    f"Sentence {number} says that rivers remember the shape of the land they cross."
    for number in range(1, 121)
]
ESSAY = "\n\n".join(" ".join(_SENTENCES[at : at + 6]) for at in range(0, 120, 6))
"""An essay of 9,000 characters."""


@words.scenario(51, place="qq", modes=("code", "", "tools"))
async def an_essay_in_plain_words(scene: Scene) -> None:
    async with scene.part(51, could=1):
        scene.give(ESSAY)
        await scene.ask("Lin", "Write a long essay about rivers.")
        file = "".join(each.data.decode() for each in scene.media("file"))
        told = " ".join((scene.told + file).split())
        assert " ".join(_SENTENCES) in told, f"something is missing in {len(told)} characters"
        scene.never_says("left out")


def _face(number: int) -> Json:
    return {"type": "face", "data": {"id": str(number)}}


def _card(title: str) -> Json:
    data = f'{{"app": "com.tencent.miniapp", "prompt": "[QQ小程序]{title}", "meta": {{}}}}'
    return {"type": "json", "data": {"data": data}}


@words.scenario(43, place="qq")
async def a_chinese_group_of_qq(scene: Scene) -> None:
    async with scene.part(43, could=4, why="three messages and a poke"):
        await scene.qq.post("Bob", [_card("下厨房：番茄炒蛋")])
        await scene.ask("Bob", "今晚谁做饭？", to_bot=False)
        await scene.ask("小明", "从一数到十，用中文数字。")
        scene.says("一.*二.*三.*九.*十")
        await scene.ask("小明", "帮我艾特一下Bob，问他今晚做什么菜。")
        mentioned = [each for message in scene.messages for each in message.mentions]
        assert "10003" in mentioned, f"Bob is not mentioned, but {mentioned}"
        assert "番茄炒蛋" in scene.prompt(), "the card's words are not in the prompt"
        scene._said += 1
        await scene.qq.post("小明", [at("20002"), text(" "), _face(178)])
        await scene.settled(3)
        assert "滑稽" in scene.prompt() or "斜眼笑" in scene.prompt(), "the face has no name"
        before = len(scene.requests)
        await scene.qq.peer.notice(
            "notify", sub_type="poke", group_id=scene.qq.group, user_id=10006, target_id=20002
        )
        await scene.settled(4)
        assert "poke" in scene.requests[before].text.splitlines()[-5:].__str__() or (
            "poke" in scene.prompt()
        )
        scene.never_says(r"\[CQ:", "20002")
