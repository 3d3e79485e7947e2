"""Runs a whole bot with invented people and chats, for the screenshots of the documents."""

import itertools
import os
import re
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import anyio
import httpx

from tests.console.pictures.files import write_files
from tests.console.pictures.past import hours_ahead, write_past
from tests.console.pictures.story import (
    CATS,
    CHATS,
    GAMES,
    MEI,
    MEI_TEXT,
    MUTED,
    NOODLE,
    NOTES,
    PEOPLE,
    PHOTO,
    READING,
    SUMMARIES,
    TODAY,
    TRAIL,
    WHOLE_SUMMARY,
    Line,
)
from tests.e2e.bot_process import BotProcess, running_bot
from tests.e2e.whole_bot import fence
from tests.peers.onebot_v11 import Failed, OneBotPeer
from tests.peers.onebot_v11.account import Account
from tests.peers.scripted_model import Answer, Asked, Reply, ScriptedModelServer, pieces

BOT_PORT, MODEL_PORT = 8080, 11434
"""The usual ports of the bot and of a model server on this machine. The screenshots show them."""
TOKEN = "tea-and-cats-and-books-2026"
PASSWORD = "green tea at half past four"
OPERATOR = "/api/v1/operator"
_CHAT = re.compile(r"^\[chat\] onebot_v11-\w+_(\d+): ", re.MULTILINE)
_SILENCE = fence("pass")
"""The model's reply to a line that the story does not answer."""
_KANA, _HAN = re.compile("[\u3040-\u30ff]"), re.compile("[\u4e00-\u9fff]")
_SUMMARIZE, _SUMMARIZE_ALL = "Write the summary alone.", "These are summaries"
"""Words in the bot's request for a summary of messages, and in its request for one summary of
several summaries."""
_WITHIN_S = 60.0
_BROWSER = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"


class NamedAccount(Account):
    """The fake platform's account. It knows the names of the people and groups."""

    def do_get_group_info(self, params: dict[str, Any]) -> dict[str, Any]:
        """Answer with the name of the group."""
        known = {each.number: each.name for each in CHATS}
        group = int(params["group_id"])
        return {"group_id": group, "group_name": known.get(group, ""), "member_count": 9}

    def do_get_login_info(self, _: dict[str, Any]) -> dict[str, Any]:
        """Answer with the bot's own name."""
        return {"user_id": int(MEI), "nickname": "Mei"}


class StoryModel:
    """Gives the replies of the story, at the speed of a real model."""

    def __init__(self) -> None:
        self.waiting: dict[str, list[str]] = {}
        self._summaries = 0

    def __call__(self, asked: Asked) -> Reply:
        system = "".join(
            str(each["content"]) for each in asked.messages if each["role"] == "system"
        )
        if _SUMMARIZE in system:
            return Answer(chunks=pieces(self._summary(asked)))
        found = _CHAT.search(system)
        waiting = self.waiting.get(found[1], []) if found else []
        reply = waiting.pop(0) if waiting else _SILENCE
        return Answer(chunks=[0.35, *pieces(reply)], delay_s=0.015)

    def _summary(self, asked: Asked) -> str:
        text = str(asked.messages[-1]["content"])
        language = "ja" if _KANA.search(text) else "zh" if _HAN.search(text) else "en"
        if language == "en" and _SUMMARIZE_ALL in str(asked.messages[0]["content"]):
            return WHOLE_SUMMARY
        self._summaries += 1
        return SUMMARIES[language][self._summaries % len(SUMMARIES[language])]


