"""Defines the bots that are compared: how to configure, start and reach each of them."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

ROOT = Path(__file__).parents[2]
ASTRBOT_BIN = ROOT / ".venv-astrbot" / "bin"
LANGBOT_BIN = ROOT / ".venv-langbot" / "bin"
MANY = 1_000_000
"""A value for the bots' rate limits. The benchmark sends more messages than a person would, but it
never reaches this value."""
_SETUP_S = 120.0


def free_port() -> int:
    """A port of 127.0.0.1 that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Bot(ABC):
    """One bot in its own folder. `prepare` sets ``folder`` and ``model_url``."""

    name = ""
    url = ""
    """The address to which a OneBot implementation connects."""
    token = ""
    """The access token, if the bot needs one."""
    folder: Path = Path()
    model_url: str = ""
    process: "subprocess.Popen[bytes] | None" = None
    port: int = field(default_factory=free_port)

    @property
    @abstractmethod
    def version(self) -> str:
        """The installed version. Raises `OSError` if the bot is not installed."""

    @property
    @abstractmethod
    def command(self) -> list[str]:
        """The command that starts the bot in its folder."""

    @property
    def environment(self) -> dict[str, str]:
        """The settings that are environment variables."""
        return {}

    @abstractmethod
    async def configure(self) -> None:
        """Write the settings into the folder. Some bots are started and ended for this."""

    async def prepare(self, folder: Path, model_url: str) -> None:
        """Configure the bot and have it make its database, so that the measured start is not its
        first start."""
        await anyio.Path(folder).mkdir(parents=True)
        self.folder, self.model_url = folder, model_url
        await self.configure()

    def start(self) -> None:
        """Start the bot without waiting until it is ready."""
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                self.command,
                cwd=self.folder,
                env={**os.environ, "PYTHONDONTWRITEBYTECODE": "", **self.environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    async def end(self, number: signal.Signals = signal.SIGTERM) -> None:
        """End the bot. If it does not end within 20 s, it is killed."""
        if self.process is None:
            return
        self.process.send_signal(number)
        try:
            await asyncio.to_thread(self.process.wait, 20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None

    @contextmanager
    def _running(self) -> Iterator[None]:
        self.start()
        try:
            yield
        finally:
            assert self.process is not None
            self.process.terminate()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            self.process = None


class Nekro(Bot):
    """The bot of this repository, as it is checked out here."""

    name = "nekro-core"
    token = "bench-token"

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}/onebot/v11/ws"

    @property
    def version(self) -> str:
        asked = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
        return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()

    @property
    def command(self) -> list[str]:
        return [sys.executable, str(ROOT / "bot.py")]

    @property
    def environment(self) -> dict[str, str]:
        return {
            "PORT": str(self.port),
            "NEKRO_LLM__BASE_URL": self.model_url,
            "NEKRO_LLM__MODEL": "scripted",
            "NEKRO_TRIGGER__DEBOUNCE_S": "0",
            "NEKRO_TRIGGER__BURST_TURNS": "0",
            "NEKRO_TRIGGER__HOUR_TURNS": "0",
            "NEKRO_DELIVERY__SENDS_PER_WINDOW": str(MANY),
            "ONEBOT_ACCESS_TOKEN": self.token,
            "LOG_LEVEL": "INFO",
        }

    async def configure(self) -> None:
        with self._running():
            await _until_open(self.port)
            await anyio.sleep(1)


class AstrBot(Bot):
    """AstrBot from the package registry; it needs Python 3.12 or later."""

    name = "AstrBot"

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}/ws"

    @property
    def version(self) -> str:
        return _installed(ASTRBOT_BIN, "AstrBot")

    @property
    def command(self) -> list[str]:
        return [str(ASTRBOT_BIN / "astrbot"), "run"]

    async def configure(self) -> None:
        with anyio.fail_after(_SETUP_S):
            await anyio.run_process([*self.command[:1], "init", "-y"], cwd=self.folder)
        settings = self.folder / "data" / "cmd_config.json"
        with self._running():
            with anyio.fail_after(_SETUP_S):
                while not settings.exists():  # noqa: ASYNC110 - another process's file
                    await anyio.sleep(0.1)
            await anyio.sleep(3)
        config = json.loads(settings.read_text("utf-8-sig"))
        config["platform_settings"]["rate_limit"]["count"] = MANY
        config["dashboard"] |= {"host": "127.0.0.1", "port": free_port()}
        config["platform"] = [
            {
                "id": "qq",
                "type": "aiocqhttp",
                "enable": True,
                "ws_reverse_host": "127.0.0.1",
                "ws_reverse_port": self.port,
                "ws_reverse_token": "",
            }
        ]
        config["provider_sources"] = [
            {
                "id": "scripted",
                "type": "openai_chat_completion",
                "provider": "openai",
                "provider_type": "chat_completion",
                "enable": True,
                "key": ["none"],
                "api_base": self.model_url,
                "timeout": 120,
            }
        ]
        config["provider"] = [
            {
                "id": "scripted/scripted",
                "provider_source_id": "scripted",
                "model": "scripted",
                "enable": True,
                "modalities": ["text"],
            }
        ]
        config["provider_settings"]["default_provider_id"] = "scripted/scripted"
        settings.write_text(json.dumps(config), "utf-8-sig")
        with self._running():
            await _until_open(self.port)
            await anyio.sleep(3)


