"""While a chat waits for its files, messages of other chats are received. An update is confirmed to
Telegram only after it is stored."""

from pathlib import Path

import anyio

from nekro_core.api.chat import ChatKey, Image, plain_text
from tests.adapters.uniseg.telegram.running import GROUP, GROUP_ID, bot_with_peer

SILENT_S = 5.0
"""How long the bot waits for the next byte of a file, in seconds."""
OTHER_ID = -1002
OTHER = ChatKey.parse(f"telegram-group_{OTHER_ID}")


async def test_messages_of_other_chats_are_received_while_one_chat_waits_for_its_pictures(
    tmp_path: Path,
) -> None:
    async with bot_with_peer(tmp_path) as (bot, peer):
        peer.account.chat(OTHER_ID)
        for number in range(4):
            photo = peer.account.photo()
            peer.silent |= {size["file_id"] for size in photo}
            await peer.say(GROUP_ID, 10001, f"slow {number}", photo=photo)
        await peer.say(GROUP_ID, 10001, "last of the slow chat")
        with anyio.fail_after(30):
            while len(peer.waited_for) < 4:
                await anyio.sleep(0.005)
        assert bot.host.accepted == [], "the waits for the four pictures are at the same time"
        await peer.say(OTHER_ID, 10002, "quick")
        (quick,) = await bot.host.received(1)
        assert (quick.chat_key, plain_text(quick.segments)) == (OTHER, "quick")
        # No update is confirmed yet. If the bot ended now, Telegram would send them all again.
        assert all(not poll.get("offset") for poll in peer.polls)

        heard = (await bot.host.received(6))[1:]
        assert {each.chat_key for each in heard} == {GROUP}
        words = [plain_text(each.segments).rpartition("]")[2].strip() for each in heard]
        assert words == [*(f"slow {number}" for number in range(4)), "last of the slow chat"]
        problems = [s.media.problem for m in heard for s in m.segments if isinstance(s, Image)]
        assert len(problems) == 4
        assert all("ReadTimeout" in problem for problem in problems), problems
        await peer.until(lambda: any(poll.get("offset") for poll in peer.polls))
        assert len(bot.host.accepted) == 6
