"""The current code opens a data folder of an older commit: ``make upgrade FROM=e61814b``.

The old bot answers people, stores a plugin's value, is switched off in one chat, sets a timer, and
is killed in the middle of a turn. The new bot starts on the same folder and database. It must know
the history, use the stored value, stay silent in the chat that is off, answer the timer, finish the
turn, and send nothing twice. It shows the prompts of the old turns byte for byte as the old bot
sent them, or says that the old bot did not store them. The old code comes from git and uses the
packages that are installed here. The second command uses PostgreSQL::

    make upgrade FROM=e61814b
    make upgrade FROM=e61814b ARGS="--database postgres"
"""

import argparse
import io
import subprocess
import sys
import tarfile
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path

import anyio

from tests.e2e.bot_process import ROOT, BotProcess
from tests.e2e.read_database import StoreLook
from tests.e2e.upgraded_prompts import check_prompts, check_replay, stored_steps
from tests.e2e.whole_bot import TOKEN, ModelByChat, WholeBot, fence, model_settings
from tests.peers.onebot_v11 import OneBotPeer
from tests.peers.postgres import PostgresServer
from tests.peers.scripted_model import Answer, ScriptedModelServer

OPERATOR = 10009
DUE_S = 12.0
"""Seconds until the timer is due: after the old bot's end and soon after the start of the new
bot."""
SILENT_S = 3.0
"""How long the test watches the chat in which the new bot must send nothing."""
OF_NEWER_BOTS = ("NEKRO_SANDBOX__PACKAGES",)
"""Variables that the tests set for all bots, but that an old bot refuses, since it does not know
them."""
PLUGIN = '''
from nekro_core.api.plugin import NekroPlugin, SandboxMethodType
from nekro_core.api.schemas import AgentCtx

plugin = NekroPlugin(
    name="Counter",
    module_name="counter",
    description="Counts.",
    version="1.0.0",
    author="tests",
    url="https://example.test",
)


@plugin.mount_sandbox_method(SandboxMethodType.TOOL, name="count_up", description="Count.")
async def count_up(_ctx: AgentCtx) -> int:
    """Count, and keep the count."""
    kept = await plugin.store.get(chat_key=_ctx.chat_key, store_key="count")
    count = int(kept or 0) + 1
    await plugin.store.set(chat_key=_ctx.chat_key, store_key="count", value=str(count))
    return count
'''
COUNT = fence("send_channel_message(f'count {count_up()}')")


def old_code(commit: str, folder: Path) -> Path:
    """Unpack the files of a commit below ``folder``."""
    packed = subprocess.run(
        ["git", "archive", "--format=tar", commit], cwd=ROOT, check=True, stdout=subprocess.PIPE
    ).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        tar.extractall(folder, filter="data")
    return folder


