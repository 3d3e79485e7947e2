"""A new operator sets up a bot only with a browser: from the link that the first start prints to a
backup that is restored into a new bot.

``SCREENSHOTS=folder`` saves a picture of each step.
"""

import json
import sqlite3
import tomllib
import zipfile
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import async_playwright, expect

from tests.e2e.bot_process import BotProcess, running_bot
from tests.e2e.console_operator import ConsoleOperator, at_the_console
from tests.e2e.test_browser_page import ARGUMENTS, CHROMIUM
from tests.e2e.whole_bot import LONG_S, ModelByChat, fence, until
from tests.peers.onebot_v11 import OneBotPeer
from tests.peers.ports import free_port
from tests.peers.scripted_model import Answer, Asked, Reply, ScriptedModelServer

pytestmark = [pytest.mark.browser, pytest.mark.long, pytest.mark.jail, pytest.mark.timeout(900)]

KEY = "sk-of-the-scripted-model"
PASSWORD, INVITED_PASSWORD = "correct horse battery", "another long staple"
PASSPHRASE = "the passphrase of the backup"
ACCOUNT, GROUP, LIN, MIA = "20002", 40001, 10001, 10002
CHAT = f"onebot_v11-group_{GROUP}"
PERSONA = "You are Tulip, a gardener who speaks of flowers."
GREETING, SECRET = "A very good morning", "s3cret-of-the-plugin"
GREET = fence('greet("everybody")')
GREETED = f"{GREETING}, everybody!"
PLUGIN = '''
from pydantic import Field

from nekro_core.api.plugin import ConfigBase, ExtraField, NekroPlugin, SandboxMethodType
from nekro_core.api.schemas import AgentCtx

plugin = NekroPlugin(
    name="Greeter",
    module_name="greeter",
    description="Greets people.",
    version="1.0.0",
    author="ann",
    url="",
)


@plugin.mount_config()
class Config(ConfigBase):
    GREETING: str = Field(default="Hello", title="Greeting", description="How to greet.")
    CODE: str = Field(
        default="", title="Code", json_schema_extra=ExtraField(is_secret=True).model_dump()
    )


@plugin.mount_sandbox_method(SandboxMethodType.BEHAVIOR, "greet", "Greet a person.")
async def greet(_ctx: AgentCtx, name: str) -> str:
    """Greet somebody.

    Args:
        name: Whom.
    """
    await _ctx.send_text(f"{plugin.get_config(Config).GREETING}, {name}!")
    return f"greeted {name}"
'''


class EndpointByChat(ModelByChat):
    """A model that also answers the tests of an endpoint, which belong to no chat."""

    def __call__(self, asked: Asked) -> Reply:
        if asked.path.endswith("/models"):
            return Answer(status=404, error={"message": "no list"})
        if "[chat] " not in str(asked.messages):
            return "1 2 3 4 5 6 7 8 9 10"
        return super().__call__(asked)


@pytest.mark.slow
async def test_a_bot_is_set_up_backed_up_and_restored_only_with_a_browser(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    backup, script = tmp_path / "backup.zip", EndpointByChat()
    script.replies[CHAT] = [GREET] * 9
    # With this setting the bot does not download the weights of the embedded model. So the setup
    # works without a network, too.
    bare = {"NEKRO_EMBEDDED__DOWNLOAD": "false"}
    async with (
        async_playwright() as playwright,
        await playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS) as browser,
        ScriptedModelServer(script, api_key=KEY) as model,
    ):
        async with (
            running_bot(first, **bare) as bot,
            at_the_console(browser, bot.address) as owner,
            at_the_console(browser, bot.address, telephone=True) as invited,
        ):
            await _becomes_owner(owner, bot)
            await _chooses_a_model(owner, model)
            url, token = await _adds_an_account(owner, bot)
            async with OneBotPeer(ACCOUNT, token, url) as peer:
                await _sees_it_online(owner)
                await _writes_a_persona(owner)
                await _installs_a_plugin(owner, tmp_path)
                await _configures_it(owner)
                await _sets_a_quota(owner)
                await _watches_an_answer(owner, peer, script)
                await _is_asked_beyond_the_quota(owner, peer)
                link = await _invites(owner)
                await _joins_and_acts(invited, link)
                await _makes_a_backup(owner, backup)
            old = _kept(bot)
        async with (
            # The bot has a fixed port, because a restart keeps its port.
            running_bot(second, **bare, PORT=str(free_port())) as copy,
            at_the_console(browser, copy.address) as owner,
        ):
            await _restores(owner, copy, backup)
            assert _kept(copy) == old
            await _finds_everything(owner)
            url = copy.onebot_url
            async with OneBotPeer(ACCOUNT, token, url) as peer:
                # The platform's message ids continue after those that the first bot saw.
                peer.account.ids = count(5001).__next__
                await _is_answered_by_the_copy(owner, peer, script)