class Operator:
    """Calls operations of the running bot, with the access token of the owner."""

    def __init__(self, bot: BotProcess) -> None:
        self._web = httpx.AsyncClient(
            base_url=bot.address,
            headers={"Authorization": f"Bearer {bot.token}", "User-Agent": _BROWSER},
            timeout=_WITHIN_S,
            trust_env=False,
        )

    async def do(self, operation: str, **parameters: Any) -> Any:
        """Carry out an action. Returns its result."""
        path = f"{OPERATOR}/{operation.replace('.', '/')}"
        answer = await self._web.post(path, json=parameters)
        assert answer.is_success, f"{operation}: {answer.text}"
        return answer.json()

    async def ask(self, operation: str, **parameters: Any) -> Any:
        """Ask a query. Returns its result."""
        path = f"{OPERATOR}/{operation.replace('.', '/')}"
        answer = await self._web.get(path, params=parameters)
        assert answer.is_success, f"{operation}: {answer.text}"
        return answer.json()["result"]

    async def link(self) -> str:
        """A one-time link to the page."""
        return str((await self._web.post("/api/v1/links")).json()["url"])

    async def log_in(self) -> None:
        """Log the owner in with the token, as the first start's link does."""
        token = self._web.headers["Authorization"].removeprefix("Bearer ")
        assert (await self._web.post("/login", data={"token": token})).is_success
        self._web.cookies.clear()

    async def join(self, name: str, role: str) -> None:
        """Invite a person, and accept the invitation as this person."""
        invited = await self.do("people.invite", name=name, role=role)
        (token,) = parse_qs(urlsplit(_path_of(invited)).query)["token"]
        async with httpx.AsyncClient(
            base_url=self._web.base_url, trust_env=False, headers={"User-Agent": _BROWSER}
        ) as browser:
            form = {"token": token, "password": PASSWORD}
            assert (await browser.post("/join", data=form)).is_success

    async def aclose(self) -> None:
        """Close the connections."""
        await self._web.aclose()


def _path_of(invited: Mapping[str, Any]) -> str:
    texts = [str(each) for each in _values(invited)]
    return next(each for each in texts if "token=" in each)


def _values(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return [each for inner in value.values() for each in _values(inner)]
    return [value]


@asynccontextmanager
async def bot_with_a_life(folder: Path) -> AsyncIterator[tuple[BotProcess, Operator]]:
    """Start the bot with four weeks of past messages, then let people and the operator act
    today."""
    data = folder / "data"
    data.mkdir(parents=True)
    await write_past(data / "nekro.sqlite3")
    write_files(data)
    model = StoryModel()
    async with (
        ScriptedModelServer(model, port=await _free(MODEL_PORT)) as server,
        running_bot(folder, **_environment()) as bot,
    ):
        operator = Operator(bot)
        try:
            await _begin(operator, server.base_url)
            peer = OneBotPeer(MEI, TOKEN, bot.onebot_url)
            peer.account = NamedAccount(MEI, ids=itertools.count(9001).__next__)
            async with peer:
                await peer.wait_connected()
                await _announce(operator)
                await _live(peer, model)
                await _operate(operator, peer)
                yield bot, operator
        finally:
            await operator.aclose()


def _environment() -> dict[str, str]:
    bin_folder = str(Path(sys.executable).parent)
    return {
        "PORT": os.environ.get("PICTURES_PORT", str(BOT_PORT)),
        "LOG_LEVEL": "INFO",
        "NEKRO_TRIGGER__DEBOUNCE_S": "0.2",
        "TZ": f"MEI{-hours_ahead():+d}",  # POSIX counts hours to the west
        "PATH": f"{bin_folder}:{os.environ['PATH']}",
    }


async def _free(port: int) -> int:
    """Return the port, or 0 if another program uses it."""
    try:
        async with await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=port):
            return port
    except OSError:
        return 0


async def _begin(operator: Operator, model_url: str) -> None:
    """Choose the model, connect the account, and invite people."""
    await operator.log_in()
    await operator.do("people.rename_myself", name="ruth")
    await operator.do("people.set_password", password=PASSWORD)
    fields = {
        "base_url": model_url,
        "model": "qwen3:14b",
        "context_tokens": 32_768,
        "prompt_price": 0,
        "completion_price": 0,
    }
    await operator.do("models.put", group="default", fields=fields)
    await operator.do(
        "models.put",
        group="clever",
        fields={"base_url": "https://api.deepseek.com/v1", "model": "deepseek-chat"},
        api_key="sk-this-key-is-not-real",
    )
    await operator.do(
        "models.put",
        group="pictures",
        fields={"base_url": "https://api.openai.com/v1", "model": "gpt-4o-mini", "vision": True},
        api_key="sk-this-key-is-not-real",
    )
    chains = {"chat": ["default", "clever"], "quick": ["default"], "vision": ["pictures"]}
    for role, names in chains.items():
        await operator.do("models.set_role", role=role, names=names)
    for account in (MEI, NOODLE):
        settings = {"account": account, "access_token": TOKEN}
        await operator.do("platforms.add_account", platform="onebot_v11", settings=settings)
    await operator.do("platforms.pause_account", platform="onebot_v11", account=NOODLE)
    await operator.join("jonas", "operator")
    await operator.join("sakura", "viewer")
    await operator.do("people.invite", name="林晓", role="viewer")
    await operator.do(
        "network.put", owner=f"onebot_v11-group_{TRAIL}", allow=["api.open-meteo.com"]
    )


