"""A search also uses the meaning of messages. The encoder of these tests knows only two meanings:
a text is about animals, or about something else."""

from array import array
from collections.abc import Sequence

import anyio
import numpy as np
import pytest

from nekro_core.chat import Text
from nekro_core.memory.search.encoding import MessageEncoding
from nekro_core.memory.search.finder import MessageFinder, MessageQuery
from nekro_core.memory.search.meaning import MessageVectors, TextEncoder
from nekro_core.tools.discovery import VECTOR_NUMBERS, EncodedTexts
from tests.memory.search.conftest import NOW, Talk, texts

ANIMALS = ("cat", "dog", "pet", "hamster")


class TwoSubjects:
    """Gives texts about animals one vector, and all other texts the opposite vector."""

    def __init__(self, *, works: bool = True) -> None:
        self.encoded: list[str] = []
        self._works = works

    async def encode(self, query: str, texts: Sequence[str]) -> EncodedTexts | None:
        if not self._works:
            return None
        self.encoded += texts
        vectors = [_vector(each) for each in texts]
        signs = tuple(np.packbits(each > 0).tobytes() for each in vectors)
        return EncodedTexts(array("f", _vector(query).tobytes()), signs)


def _vector(text: str) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    about = any(each in text for each in ANIMALS)
    half = np.where(np.arange(VECTOR_NUMBERS) % 2 == 0, 1.0, -1.0)
    return (half if about else -half).astype(np.float32)


async def find(talk: Talk, encoder: TextEncoder, words: str) -> list[str]:
    vectors = MessageVectors(encoder)
    finder = MessageFinder(talk.store, vectors, wall=lambda: NOW)
    return texts((await finder.find(talk.key, MessageQuery(words=words))).records)


@pytest.fixture
async def animals(talk: Talk) -> Talk:
    await talk.chatter(30)
    talk.now += 86_400.0
    await talk.say("Mei", "my hamster escaped")
    talk.now += 86_400.0
    await talk.chatter(30)
    return talk


async def test_a_message_without_any_word_of_the_question_is_found(animals: Talk) -> None:
    assert (await find(animals, TwoSubjects(), "about a cat"))[0] == "my hamster escaped"


async def test_a_message_fits_by_its_meaning_alone_and_without_such_a_message_the_hits_are_weak(
    animals: Talk,
) -> None:
    finder = MessageFinder(animals.store, MessageVectors(TwoSubjects()), wall=lambda: NOW)
    found = await finder.find(animals.key, MessageQuery(words="about a cat"))
    assert not found.weak
    await animals.store.messages.recall(animals.key, f"{animals.key}-31")
    found = await finder.find(animals.key, MessageQuery(words="number of cats, dogs and pets"))
    assert found.weak
    assert len(found.records) == 3


async def test_without_an_encoder_words_alone_are_searched(animals: Talk) -> None:
    assert await find(animals, TwoSubjects(works=False), "which cat") == []
    assert (await find(animals, TwoSubjects(works=False), "escape"))[0] == "my hamster escaped"


async def test_the_background_task_stores_vectors_of_searched_chats(talk: Talk) -> None:
    await talk.say("Mei", "my hamster escaped")
    await talk.chatter(250)
    await talk.index()
    encoder = TwoSubjects()
    vectors = MessageVectors(encoder)
    encoding = MessageEncoding(talk.store, vectors)
    assert len(await talk.store.search_index.unencoded(talk.key, 9)) == 2
    await encoding.encode_chat(talk.key)
    assert await talk.store.search_index.unencoded(talk.key, 9) == []
    assert len(set(encoder.encoded)) == 251, "each message must be encoded together with its author"
    assert "Mei: my hamster escaped" in encoder.encoded
    stored = TwoSubjects()
    finder = MessageFinder(talk.store, MessageVectors(stored), wall=lambda: NOW)
    found = await finder.find(talk.key, MessageQuery(words="a pet"))
    assert texts(found.records)[0] == "my hamster escaped"
    assert "Mei: my hamster escaped" not in stored.encoded, (
        "the vector must be read from the store, not encoded again"
    )


async def test_an_edited_message_is_encoded_again(talk: Talk) -> None:
    said = await talk.say("bot", "my hamster escaped")
    await talk.chatter(250)
    await talk.index()
    encoder = TwoSubjects()
    await MessageEncoding(talk.store, MessageVectors(encoder)).encode_chat(talk.key)
    segments = (Text("my train is late"),)
    await talk.store.messages.revise(talk.key, said.message_id, segments)
    await talk.index()
    assert len(await talk.store.search_index.unencoded(talk.key, 9)) == 1
    await MessageEncoding(talk.store, MessageVectors(encoder)).encode_chat(talk.key)
    assert await find(talk, TwoSubjects(), "about a pet") == []


async def test_in_a_chat_of_thousands_a_message_is_found_by_its_meaning_alone(talk: Talk) -> None:
    async def chatter(count: int) -> None:
        for _ in range(0, count, 520):
            async with anyio.create_task_group() as tasks:
                for number in range(520):
                    tasks.start_soon(talk.say, "Mei", f"the trip, part {number}")

    await chatter(2600)
    await talk.say("Mei", "my hamster escaped")
    await chatter(2600)
    await talk.index()
    encoder = TwoSubjects()
    assert "my hamster escaped" not in await find(talk, encoder, "about a cat")
    vectors = MessageVectors(encoder)
    await MessageEncoding(talk.store, vectors, clock=lambda: 0.0).encode_chat(talk.key)
    assert (await find(talk, encoder, "about a cat"))[0] == "my hamster escaped"
    # Filters also apply to messages that are found by their meaning.
    finder = MessageFinder(talk.store, vectors, wall=lambda: NOW)
    found = await finder.find(talk.key, MessageQuery(words="about a cat", kind="image"))
    assert found.records == ()
    await talk.store.messages.recall(talk.key, f"{talk.key}-2601")
    assert "my hamster escaped" not in await find(talk, encoder, "about a cat")
