"""The operator changes settings while the bot runs, and the next answer uses them."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from nekro_core.system.atomic_files import write_whole
from tests.cli.nekro import nekro_meanwhile
from tests.e2e.bot_process import running_bot
from tests.e2e.whole_bot import TOKEN, WELL, ModelByChat, WholeBot, fence, until, whole_bot
from tests.peers.onebot_v11 import OneBotPeer
from tests.peers.scripted_model import Asked, Reply, ScriptedModelServer


@pytest.fixture(scope="module")
async def bot(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[WholeBot]:
    async with whole_bot(tmp_path_factory.mktemp("live")) as running:
        yield running


def settings_of(bot: WholeBot) -> Path:
    return bot.bot.data / "settings.toml"


async def save(bot: WholeBot, text: str) -> None:
    """Save the file in one step, and wait until the bot has applied it. The bot would take over a
    file that is empty for a moment."""
    before = bot.bot.log.count("changed settings are in force")
    write_whole(settings_of(bot), text.encode())
    await until(lambda: bot.bot.log.count("changed settings are in force") > before)


async def test_a_new_persona_is_in_the_next_prompt(bot: WholeBot) -> None:
    group = bot.group()
    await bot.ask(group)
    assert "a lighthouse keeper" not in str(bot.prompts(group)[-1].messages)
    await save(bot, '# my bot\n[agent]\npersona = "You are Mei, a lighthouse keeper."\n')
    await bot.ask(group)
    assert "a lighthouse keeper" in str(bot.prompts(group)[-1].messages)


async def test_a_message_with_a_new_name_of_the_bot_wakes_it(bot: WholeBot) -> None:
    group = bot.group()
    await save(bot, '[agent]\nnames = ["Lighthouse"]\n')
    await bot.peer.say_in_group(group, 10001, "Lighthouse, are you there?")
    assert await bot.answers(group) == [WELL]


async def test_a_new_quota_refuses_the_next_question(bot: WholeBot) -> None:
    group = bot.group()
    await save(bot, "[agent.turn]\nchat_turns_a_day = 1\n")
    assert await bot.ask(group) == [WELL]
    (refusal,) = await bot.ask(group)
    assert refusal != WELL
    await save(bot, "[agent.turn]\nchat_turns_a_day = 0\n")
    assert await bot.ask(group) == [WELL]


async def test_a_broken_file_leaves_the_last_good_settings_in_force(bot: WholeBot) -> None:
    group = bot.group()
    await save(bot, '[agent]\npersona = "You are calm."\n')
    broken = '[agent]\npersona = "You are wild."\n[agent.turn]\nmax_steps = "x"\n'
    write_whole(settings_of(bot), broken.encode())
    await bot.logged("settings.toml, line 4: agent.turn.max_steps: ")
    await bot.ask(group)
    assert "You are calm." in str(bot.prompts(group)[-1].messages)
    write_whole(settings_of(bot), b'[agent]\npersona = "You are wi')
    await bot.logged("settings.toml, line 2: not TOML")
    await bot.ask(group)
    assert "You are calm." in str(bot.prompts(group)[-1].messages)
    await save(bot, '[agent]\npersona = "You are wild."\n')
    await bot.ask(group)
    assert "You are wild." in str(bot.prompts(group)[-1].messages)


async def test_a_value_of_the_environment_wins_over_the_file(bot: WholeBot) -> None:
    group = bot.group()
    await save(bot, '[llm]\nmodel = "other"\n[agent]\npersona = "You are bright."\n')
    await bot.ask(group)
    assert bot.prompts(group)[-1].body["model"] == "scripted"


async def test_another_model_endpoint_answers_the_next_question(tmp_path: Path) -> None:
    def second(_: Asked) -> Reply:
        return fence("send_channel_message('the second model speaks')")

    script = ModelByChat()
    async with ScriptedModelServer(script) as first, ScriptedModelServer(second) as other:
        (tmp_path / "data").mkdir()
        (tmp_path / "data" / "settings.toml").write_text(
            f'# ours\n[llm]\nbase_url = "{first.base_url}"\nmodel = "scripted"\n'
        )
        (tmp_path / ".env").write_text(f"NEKRO_DATA_DIR={tmp_path / 'data'}\n")
        async with (
            running_bot(
                tmp_path, ONEBOT_ACCESS_TOKEN=TOKEN, NEKRO_TRIGGER__DEBOUNCE_S="0.05"
            ) as bot,
            OneBotPeer("20002", TOKEN, bot.onebot_url) as peer,
        ):
            await peer.wait_connected()
            whole = WholeBot(bot, peer, script)
            group = whole.group()
            assert await whole.ask(group) == [WELL]
            said = await nekro_meanwhile(
                tmp_path, "set", "llm.base_url", other.base_url, "llm.model", "second"
            )
            assert said.status == 0, said.err
            await whole.logged("changed settings are in force")
            assert await whole.ask(group) == ["the second model speaks"]
            assert settings_of(whole).read_text().startswith("# ours\n[llm]\n")
