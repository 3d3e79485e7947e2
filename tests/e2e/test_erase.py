"""After ``/erase``, no file of the data folder contains a trace of the person.

A member leaves a trace in every place where a member can. Then the bytes of every file are searched
for the id, the name, the words and the pictures, so the test also finds unexpected places.
"""

import base64
import hashlib
import io
import random
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from PIL import Image

from tests.e2e.bot_process import running_bot
from tests.e2e.whole_bot import TOKEN, ModelByChat, WholeBot, fence, model_settings, until
from tests.peers.onebot_v11 import OneBotPeer
from tests.peers.onebot_v11.messages import at, image, reply, text
from tests.peers.scripted_model import ScriptedModelServer

pytestmark = pytest.mark.long

LEAVER, STAYER = 1717077, 2828088
WORDS = ("vermilion-otter", "ultramarine-heron", "saffron-newt", "cerise-gecko", "indigo-vole")
"""Words of the member who leaves, each stored in another place."""
KEPT = ("turquoise-badger", "ochre-falcon")
"""Words of the member who stays, and of the bot's answer to that member."""

PLUGIN = '''
import json
from nekro_core.api.plugin import NekroPlugin, SandboxMethodType
from nekro_core.api.schemas import AgentCtx
from nekro_core.api.vectors import get_qdrant_client, models

plugin = NekroPlugin(name="Keeper", module_name="keeper", author="ann")


@plugin.mount_sandbox_method(SandboxMethodType.TOOL, "keep", "")
async def keep(_ctx: AgentCtx, words: str) -> str:
    """Keep words wherever a plugin can."""
    user, chat, store = _ctx.from_user_id, _ctx.chat_key, plugin.store
    await store.set(user_key=user, store_key="own", value=words)
    await store.set(chat_key=chat, store_key=f"of_{user}", value=words)
    known = json.loads(await store.get(chat_key=chat, store_key="all") or "{}")
    known[user] = {"words": words}
    await store.set(chat_key=chat, store_key="all", value=json.dumps(known))
    client = await get_qdrant_client()
    if not await client.collection_exists("notes"):
        await client.create_collection(
            "notes", models.VectorParams(size=2, distance=models.Distance.COSINE)
        )
    point = models.PointStruct(
        id=int(user), vector=[1.0, 0.5], payload={"user_id": user, "words": words}
    )
    await client.upsert("notes", [point])
    (plugin.get_plugin_data_dir() / f"{user}.txt").write_text(words)
    return "kept"


@plugin.mount_on_user_erase()
async def forget(_ctx: AgentCtx, adapter_key: str, user_id: str) -> int:
    (plugin.get_plugin_data_dir() / f"{user_id}.txt").unlink(missing_ok=True)
    return 1
'''


def picture(seed: int) -> bytes:
    """A picture of noise, so that its bytes occur nowhere else."""
    noise = random.Random(seed).randbytes(48 * 48 * 3)
    out = io.BytesIO()
    Image.frombytes("RGB", (48, 48), noise).save(out, "PNG")
    return out.getvalue()


def found_in(folder: Path, *wanted: str | bytes) -> Iterator[str]:
    """Says which of the ``wanted`` are in which file, or in the path of which file or folder."""
    for path in sorted(folder.rglob("*")):
        try:
            data = path.read_bytes() if path.is_file() else b""
        except FileNotFoundError:  # The bot has deleted it since it was listed.
            continue
        for each in wanted:
            raw = each if isinstance(each, bytes) else each.encode()
            if raw in data or (isinstance(each, str) and each in str(path.relative_to(folder))):
                yield f"{each!r} in {path.relative_to(folder)}"