async def _announce(operator: Operator) -> None:
    """Announce an update to several chats."""
    await operator.do(
        "broadcast.start",
        text="Mei is away on Friday from 2 to 3 o'clock for an update.",
        chats=[each.key for each in CHATS if each.number != GAMES][:4],
        per_minute=600,
    )
    await anyio.sleep(3)


async def _live(peer: OneBotPeer, model: StoryModel) -> None:
    """Let people talk to the bot, and wait for its answers."""
    for line in TODAY:
        await _say(peer, model, line)
    peer.answer("send", Failed(120, "the bot was muted in this group"))
    await _say(peer, model, MUTED)
    await anyio.sleep(2)
    assert not any(model.waiting.values()), f"not asked for: {model.waiting}"


async def _say(peer: OneBotPeer, model: StoryModel, line: Line) -> None:
    model.waiting.setdefault(str(line.chat), []).extend(line.replies)
    private = line.chat in PEOPLE
    chat = ("private" if private else "group", str(line.chat))
    words: list[dict[str, Any]] = [{"type": "text", "data": {"text": line.text}}]
    if line.replies and not private:
        words.insert(0, {"type": "at", "data": {"qq": MEI, "name": "Mei"}})
    event = peer.account.message(chat, line.who, words)
    event["sender"]["nickname"] = PEOPLE[line.who]
    before = len(peer.sends)
    await peer.emit(event)
    if line.replies:
        await peer.until(lambda: len(peer.sends) > before, _WITHIN_S)
    await anyio.sleep(0.4)


async def _operate(operator: Operator, peer: OneBotPeer) -> None:
    """Set up the bot as its operator would."""
    await operator.do("personas.save", persona="Mei", text=MEI_TEXT, revision=0)
    more = f"{MEI_TEXT}\nYou never reveal the end of a book."
    await operator.do("personas.save", persona="Mei", text=more, revision=1, note="no spoilers")
    captain = "You are Captain Noodle. You answer like an old sailor who became a cook."
    await operator.do("personas.save", persona="Captain Noodle", text=captain, revision=0)
    coach = "You are a patient running coach. You count in kilometres and praise small steps."
    await operator.do("personas.save", persona="Coach", text=coach, revision=0)
    await operator.do(
        "timers.set_recurring",
        chat_key=f"onebot_v11-group_{READING}",
        cron="0 18 * * 3",
        text="提醒大家今晚七点半读书会，并说出本周的章节",
        title="读书会提醒",
        timezone="Asia/Shanghai",
    )
    await operator.do(
        "timers.set_recurring",
        chat_key=f"onebot_v11-group_{TRAIL}",
        cron="30 6 * * 0",
        text="Say how the weather will be for the Sunday run.",
        title="Sunday weather",
        timezone="Europe/Paris",
    )
    await operator.do(
        "timers.set_recurring",
        chat_key=f"onebot_v11-group_{PHOTO}",
        cron="0 7 * * *",
        text="日の出の時刻と今日の天気を伝える",
        title="朝の光",
        timezone="Asia/Tokyo",
    )
    for about, text in NOTES:
        who = {"about_id": str(about), "about_name": PEOPLE[about]} if about else {}
        await operator.do("memory.add_note", chat_key=f"onebot_v11-group_{TRAIL}", text=text, **who)
    asked = {"post_type": "request", "self_id": int(MEI), "time": int(time.time())}
    for number, event in enumerate(
        (
            {"request_type": "friend", "user_id": 70401, "comment": "Hi, Priya told me about you"},
            {
                "request_type": "group",
                "sub_type": "invite",
                "user_id": 70102,
                "group_id": 61009,
                "comment": "",
            },
            {
                "request_type": "group",
                "sub_type": "add",
                "user_id": 70402,
                "group_id": CATS,
                "comment": "我家也有三只猫，想加入",
            },
        )
    ):
        await peer.emit({**asked, "flag": f"flag-{number}", **event})
    await operator.do("requests.ban", place="onebot_v11", user_id="70999")
    await operator.do("health.check")
    await operator.do("backups.make")
    await operator.do(
        "chats.set_policy",
        chat_key=f"onebot_v11-group_{CATS}",
        field="state",
        value="observe",
    )
    await anyio.sleep(6)