class LangBot(Bot):
    """LangBot from the package registry. Its plugin runtime, a separate program, is not started,
    which makes LangBot quicker and smaller."""

    name = "LangBot"
    _api_port = 0

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}/ws"

    @property
    def version(self) -> str:
        return _installed(LANGBOT_BIN, "langbot")

    @property
    def command(self) -> list[str]:
        return [str(LANGBOT_BIN / "langbot")]

    @property
    def environment(self) -> dict[str, str]:
        return {
            "API__PORT": str(self._api_port),
            "PLUGIN__ENABLE": "false",
            "BOX__ENABLED": "false",
            "CONCURRENCY__PENDING_QUERIES": str(MANY),
            "CONCURRENCY__PENDING_QUERIES_PER_WORKSPACE": str(MANY),
            "SPACE__DISABLE_MODELS_SERVICE": "true",
            "SPACE__DISABLE_TELEMETRY": "true",
        }

    async def configure(self) -> None:
        self._api_port = free_port()
        with self._running():
            await _until_open(self._api_port)
            await asyncio.to_thread(self._set_up)
        with self._running():
            await _until_open(self.port)  # a new account is served only after a restart

    def _set_up(self) -> None:
        user = {"user": "bench@example.com", "password": "bench-password-1"}
        self._call("POST", "/user/init", user)
        token = self._call("POST", "/user/auth", user)["token"]
        provider = {
            "name": "scripted",
            "requester": "openai-chat-completions",
            "base_url": self.model_url,
            "api_keys": ["none"],
        }
        provider_id = self._call("POST", "/provider/providers", provider, token)["uuid"]
        model = {
            "name": "scripted",
            "provider_uuid": provider_id,
            "abilities": [],
            "extra_args": {},
        }
        model_id = self._call("POST", "/provider/models/llm", model, token)["uuid"]
        named = {"name": "bench", "description": "bench", "emoji": ""}
        way = f"/pipelines/{self._call('POST', '/pipelines', named, token)['uuid']}"
        pipeline = self._call("GET", way, None, token)["pipeline"]
        config = pipeline["config"]
        config["ai"]["local-agent"]["model"]["primary"] = model_id
        config["safety"]["rate-limit"]["limitation"] = MANY
        self._call("PUT", way, {**named, "config": config}, token)
        account = {
            "name": "qq",
            "description": "",
            "adapter": "aiocqhttp",
            "adapter_config": {"host": "127.0.0.1", "port": self.port, "access-token": ""},
            "enable": True,
            "use_pipeline_uuid": pipeline["uuid"],
        }
        self._call("POST", "/platform/bots", account, token)

    def _call(self, method: str, path: str, body: Any, token: str = "") -> Any:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self._api_port}/api/v1{path}",
            data=None if body is None else json.dumps(body).encode(),
            method=method,
            headers={"Content-Type": "application/json", "Authorization": f"Bearer {token}"},
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                said = json.load(answer)
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{method} {path}: {error}: {error.read()[:500]!r}") from error
        assert said["code"] == 0, f"{method} {path}: {said}"
        return said["data"]


def _installed(folder: Path, distribution: str) -> str:
    asked = f"import importlib.metadata as m; print(m.version({distribution!r}))"
    told = subprocess.run(
        [str(folder / "python"), "-c", asked], capture_output=True, text=True, check=True
    )
    return told.stdout.strip()


async def _until_open(port: int) -> None:
    with anyio.fail_after(_SETUP_S):
        while True:
            try:
                stream = await anyio.connect_tcp("127.0.0.1", port)
            except OSError:
                await anyio.sleep(0.1)
            else:
                await stream.aclose()
                return