async def _becomes_owner(owner: ConsoleOperator, bot: BotProcess) -> None:
    page = owner.page
    await page.goto(await bot.login_link())
    await owner.picture("arrives")
    await page.get_by_role("link", name="Console").click()
    await expect(page.get_by_text("The bot has no model, so it cannot answer")).to_be_visible()
    await owner.picture("home")
    steps = page.locator(".nc-home-steps")
    await steps.get_by_role("link", name="Open: Set your password").click()
    await page.get_by_label("New password").fill(PASSWORD)
    await page.get_by_role("button", name="Set password").click()
    await owner.told("The password is set. Your name for the login is owner.")
    await owner.picture("password")
    await owner.open("Home")
    step = steps.get_by_role("listitem").filter(has_text="Set your password")
    await expect(step.get_by_text("done", exact=True)).to_be_visible()
    assert _rows(bot, "SELECT name, role, password_hash <> '' FROM console_people") == [
        ("owner", "owner", 1)
    ]


async def _chooses_a_model(owner: ConsoleOperator, model: ScriptedModelServer) -> None:
    page = owner.page
    await owner.open("Models")
    await page.get_by_role("button", name="Choose a model").click()
    form = page.locator(".nc-models-form")
    await form.get_by_label("Address of the API").fill(model.base_url)
    await form.get_by_label("Model", exact=True).fill("scripted")
    await form.get_by_label("Key", exact=True).fill("sk-wrong")
    await form.get_by_role("button", name="Test").click()
    await expect(form.get_by_text("The model cannot be used like this.")).to_be_visible()
    await form.get_by_label("Key", exact=True).fill(KEY)
    await form.get_by_role("button", name="Test").click()
    await expect(form.get_by_text("The model answers.")).to_be_visible()
    await owner.picture("model")
    await form.get_by_role("button", name="Save").click()
    await owner.told("The model was saved and is in use.")
    await expect(page.locator("article", has_text=model.base_url)).to_contain_text("key set")
    assert KEY not in await page.content()


async def _adds_an_account(owner: ConsoleOperator, bot: BotProcess) -> tuple[str, str]:
    """Add an account, and copy what the other side needs. Returns URL and token."""
    page = owner.page
    await owner.open("Platforms")
    await page.get_by_role("button", name="Add account: OneBot v11").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Account", exact=True).fill(ACCOUNT)
    await dialog.get_by_role("button", name="Add and connect").click()
    await expect(dialog).to_contain_text("Waiting until the account is seen")
    await owner.picture("account")
    copied = []
    for name in ("URL", "Token"):
        await dialog.get_by_role("button", name=f"Copy: {name}").click()
        await owner.told("Copied.")
        copied.append(await page.evaluate("navigator.clipboard.readText()"))
    assert copied[0] == bot.onebot_url
    return copied[0], copied[1]


async def _sees_it_online(owner: ConsoleOperator) -> None:
    dialog = owner.page.get_by_role("dialog")
    await expect(dialog).to_contain_text("The account is online.")
    await owner.picture("online")
    await dialog.get_by_role("button", name="Close").click()
    card = owner.page.get_by_role("article", name=ACCOUNT, exact=True)
    await expect(card.get_by_text("online", exact=True)).to_be_visible()


async def _writes_a_persona(owner: ConsoleOperator) -> None:
    page = owner.page
    await owner.open("Personas")
    await page.get_by_role("button", name="New persona").click()
    editor = page.locator(".nc-personas-editor")
    await editor.get_by_label("Name").fill("Tulip")
    await editor.get_by_label("Persona", exact=True).fill(PERSONA)
    await editor.get_by_role("button", name="Save as a new version").click()
    await expect(editor.get_by_role("heading", name="Tulip")).to_be_visible()
    card = page.locator("article", has_text=PERSONA)
    await card.get_by_role("button", name="Use in all chats").click()
    await expect(card.get_by_text("used in all chats")).to_be_visible()
    await owner.picture("persona")


async def _installs_a_plugin(owner: ConsoleOperator, folder: Path) -> None:
    page, packed = owner.page, folder / "greeter.zip"
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("greeter/__init__.py", PLUGIN)
    await owner.open("Plugins")
    await page.get_by_text("Install a plugin").click()
    await page.locator("input[type=file]").set_input_files(packed)
    question = page.get_by_role("dialog")
    await expect(question.get_by_text("What its code may do")).to_be_visible()
    await expect(question.get_by_text("greet", exact=True)).to_be_visible()
    await owner.picture("plugin")
    await question.get_by_role("button", name="Install").click()
    card = page.locator("article", has_text="ann.greeter")
    await expect(card.get_by_text("loaded", exact=True)).to_be_visible()


