"""Tests of several accounts of a real bot, with peers over loopback: two accounts in a group, an
account that is offline, a peer that answers late, and a peer that sends every event twice."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.cli.nekro import nekro_meanwhile
from tests.e2e.bot_process import running_bot
from tests.e2e.whole_bot import TOKEN, ModelByChat, WholeBot, fence, model_settings, until
from tests.peers.onebot_v11 import OneBotPeer
from tests.peers.onebot_v11.answers import Late
from tests.peers.scripted_model import Answer, ScriptedModelServer

pytestmark = pytest.mark.long

FIRST, SECOND, FOREIGN = "20002", "20003", 20666
TIMEOUT_S = 1


class TwoAccounts:
    """A bot with two accounts in the same groups, where each receives the other's messages."""

    def __init__(self, whole: WholeBot, second: OneBotPeer) -> None:
        self.whole, self.first, self.second = whole, whole.peer, second
        self.model = whole.model

    async def say(self, group: int, text: str, *, to: str = "", by: int = 10001) -> None:
        """Let a person write in a group of both accounts. ``to`` is the account that the person
        mentions."""
        for peer in (self.first, self.second):
            what = [{"type": "at", "data": {"qq": to}}] if to else []
            await peer.say_in_group(group, by, [*what, {"type": "text", "data": {"text": text}}])

    def said(self, peer: OneBotPeer, group: int) -> list[str]:
        """The texts that an account has sent to a group."""
        return [call.text for call in peer.sends if call.params.get("group_id") == group]

    def key(self, peer: OneBotPeer, group: int) -> str:
        """The chat key of a group for an account."""
        instance = "onebot_v11" if peer is self.first else "mei"
        return f"{instance}-group_{group}"

    async def relay(self, group: int) -> None:
        """Act as the platform: pass each message of an account in the group to the other account.
        To each text that contains "foreign", a foreign bot replies and mentions the sender."""
        told = {FIRST: 0, SECOND: 0}
        while True:
            for peer, other in ((self.first, self.second), (self.second, self.first)):
                said = self.said(peer, group)
                for text in said[told[peer.self_id] :]:
                    told[peer.self_id] += 1
                    await other.say_in_group(group, peer.self_id, text)
                    if "foreign" in text:
                        await self.say(group, "and what else?", to=peer.self_id, by=FOREIGN)
            await anyio.sleep(0.01)

    def records(self, peer: OneBotPeer, group: int) -> list[tuple[str, str]]:
        """Author and user of each record of a group that the bot has stored for an account."""
        query = "SELECT author, user_id FROM messages WHERE chat_key = ? ORDER BY seq"
        return [(a, u) for a, u in self.whole.rows(query, self.key(peer, group))]


@asynccontextmanager
async def accounts(folder: Path) -> AsyncIterator[TwoAccounts]:
    """The bot and its peers. The operator named the second account "mei", and people call it
    "Mei"."""
    (folder / "data").mkdir()
    (folder / "data" / "accounts.toml").write_text(f'[onebot_v11]\n{SECOND} = "mei"\n')
    (folder / "data" / "conduct.toml").write_text('[accounts.mei]\nnames = ["Mei"]\n')
    script = ModelByChat()
    async with (
        ScriptedModelServer(script) as model,
        running_bot(
            folder,
            **model_settings(model),
            API_TIMEOUT=str(TIMEOUT_S),
            NEKRO_TRIGGER__BURST_TURNS="3",
        ) as bot,
        OneBotPeer(FIRST, TOKEN, bot.onebot_url) as first,
        OneBotPeer(SECOND, TOKEN, bot.onebot_url) as second,
    ):
        await first.wait_connected()
        await second.wait_connected()
        whole = WholeBot(bot, first, script)
        async with whole.web:
            yield TwoAccounts(whole, second)