async def test_no_trace_of_an_erased_person_is_found(tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / "plugins").mkdir(parents=True)
    (data / "plugins" / "keeper.py").write_text(PLUGIN)
    (data / "copies").mkdir()
    (data / "copies" / "nekro-before-0001.sqlite3").write_text(f"{LEAVER} {WORDS[0]}")
    script = ModelByChat()
    async with (
        ScriptedModelServer(script) as model,
        running_bot(tmp_path, **model_settings(model)) as bot,
        OneBotPeer("20002", TOKEN, bot.onebot_url) as peer,
    ):
        await peer.wait_connected()
        whole = WholeBot(bot, peer, script)
        group, picture_bytes = whole.group(), picture(7)
        await everything(whole, group, picture_bytes)
        traces = (
            str(LEAVER),
            f"name of {LEAVER}",
            *WORDS,
            hashlib.sha256(picture_bytes).hexdigest()[:32],
            picture_bytes[200:260],
        )
        before = {each.partition(" in ")[0] for each in found_in(data, *traces)}
        assert len(before) == len(traces), "each trace must be there before the erasure"

        (plan,) = await whole_says(whole, group, "/erase me")
        assert "I would forget" in plan
        (said,) = await whole_says(whole, group, "/erase me sure")
        assert said.startswith("Forgotten: "), said
        assert "by hand" not in said
        await whole.logged("a person was erased")
        assert [*found_in(data, *traces)] == [], (
            "no trace may be left while the bot runs, also in the write-ahead log"
        )

        # The platform still has the messages, but the bot does not fetch them again.
        peer.abort()
        await peer.wait_disconnected()
        await peer.wait_connected()
        await whole.others_are_served()
        kept = {each.partition(" in ")[0] for each in found_in(data, *KEPT)}
        assert len(kept) == len(KEPT), "messages of other people and the answers to them must stay"
        assert whole.rows("SELECT SUM(prompt_tokens) > 0 FROM steps") == [(1,)], (
            "the counted tokens must stay"
        )
        await bot.stop()
    assert [*found_in(data, *traces)] == [], "no trace may be left after the bot has ended"


async def whole_says(whole: WholeBot, group: int, line: str) -> list[str]:
    """Let the leaver send a command. Return what the bot sends to the group."""
    before = len(whole.said(group))
    await whole.peer.say_in_group(group, LEAVER, line)
    return (await whole.answers(group, before + 1))[before:]


async def everything(whole: WholeBot, group: int, picture_bytes: bytes) -> None:
    """Leave traces of the leaver in every possible place."""
    peer, key = whole.peer, f"onebot_v11-group_{group}"
    encoded = f"base64://{base64.b64encode(picture_bytes).decode()}"
    # The leaver sends words and a picture, and lets code print, store data, write a file and set a
    # timer.
    code = (
        f"keep('{WORDS[0]}')\nopen('notes.txt', 'w').write('{WORDS[1]}')\n"
        f"print('{WORDS[2]}')\nset_timer('remind {LEAVER} of the {WORDS[3]}', in_minutes=500)\n"
        f"send_channel_message('you said {WORDS[0]}', mention='{LEAVER}')"
    )
    whole.model.replies[key] = [fence(code)]
    await peer.say_in_group(
        group, LEAVER, [text(f" look, a {WORDS[0]}"), image(encoded)], at_me=True
    )
    await whole.answers(group, 1)
    # Another member mentions, quotes and pokes the leaver, and writes their id.
    message = peer.account.history["group", str(group)][0]["message_id"]
    whole.model.replies[key] = [fence(f"send_channel_message('{KEPT[1]}')")]
    await peer.say_in_group(
        group, STAYER, [reply(message), at(LEAVER), text(f" {KEPT[0]}, says {LEAVER}")], at_me=True
    )
    await whole.answers(group, 2)
    await peer.notice("notify", group_id=group, sub_type="poke", user_id=STAYER, target_id=LEAVER)
    # The leaver writes in a private chat.
    private = f"onebot_v11-private_{LEAVER}"
    whole.model.replies[private] = [fence(f"send_channel_message('to you alone: {WORDS[4]}')")]
    await peer.say_in_private(LEAVER, f"and in private the {WORDS[4]}")
    await peer.until(lambda: any(WORDS[4] in call.text for call in peer.sends), 30)
    await until(lambda: whole.rows("SELECT COUNT(*) FROM turns WHERE stop = ''") == [(0,)])
    with anyio.fail_after(30):
        # The box's files are saved after the turn.
        while not [*found_in(whole.bot.data / "boxes", WORDS[1])]:
            await anyio.sleep(0.05)