async def _configures_it(owner: ConsoleOperator) -> None:
    page = owner.page
    await page.get_by_role("link", name="Greeter").click()
    await page.get_by_label("Greeting").fill(GREETING)
    await page.get_by_label("Code").fill(SECRET)
    await page.get_by_role("button", name="Save").click()
    await owner.told("The plugin uses the new values.")
    await owner.picture("configuration")


async def _sets_a_quota(owner: ConsoleOperator) -> None:
    page = owner.page
    await owner.open("Settings")
    await page.get_by_label("Find by name or description").fill("user_turns_a_day")
    card = page.locator('[data-setting="agent.turn.user_turns_a_day"]')
    await card.get_by_role("button", name="Change").click()
    await card.get_by_role("textbox").fill("1")
    await card.get_by_role("button", name="Save").click()
    await owner.told("agent.turn.user_turns_a_day is saved.")
    await owner.picture("quota")


async def _watches_an_answer(owner: ConsoleOperator, peer: OneBotPeer, script: ModelByChat) -> None:
    page = owner.page
    await owner.open("Chats")
    await peer.say_in_group(GROUP, LIN, " please greet everybody", at_me=True)
    await page.locator(".nc-chats-row", has_text=CHAT).click()
    history = page.locator(".nc-chat-history")
    await expect(history.get_by_text("please greet everybody")).to_be_visible()
    await expect(history.locator(".nc-chat-line-bot")).to_contain_text(GREETED)
    await expect(history.get_by_text("Answered: it mentions the bot")).to_be_visible()
    await owner.picture("chat")
    assert (await peer.next_send(timeout=LONG_S)).text == GREETED
    (asked,) = script.asked[CHAT]
    assert PERSONA in str(asked.messages)
    assert "greet(name: str)" in str(asked.messages)


async def _is_asked_beyond_the_quota(owner: ConsoleOperator, peer: OneBotPeer) -> None:
    await peer.say_in_group(GROUP, LIN, " and once more", at_me=True)
    history = owner.page.locator(".nc-chat-history")  # the page was open all the time
    await expect(history.get_by_text("and once more")).to_be_visible()
    await expect(history.get_by_text("Not answered: the quota is used up")).to_be_visible()
    await owner.picture("refused")


async def _invites(owner: ConsoleOperator) -> str:
    """Invite a second operator. Returns the link."""
    page = owner.page
    await owner.open("People")
    await page.get_by_text("Invite a person").click()
    await page.get_by_label("Name", exact=True).fill("Mia")
    await page.get_by_role("combobox", name="Role").first.click()
    await page.get_by_role("option", name="Operator").click()
    await page.get_by_role("button", name="Make the link").click()
    link = await page.get_by_label("Link for Mia").input_value()
    await owner.picture("invitation")
    await page.get_by_role("button", name="I have kept it").click()
    return link


async def _joins_and_acts(mia: ConsoleOperator, link: str) -> None:
    """Let the second operator set a password, log in with it, and act within her role."""
    page = mia.page
    await page.goto(link)
    await page.get_by_label("New password").fill(INVITED_PASSWORD)
    await page.keyboard.press("Enter")
    await page.wait_for_url("**/ui/**")
    await page.context.clear_cookies()
    await mia.log_in("Mia", INVITED_PASSWORD)
    await mia.visit(f"chats/{CHAT}")
    await page.get_by_label("Say something as the bot").fill("Mia is here too")
    await page.get_by_role("button", name="Send").click()
    await expect(page.locator(".nc-chat-line-bot", has_text="Mia is here too")).to_be_visible()
    await mia.picture("operator")
    await mia.visit("people")
    await expect(page.get_by_text("This page is for people with the role Owner.")).to_be_visible()
    refused = await page.request.post(
        f"{mia.address}/api/v1/operator/people/invite", data={"name": "Eve", "role": "owner"}
    )
    assert refused.status == 403


async def _makes_a_backup(owner: ConsoleOperator, backup: Path) -> None:
    page = owner.page
    await owner.open("Backups")
    await page.get_by_label("Passphrase").fill(PASSPHRASE)
    await page.get_by_role("button", name="Make a backup").click()
    await owner.told("The backup was made and checked.")
    async with page.expect_download() as coming:
        await page.get_by_role("link", name="Download").click()
    await (await coming.value).save_as(backup)
    await owner.picture("backup")
    packed = backup.read_bytes()
    for secret in (KEY, SECRET, PASSWORD):
        assert secret.encode() not in packed


