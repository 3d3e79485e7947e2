"""Scenarios about what the bot remembers: old messages, notes, restarts, a plan of many steps."""

import random

from tests.e2e.scenarios.scenario import Subject
from tests.e2e.scenarios.scene import Scene

memory = Subject("memory")

_TALK = (
    "has anybody seen the game yesterday?",
    "the weather will be better on the weekend I think",
    "I am still waiting for my parcel",
    "can somebody lend me a ladder for a day or two?",
    "that new bakery at the corner is really good",
    "my train was late again this morning",
    "who has a good recipe for lentil soup?",
    "I have finished the book, you can have it now",
    "the cat slept on my keyboard the whole night",
    "we should go swimming again when it is warmer",
    "lol, that was exactly what I was thinking",
    "does this shop take cards by now?",
)


@memory.scenario(53, place="qq")
async def facts_of_long_ago(scene: Scene) -> None:
    async with scene.part(53, could=1, tools=2):
        chance = random.Random(53)
        facts = {
            5: ("Anna", "The door code of the club room is 4417 by the way."),
            255: ("Mei", "My brother's new dog is called Biscuit, he is so cute."),
            300: ("Bob", "I put the spare key under the blue flower pot."),
        }
        for number in range(305):
            who, words = facts.get(305 - number, (chance.choice(("Lin", "Anna", "Bob", "Mei")), ""))
            await scene.say(who, words or chance.choice(_TALK), to_bot=False)
        await scene.settled()
        await scene.ask(
            "Lin",
            "Where is the spare key, what is the dog of Mei's brother called, and what was the "
            "door code? And who said each of these?",
        )
        scene.says("flower ?pot", "Biscuit", "4417", "Bob", "Mei", "Anna")


@memory.scenario(55)
async def an_allergy_is_remembered(scene: Scene) -> None:
    async with scene.part(55, could=2, why="two messages"):
        await scene.ask("Anna", "Please remember that I am allergic to hazelnuts.")
        notes = scene.rows("SELECT text FROM memory_notes WHERE chat_key = ?")
        assert any("hazelnut" in str(text).lower() for (text,) in notes), f"no note: {notes}"
        for number in range(40):
            await scene.say("Bob", _TALK[number % len(_TALK)], to_bot=False)
        await scene.settled()
        before = len(scene.texts)
        await scene.ask("Bob", "I am baking for Anna. Is there anything I have to leave out?")
        assert "hazelnut" in "".join(scene.texts[before:]).lower(), scene.texts[before:]


@memory.scenario(56, bot="alone")
async def after_a_restart(scene: Scene) -> None:
    async with scene.part(56, could=2, why="two messages"):
        await scene.ask("Lin", "The code word for tonight is heron. Tell nobody yet, just say ok.")
        port = str(scene.bot.running["port"])
        await scene.bot.stop()
        scene.bot.environment = {**scene.bot.environment, "PORT": port}
        await scene.bot.start()
        await scene.ask("Lin", "What was the code word?")
        scene.says("heron")


@memory.scenario(57)
async def after_a_reset(scene: Scene) -> None:
    async with scene.part(57, could=3, why="two messages; the second asks to look"):
        await scene.ask("Lin", "My favourite colour is teal. Just say ok.")
        await scene.ask("Lin", "/reset", to_bot=False)
        await scene.ask("Lin", "What is my favourite colour? Look at what we said before.")
        assert "is teal. Just say ok" not in scene.prompt(), (
            "the words from before the reset are in the prompt"
        )
        if scene.rows("SELECT text FROM memory_notes WHERE chat_key = ?"):
            scene.says("Notes stay")
        else:
            scene.never_says("teal")


_PLAN = (
    (
        "Lin",
        "Let us plan our trip! We want to go away for a week in May.",
        "Lovely! Where would you like to go, and who is coming?",
    ),
    (
        "Lin",
        "There are 4 of us: me, Bob, Anna and Mei.",
        "Four people, one week in May. City, mountains or sea?",
    ),
    (
        "Bob",
        "City and sea, please. And not too hot.",
        "Then Lisbon, Porto or Valencia would fit. All have beaches close by.",
    ),
    (
        "Anna",
        "I was in Valencia last year.",
        "Then Lisbon or Porto. Porto is smaller and cooler, Lisbon has more beaches.",
    ),
    ("Mei", "I vote for Porto.", "One vote for Porto. What do the others say?"),
    ("Lin", "Porto it is, from 9 to 16 May.", "Noted: Porto, 9 to 16 May, four people."),
    (
        "Bob",
        "Budget: 2,600 euros for all of us together.",
        "That is 650 euros for each. Flights first, then a flat?",
    ),
    (
        "Anna",
        "Flights were 120 euros each when I looked.",
        "Then 480 of the 2,600 euros go to flights, and 2,120 remain.",
    ),
    (
        "Lin",
        "A flat near the river would be great.",
        "Ribeira is by the river and lively, Gaia is across the bridge and quieter.",
    ),
    (
        "Mei",
        "Gaia, quieter is better.",
        "Then a flat in Gaia with two bedrooms, at about 130 euros a night: 910 for seven nights.",
    ),
    ("Bob", "Okay for me. 910 then.", "So 1,210 euros remain for food and trips."),
    (
        "Anna",
        "One day trip to the Douro valley by train?",
        "The line to Pinhao takes two and a half hours and is beautiful.",
    ),
    (
        "Lin",
        "Yes, the Douro on Wednesday, the 13th.",
        "Noted: Douro valley by train on Wednesday, 13 May.",
    ),
    (
        "Mei",
        "And a cooking class? I would love that.",
        "There are classes for about 60 euros each, with a market visit.",
    ),
    ("Bob", "No, too expensive.", "Then no class. The market of Bolhao costs nothing."),
    ("Anna", "Agreed. Market on Tuesday.", "Market of Bolhao on Tuesday, 12 May."),
    (
        "Lin",
        "Who books the flights?",
        "Whoever has the best card for it. Anna has looked at the prices already.",
    ),
    ("Anna", "I do, by Friday.", "Anna books the flights by Friday."),
)


@memory.scenario(58)
async def nineteen_turns_in_a_room(scene: Scene) -> None:
    async with scene.part(58, could=19, why="19 messages", tools=19):
        for who, words, answer in _PLAN:
            scene.give(answer)
            await scene.ask(who, words)
        before = len(scene.texts)
        await scene.ask("Lin", "Summarise what we decided, with people, dates and budget.")
        told = "\n".join(scene.texts[before:])
        scene.says("Porto", "2600", "Gaia", "Douro")
        assert any(each in told for each in ("4", "four", "Four", "Mei")), told
        for each in ("Porto", "Gaia", "Douro", "Anna"):
            assert each in told, f"{each} is missing: {told}"
