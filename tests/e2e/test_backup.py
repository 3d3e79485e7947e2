"""The command line makes a backup of a running bot. A bot that is restored from it answers."""

import asyncio
import base64
import itertools
import json
import os
import sys
from pathlib import Path

import pytest

from nekro_core.backup.prepared import prepare_restore
from tests.e2e.bot_process import ROOT, running_bot
from tests.e2e.test_erase import PLUGIN, picture
from tests.e2e.whole_bot import TOKEN, WELL, ModelByChat, WholeBot, fence, model_settings, until
from tests.peers.onebot_v11 import OneBotPeer
from tests.peers.onebot_v11.messages import image, text
from tests.peers.scripted_model import ScriptedModelServer

pytestmark = pytest.mark.long

PASSPHRASE = "correct horse battery"
LEAVER = 1717077


async def nekro(folder: Path, *arguments: str, status: int = 0, **environment: str) -> str:
    """Run a command as an operator does, in the folder of the bot. Returns what it printed."""
    command = [sys.executable, "-m", "nekro_core", *arguments]
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await process.communicate()
    assert process.returncode == status, out.decode()
    return out.decode()


async def test_a_restored_bot_has_the_same_chats_plugins_and_media_and_answers(
    tmp_path: Path,
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    data, restored = first / "data", second / "data"
    (data / "plugins").mkdir(parents=True)
    (data / "plugins" / "keeper.py").write_text(PLUGIN)
    (data / "conduct.toml").write_text(
        '[chats."onebot_v11-group_40001"]\npersona = "a gardener of tulips"\n'
    )
    script, backup = ModelByChat(), tmp_path / "b.zip"
    secret = {"BACKUP_PASSPHRASE": PASSPHRASE}
    async with ScriptedModelServer(script) as model:
        settings = model_settings(model)
        async with (
            running_bot(first, **settings) as bot,
            OneBotPeer("20002", TOKEN, bot.onebot_url) as peer,
        ):
            await peer.wait_connected()
            whole = WholeBot(bot, peer, script)
            group = whole.group(fence("keep('vermilion-otter')\nsend_channel_message('kept')"))
            encoded = f"base64://{base64.b64encode(picture(7)).decode()}"
            await peer.say_in_group(
                group, LEAVER, [text(" look at my saffron-newt"), image(encoded)], at_me=True
            )
            assert await whole.answers(group) == ["kept"]
            other = whole.group()
            assert await whole.ask(other, "turquoise-badger") == [WELL]
            await until(lambda: whole.rows("SELECT COUNT(*) FROM turns WHERE stop = ''") == [(0,)])
            history = whole.rows("SELECT seq, chat_key, user_id, time FROM messages ORDER BY seq")
            printed = await nekro(
                first, "backup", str(backup), "--with-secrets", NEKRO_DATA_DIR=str(data), **secret
            )
            assert "with secrets" in printed
            assert "whole" in await nekro(first, "backup", "--check", str(backup))
            refused = await nekro(
                first, "restore", str(backup), "--replace", status=1, NEKRO_DATA_DIR=str(data),
                **secret,
            )  # fmt: skip
            assert "in use" in refused
            lines = [
                json.loads(each) for each in (data / "logs" / "bot.log").read_bytes().splitlines()
            ]
            ended = [each for each in lines if "the turn ended" in each["text"]]
            assert {each["chat_key"] for each in ended} == {
                f"onebot_v11-group_{each}" for each in (group, other)
            }
            assert all(each["turn_id"] for each in ended)
            assert TOKEN.encode() not in (data / "logs" / "bot.log").read_bytes()
            # Messages after the backup are not in it.
            assert await whole.ask(other, "after the backup") == [WELL]
        token = bot.token

        printed = await nekro(
            second, "restore", str(backup), NEKRO_DATA_DIR=str(restored), **secret
        )
        assert "is as it was at" in printed
        async with (
            running_bot(second, **settings) as bot,
            OneBotPeer("20002", TOKEN, bot.onebot_url) as peer,
        ):
            # The platform's message ids continue after those that the first bot saw.
            peer.account.ids = itertools.count(5001).__next__
            await peer.wait_connected()
            whole = WholeBot(bot, peer, script)
            assert bot.token == token
            assert history == whole.rows(
                "SELECT seq, chat_key, user_id, time FROM messages WHERE seq <= ? ORDER BY seq",
                history[-1][0],
            )
            (segments,) = whole.stored(group)
            path = next(each["media"]["path"] for each in segments if each["type"] == "image")
            assert Path(path).is_relative_to(restored)
            assert Path(path).is_file()
            assert (restored / "plugin_data" / "ann.keeper" / f"{LEAVER}.txt").read_text()
            # The plugin is loaded, the persona takes effect, and nothing is answered again.
            script.replies[f"onebot_v11-group_{group}"] = [
                fence("keep('again')\nsend_channel_message('from the copy')")
            ]
            await peer.say_in_group(group, 10001, "hello", at_me=True)
            assert await whole.answers(group) == ["from the copy"]
            assert whole.said(other) == []
            asked = str(script.asked[f"onebot_v11-group_{group}"][-1].messages)
            assert "a gardener of tulips" in asked
            assert "saffron-newt" in asked


@pytest.mark.slow
async def test_after_a_restore_plugins_erase_the_people_again_who_were_erased_since_the_backup(
    tmp_path: Path,
) -> None:
    data = tmp_path / "data"
    (data / "plugins").mkdir(parents=True)
    (data / "plugins" / "keeper.py").write_text(PLUGIN)
    script, backup = ModelByChat(), tmp_path / "b.zip"
    async with ScriptedModelServer(script) as model:
        settings = model_settings(model)
        async with (
            running_bot(tmp_path, **settings) as bot,
            OneBotPeer("20002", TOKEN, bot.onebot_url) as peer,
        ):
            await peer.wait_connected()
            whole = WholeBot(bot, peer, script)
            group = whole.group(fence("keep('vermilion-otter')\nsend_channel_message('kept')"))
            await peer.say_in_group(group, LEAVER, " my saffron-newt", at_me=True)
            assert await whole.answers(group) == ["kept"]
            await until(lambda: whole.rows("SELECT COUNT(*) FROM turns WHERE stop = ''") == [(0,)])
            await nekro(tmp_path, "backup", str(backup), NEKRO_DATA_DIR=str(data))
            await peer.say_in_group(group, LEAVER, "/erase me sure")
            assert (await whole.answers(group, 2))[1].startswith("Forgotten")
            await whole.logged("a person was erased")
        printed = await nekro(
            tmp_path, "restore", str(backup), "--replace", NEKRO_DATA_DIR=str(data)
        )
        assert "erased again" in printed
        file = data / "plugin_data" / "ann.keeper" / f"{LEAVER}.txt"
        assert file.exists(), "the restore must leave the file of a plugin to the plugin"
        async with running_bot(tmp_path, **settings) as bot:
            await until(lambda: not file.exists())
            await until(lambda: not (data / "restored.json").exists())
        for path in data.rglob("*"):
            if path.is_file():
                content = path.read_bytes()
                assert b"saffron-newt" not in content, path
                assert b"vermilion-otter" not in content, path
                assert str(LEAVER).encode() not in content, path


async def test_a_prepared_restore_is_carried_out_by_a_restart(tmp_path: Path) -> None:
    script, find = ModelByChat(), "SELECT COUNT(*) FROM messages WHERE segments LIKE ?"
    async with (
        ScriptedModelServer(script) as model,
        running_bot(tmp_path, **model_settings(model)) as bot,
        OneBotPeer("20002", TOKEN, bot.onebot_url) as peer,
    ):
        await peer.wait_connected()
        whole = WholeBot(bot, peer, script)
        group = whole.group()
        assert await whole.ask(group, "turquoise-badger") == [WELL]
        await nekro(tmp_path, "backup", NEKRO_DATA_DIR=str(bot.data))
        assert await whole.ask(group, "saffron-newt") == [WELL]
        (made,) = (bot.data / "backups").glob("*.zip")
        # This is what `Backups.prepare_restore` does in the bot.
        await prepare_restore(made, bot.data, f"sqlite://{bot.data / 'nekro.sqlite3'}")
        assert whole.rows(find, "%saffron-newt%") == [(1,)]
        await bot.stop()
        await bot.start()
        assert whole.rows(find, "%saffron-newt%") == [(0,)]
        assert whole.rows(find, "%turquoise-badger%") == [(1,)]
        (aside,) = tmp_path.glob("data-before-restore-*")
        assert b"saffron-newt" in (aside / "nekro.sqlite3").read_bytes()
        assert not (bot.data / "restore").exists()
        assert "was restored" in bot.log