async def upgrade(commit: str, folder: Path, database_url: str = "") -> None:
    """Run the old bot, then the new one. Raises `AssertionError` if something was lost or sent
    twice."""
    old = old_code(commit, folder / "old")
    plugins = folder / "data" / "plugins"
    plugins.mkdir(parents=True)
    (plugins / "counter.py").write_text(PLUGIN)
    script = ModelByChat()
    async with AsyncExitStack() as stack:
        model = await stack.enter_async_context(ScriptedModelServer(script))
        settings = {
            "PORT": "0",
            "LOG_LEVEL": "DEBUG",
            "SUPERUSERS": f'["{OPERATOR}"]',
            **model_settings(model),
        }
        if database_url:
            settings["NEKRO_DATABASE_URL"] = database_url
        bot = BotProcess(
            folder / "data",
            {**settings, "PYTHONPATH": str(old)},
            command=(sys.executable, str(old / "bot.py")),
            without=OF_NEWER_BOTS,
        )
        stack.push_async_callback(_end, bot)
        await bot.start()
        peer = await stack.enter_async_context(OneBotPeer("20002", TOKEN, bot.onebot_url))
        await peer.wait_connected()
        whole = WholeBot(bot, peer, script)
        await stack.enter_async_context(whole.web)

        talk, silent = whole.group(), whole.group()
        counter = whole.group(COUNT, COUNT, COUNT)
        timer = whole.group(
            fence(f"set_timer('ding', in_minutes={DUE_S / 60})\nsend_channel_message('set')"),
            fence("send_channel_message('ding')"),
        )
        cut = whole.group(
            Answer(chunks=["```python\nsend_channel_message('one')\n", 60.0, "```"]),
            fence("send_channel_message('two')"),
        )
        steps = whole.group(fence("print(6 * 7)"), fence("send_channel_message('42')"))
        await whole.ask(talk, "the bird is a heron")
        await whole.ask(talk, "写\u200b two\nlines 🙂 <b>&amp;</b>")
        assert await whole.ask(steps, "six times seven?") == ["42"]
        assert await whole.ask(counter) == ["count 1"]
        assert await whole.ask(counter) == ["count 2"]
        await peer.say_in_group(silent, OPERATOR, "/off")
        await whole.answers(silent)
        told = whole.said(silent)
        assert await whole.ask(timer) == ["set"]
        assert await whole.ask(cut) == ["one"]
        await bot.kill()
        print(f"the bot of {commit} was killed in the middle of a turn", flush=True)

        bot.environment, bot.without = {**settings, "PORT": str(bot.running["port"])}, ()
        bot.command = BotProcess.command
        began = len(bot.log)
        await bot.start()
        print(f"the bot of now started in {bot.started_in:.1f} s", flush=True)
        await peer.wait_connected()
        # The operator's token may have changed with the version.
        whole.web.headers["Authorization"] = f"Bearer {bot.token}"
        look = await stack.enter_async_context(StoreLook(bot.data, database_url))
        kept = await check_prompts(whole, look, [talk, steps, counter])
        if kept:
            print(f"{kept} prompts of the old bot are shown byte for byte", flush=True)
        else:
            print("the old bot kept no prompts, and the new one says so", flush=True)
        assert await whole.answers(cut, 2) == ["one", "two"], "the killed turn must be finished"
        await whole.ask(talk, "which bird?")
        assert "heron" in str(whole.prompts(talk)[-1].messages), (
            "the prompt must have the earlier message"
        )
        assert await whole.ask(counter) == ["count 3"], "the plugin's stored value must be used"
        assert await whole.answers(timer, 2) == ["set", "ding"], "the timer must be answered"
        await peer.say_in_group(silent, 10001, "anybody?", at_me=True)
        await anyio.sleep(SILENT_S)
        assert whole.said(silent) == told, "the chat that was switched off must stay silent"
        assert [len(whole.said(each)) for each in (talk, counter, timer, cut)] == [3, 3, 2, 2]
        if kept:
            assert await check_prompts(whole, look, [talk, steps, counter]) == kept + 2
            script.replies[f"onebot_v11-group_{steps}"] += [
                fence("print(6 * 7)"),
                fence("send_channel_message('42')"),
            ]
            ((turn_id, _), *_) = await stored_steps(look, steps)
            await check_replay(whole, steps, turn_id, "42")
        faults = [
            line
            for line in bot.log[began:].splitlines()
            if "[ERROR]" in line or "Traceback" in line
        ]
        assert not faults, faults
    assert bot.process is not None
    assert bot.process.returncode == 0, bot.log[-4000:]


async def _end(bot: BotProcess) -> None:
    if bot.process is not None:
        await bot.stop()


async def main() -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(
        prog="make upgrade", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("commit", help="of the older code: e61814b")
    parser.add_argument("--database", choices=("sqlite", "postgres"), default="sqlite")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if options.database == "postgres":
            with PostgresServer() as server:
                await upgrade(options.commit, Path(folder), await server.empty_database())
        else:
            await upgrade(options.commit, Path(folder))
    print(
        f"a folder of {options.commit} opens on {options.database}, and nothing is lost or doubled"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(anyio.run(main))