@pytest.fixture(scope="module")
async def two(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[TwoAccounts]:
    async with accounts(tmp_path_factory.mktemp("accounts")) as found:
        yield found


async def test_each_of_two_accounts_in_a_group_answers_only_its_own_question(
    two: TwoAccounts,
) -> None:
    group = two.whole.group()
    first, second = two.key(two.first, group), two.key(two.second, group)
    two.model.replies[first] = [fence(f'send_channel_message("Mei?", mention="{SECOND}")')]
    two.model.replies[second] = [fence('send_channel_message("Mei here")')]
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(two.relay, group)
        await two.say(group, f" say hello to {SECOND}", to=FIRST)
        await until(lambda: len(two.said(two.first, group)) == 1)
        # The first account has mentioned the second one by its name.
        await until(lambda: ("bot", FIRST) in two.records(two.second, group))
        await two.say(group, "Mei, and you?")
        await until(lambda: len(two.said(two.second, group)) == 1)
        await until(lambda: ("bot", SECOND) in two.records(two.first, group))
        tasks.cancel_scope.cancel()
    assert [text.strip() for text in two.said(two.first, group)] == ["Mei?"]
    assert two.said(two.second, group) == ["Mei here"]
    for key in (first, second):
        assert len(two.model.asked[key]) == 1, "each account must answer only its own question"


async def test_the_operator_names_an_account_and_gives_its_name_to_another_while_the_bot_runs(
    two: TwoAccounts,
) -> None:
    folder = two.whole.bot.data.parent
    listed = await nekro_meanwhile(folder, "accounts", "list")
    rows = [line.split() for line in listed.out.splitlines()]
    assert ["onebot_v11", FIRST, "onebot_v11"] in rows
    assert ["onebot_v11", SECOND, "mei"] in rows
    named = await nekro_meanwhile(folder, "accounts", "name", "onebot_v11", "20004", "rin")
    assert named.out == "account 20004 of onebot_v11 is 'rin' now\n", named.err
    async with OneBotPeer("20004", TOKEN, two.whole.bot.onebot_url) as third:
        await third.wait_connected()
        await third.say_in_private(10001, "hello")
        await third.until(lambda: [call.text for call in third.sends] == ["all is well"], 30)
        assert two.model.asked["rin-private_10001"]
        refused = await nekro_meanwhile(folder, "accounts", "name", "onebot_v11", "20004", "lin")
        assert refused.status == 1
        assert "a name never moves" in refused.err
    # The account is lost. The operator gives its chats to another account.
    bound = await nekro_meanwhile(folder, "accounts", "bind", "rin", "20005")
    assert bound.out == "account 20005 of onebot_v11 is 'rin' now\n", bound.err
    async with OneBotPeer("20005", TOKEN, two.whole.bot.onebot_url) as fourth:
        await fourth.wait_connected()
        await fourth.say_in_private(10001, "hello again")
        await fourth.until(lambda: len(fourth.sends) == 1, 30)
        assert "hello again" in str(two.model.asked["rin-private_10001"][-1].messages)
        assert "> hello\n" in str(two.model.asked["rin-private_10001"][-1].messages[-1]["content"])


async def test_the_cooldown_ends_an_exchange_with_a_foreign_bot(two: TwoAccounts) -> None:
    group = two.whole.group()
    key = two.key(two.first, group)
    two.model.replies[key] = [fence(f'send_channel_message("foreign {n}")') for n in range(20)]
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(two.relay, group)
        await two.say(group, " hello", to=FIRST, by=FOREIGN)
        await until(lambda: any("faster than" in text for text in two.said(two.first, group)))
        two.model.replies[key].clear()
        await two.say(group, " and me?", to=FIRST, by=10002)
        await until(lambda: len(two.said(two.first, group)) == 5)
        tasks.cancel_scope.cancel()
    said = two.said(two.first, group)
    assert said[:3] == ["foreign 0", "foreign 1", "foreign 2"], "NEKRO_TRIGGER__BURST_TURNS"
    assert said[3].startswith("You wake me faster than I can keep up with.")
    assert said[4] == "all is well", (
        "a question of a person is answered during the cooldown of the bot"
    )
    assert two.said(two.second, group) == []


async def _away(two: TwoAccounts, seconds: float) -> None:
    """Break the first account's connection, and restore it after ``seconds``."""
    group, other = two.whole.group(), two.whole.group()
    key = two.key(two.first, group)
    # The model writes so slowly that the bot sends its first message while the account is
    # offline.
    slow = ["```python\n", min(seconds / 2, 1.0), "send_channel_message('kept')\n", "```"]
    two.model.replies[key] = [Answer(chunks=slow), fence("send_channel_message('both')")]
    await two.first.say_in_group(group, 10001, " before", at_me=True)
    await until(lambda: len(two.model.asked[key]) == 1)
    two.first.reconnect_s = seconds
    two.first.abort()
    await two.first.wait_disconnected()
    await two.first.say_in_group(group, 10001, " meanwhile, one", at_me=True)
    await two.first.say_in_group(group, 10001, " meanwhile, two", at_me=True)
    await two.first.say_in_group(other, 10002, "nobody's business")
    await two.second.say_in_group(other, 10002, "Mei, are you there?")
    await until(lambda: two.said(two.second, other) == ["all is well"])
    assert two.said(two.first, other) == [], (
        "the other account must not send for the account that is offline"
    )
    two.first.reconnect_s = 0.1
    await two.first.wait_connected(seconds + 30)
    await until(lambda: two.said(two.first, group) == ["kept", "both"])
    await until(lambda: len(two.whole.stored(other)) == 1)
    words = [segments[-1]["text"] for segments in two.whole.stored(group)]
    assert words == [" before", " meanwhile, one", " meanwhile, two"], (
        "each message must arrive once and in order"
    )
    await two.whole.others_are_served()
    assert two.said(two.first, group) == ["kept", "both"]


async def test_no_message_is_lost_while_an_account_is_offline_for_a_moment(
    two: TwoAccounts,
) -> None:
    await _away(two, 1.5)


@pytest.mark.slow
async def test_no_message_is_lost_while_an_account_is_offline_for_a_minute(
    two: TwoAccounts,
) -> None:
    await _away(two, 60.0)


async def test_a_message_is_sent_once_if_the_peer_answers_after_the_timeout(
    two: TwoAccounts,
) -> None:
    group = two.whole.group(fence("send_channel_message('once')"))
    two.first.answer("send_group_msg", Late(TIMEOUT_S + 1.5))
    assert await two.whole.ask(group) == ["once"]
    query = "SELECT state FROM deliveries WHERE chat_key = ?"

    def states() -> list[Any]:
        return [state for (state,) in two.whole.rows(query, two.key(two.first, group))]

    # The call got no answer in time. Then the bot reads the group's history and finds the message.
    await until(lambda: states() == ["sent"])
    await two.whole.others_are_served()
    assert two.said(two.first, group) == ["once"], "the message must not be sent again"


async def test_an_event_that_a_peer_sends_twice_is_handled_once(two: TwoAccounts) -> None:
    group = two.whole.group()
    await two.first.say_in_group(group, 10001, " hello", at_me=True)
    await two.first.emit(two.first.account.history["group", str(group)][-1])
    assert await two.whole.answers(group) == [two.whole.said(group)[0]]
    await two.first.say_in_group(group, 10001, "/status")
    await two.first.emit(two.first.account.history["group", str(group)][-1])
    poke = {"group_id": group, "user_id": 10001, "target_id": int(FIRST), "sub_type": "poke"}
    for _ in range(2):
        await two.first.notice("notify", time=1_900_000_000, **poke)
    await two.whole.answers(group, 3)
    await two.whole.others_are_served()
    said = two.whole.said(group)
    assert len(said) == 3, said
    assert sum(text.startswith("Nekro, nekro-core") for text in said) == 1
    assert len(two.whole.stored(group)) == 3, "each event must be stored once"
