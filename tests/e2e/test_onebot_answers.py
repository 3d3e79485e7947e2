"""One group message passes the whole bot: code runs, and text, picture and voice are sent back."""

import base64
import io
import wave
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from PIL import Image

from nekro_core.llm.embedded.fetch import ensure_weights
from nekro_core.llm.embedded.settings import EmbeddedSettings
from tests.e2e.bot_process import running_bot
from tests.e2e.whole_bot import TOKEN, WholeBot, until, whole_bot
from tests.peers.onebot_v11 import OneBotPeer
from tests.peers.scripted_model import Answer

GROUP = 30003

EVERYTHING = """\
Let me do all three.

```python
send_channel_message("Good evening!", mention="10001")
draw_card("Hello", "from a box")
send_tts_voice("Good night!")
```
"""


def payload(segment: dict) -> bytes:
    """The bytes of a base64 medium on the wire."""
    scheme, _, data = segment["data"]["file"].partition("base64://")
    assert scheme == "", segment["data"]["file"][:40]
    return base64.b64decode(data)


def is_picture(data: bytes) -> bool:
    with Image.open(io.BytesIO(data)) as picture:
        picture.load()
        return min(picture.size) > 100


def is_audible(data: bytes) -> bool:
    """Return True if this is 16-bit PCM longer than a third of a second and not silent."""
    with wave.open(io.BytesIO(data)) as sound:
        assert sound.getsampwidth() == 2
        frames = sound.readframes(sound.getnframes())
        return sound.getnframes() > sound.getframerate() / 3 and max(frames) > 0


@pytest.fixture(scope="module")
async def whole(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[WholeBot]:
    async with whole_bot(tmp_path_factory.mktemp("light")) as whole:
        yield whole


async def test_a_mention_is_answered_with_text_picture_and_voice(whole: WholeBot) -> None:
    group = whole.group(EVERYTHING)
    await whole.peer.say_in_group(group, 10001, " good evening, all three please", at_me=True)

    text = await whole.peer.next_send(timeout=30)
    assert text.types == ["at", "text"]
    assert text.text.strip() == "Good evening!"
    picture = await whole.peer.next_send(timeout=30)
    assert picture.types == ["image"]
    assert is_picture(payload(picture.segments[0]))
    voice = await whole.peer.next_send(timeout=30)
    assert voice.types == ["record"]
    assert is_audible(payload(voice.segments[0]))
    assert {call.params["group_id"] for call in (text, picture, voice)} == {group}
    await until(lambda: whole.stops(group) == ["finished"])
    (asked,) = whole.prompts(group)  # there is one request, because the turn had a single step
    prompt = str(asked.messages)
    assert "good evening, all three please" in prompt
    assert "send_tts_voice(" in prompt


async def test_a_message_is_sent_while_the_model_still_writes(whole: WholeBot) -> None:
    code = ["```python\n", 'send_channel_message("first")\n', 3.0, "x = 1\n", "```"]
    group = whole.group(Answer(chunks=code))
    assert await whole.ask(group) == ["first"]
    (asked,) = whole.prompts(group)
    assert not asked.finished, "the message must be sent before the model has finished"


@pytest.mark.embedded
@pytest.mark.long
@pytest.mark.timeout(400)
async def test_the_embedded_model_answers_over_a_onebot_connection(tmp_path: Path) -> None:
    """The bot has no settings, no key and no model server. Before the first answer, the embedded
    model reads its prompt, which takes half a minute on two slow cores."""
    weights = await ensure_weights(EmbeddedSettings(), Path("data/models"), print)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "models").symlink_to(weights.parent.absolute())
    async with (
        running_bot(tmp_path, ONEBOT_ACCESS_TOKEN=TOKEN) as bot,
        OneBotPeer("20002", TOKEN, bot.onebot_url) as peer,
    ):
        await peer.wait_connected()
        await peer.say_in_group(GROUP, 10001, " roll a 20-sided dice", at_me=True)
        dice = await peer.next_send(timeout=300)
        await peer.say_in_group(GROUP, 10001, " draw a card that says hello", at_me=True)
        card = await peer.next_send(timeout=60)
        await peer.say_in_group(GROUP, 10001, " say good night with your voice", at_me=True)
        voice = await peer.next_send(timeout=60)

    assert 1 <= int(dice.text.rpartition(" ")[2]) <= 20, dice.text
    assert card.types == ["image"]
    assert is_picture(payload(card.segments[0]))
    assert voice.types == ["record"]
    assert is_audible(payload(voice.segments[0]))
    assert {call.params["group_id"] for call in (dice, card, voice)} == {GROUP}