async def _restores(owner: ConsoleOperator, copy: BotProcess, backup: Path) -> None:
    """Upload the backup into a new bot, and restart this bot."""
    page = owner.page
    await page.goto(await copy.login_link())
    await page.get_by_role("link", name="Console").click()
    await owner.open("Backups")
    await page.get_by_text("Upload a backup").click()
    await page.locator("input[type=file]").set_input_files(backup)
    await owner.told("The backup was uploaded and checked.")
    row = page.locator("article", has_text="uploaded-")
    await row.get_by_role("button", name="Restore…").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Passphrase of the backup").fill(PASSPHRASE)
    await dialog.get_by_role("button", name="Prepare the restore").click()
    await expect(page.get_by_text("Keys and tokens come from the backup.")).to_be_visible()
    await owner.picture("restore")
    await page.get_by_role("button", name="Restart now, and restore").click()
    await dialog.get_by_role("button", name="Restart now").click()
    # The page connects again without a reload. The old login belonged to the data that was
    # replaced.
    await expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    await owner.picture("restored")
    assert "was restored" in copy.log
    await owner.log_in("owner", PASSWORD)


async def _finds_everything(owner: ConsoleOperator) -> None:
    """Check that the pages of the copy show the setup of the first bot."""
    page = owner.page
    await owner.open("Models")
    card = page.locator("article", has_text="Default model").first
    await expect(card).to_contain_text("key set")
    await owner.open("Platforms")
    await expect(page.get_by_role("article", name=ACCOUNT, exact=True)).to_be_visible()
    await owner.open("Personas")
    await expect(page.locator("article", has_text=PERSONA)).to_contain_text("used in all chats")
    await owner.open("People")
    await expect(page.locator("article", has_text="Mia")).to_contain_text("active")
    await owner.open("Plugins")
    await page.get_by_role("link", name="Greeter").click()
    await expect(page.get_by_label("Greeting")).to_have_value(GREETING)
    await expect(page.get_by_label("Code")).to_have_attribute(
        "placeholder", "set; leave this empty to keep it"
    )
    assert SECRET not in await page.content()


async def _is_answered_by_the_copy(
    owner: ConsoleOperator, peer: OneBotPeer, script: ModelByChat
) -> None:
    page = owner.page
    await owner.open("Chats")
    await page.locator(".nc-chats-row", has_text=CHAT).click()
    history = page.locator(".nc-chat-history")
    await expect(history.get_by_text("please greet everybody")).to_be_visible()
    await peer.wait_connected(LONG_S)
    await peer.say_in_group(GROUP, LIN, " one day later?", at_me=True)
    await expect(history.get_by_text("one day later?")).to_be_visible()
    refused = history.get_by_text("Not answered: the quota is used up")
    await expect(refused).to_have_count(2)
    asked_before = len(script.asked[CHAT])
    await peer.say_in_group(GROUP, MIA, " greet me too", at_me=True)
    await until(lambda: GREETED in [call.text for call in peer.sends])
    await expect(history.locator(".nc-chat-line-bot", has_text=GREETED)).to_have_count(2)
    await owner.picture("copy")
    (asked,) = script.asked[CHAT][asked_before:]
    assert PERSONA in str(asked.messages)
    assert "please greet everybody" in str(asked.messages)


def _kept(bot: BotProcess) -> dict[str, Any]:
    """The data that a backup must keep: rows of the database, settings, documents and plugins."""
    data = bot.data
    plugin = data / "plugin_data" / "ann.greeter" / "config.yaml"
    return {
        "messages": _rows(
            bot, "SELECT seq, chat_key, user_id, segments FROM messages ORDER BY seq"
        ),
        "turns": _rows(bot, "SELECT id, chat_key, stop FROM turns ORDER BY id"),
        "people": _rows(bot, "SELECT name, role, state, password_hash FROM console_people"),
        "settings": tomllib.loads((data / "settings.toml").read_text()),
        "secrets": tomllib.loads((data / "secrets.toml").read_text()),
        "policies": tomllib.loads((data / "conduct.toml").read_text()),
        "plugin": (data / "plugins" / "greeter" / "__init__.py").read_text(),
        "configuration": plugin.read_text(),
        "token": json.loads((data / "running.json").read_text())["token"],
    }


def _rows(bot: BotProcess, query: str) -> list[tuple[Any, ...]]:
    place = f"file:{bot.data / 'nekro.sqlite3'}?mode=ro"
    with closing(sqlite3.connect(place, uri=True)) as connection:
        return connection.execute(query).fetchall()
