"""Starts a real Matrix homeserver, Synapse, in a separate Python environment.

``make .venv-synapse/.installed`` makes the environment (242 MB, once); `make long` calls it. A
server takes about 4 s to start and 120 MB of memory, so all tests of a session share one.
"""

import asyncio
import hashlib
import hmac
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anyio
import httpx

from tests.peers.ports import free_port

HOME = Path(os.environ.get("SYNAPSE_VENV") or Path(__file__).parents[2] / ".venv-synapse")
PYTHON = HOME / "bin" / "python"
SECRET = "a secret for registering people in tests"
START_S = 90.0

_CONFIG = """\
server_name: localhost
pid_file: {folder}/pid
listeners:
  - {{port: {port}, type: http, bind_addresses: [127.0.0.1], resources: [{{names: [client]}}]}}
database: {{name: sqlite3, args: {{database: "{folder}/homeserver.db"}}}}
log_config: {folder}/log.yaml
media_store_path: {folder}/media
registration_shared_secret: "{secret}"
macaroon_secret_key: a secret for tests
form_secret: another secret for tests
signing_key_path: {folder}/signing.key
report_stats: false
trusted_key_servers: []
federation_domain_whitelist: []
bcrypt_rounds: 4
presence: {{enabled: false}}
url_preview_enabled: false
rc_message: {{per_second: 1000, burst_count: 1000}}
rc_login:
  address: {{per_second: 1000, burst_count: 1000}}
  account: {{per_second: 1000, burst_count: 1000}}
rc_registration: {{per_second: 1000, burst_count: 1000}}
rc_joins:
  local: {{per_second: 1000, burst_count: 1000}}
rc_invites:
  per_room: {{per_second: 1000, burst_count: 1000}}
  per_user: {{per_second: 1000, burst_count: 1000}}
  per_issuer: {{per_second: 1000, burst_count: 1000}}
"""
_LOG = """\
version: 1
formatters: {{precise: {{format: "%(asctime)s %(levelname)s %(name)s %(message)s"}}}}
handlers: {{file: {{class: logging.FileHandler, filename: "{folder}/log", formatter: precise}}}}
root: {{level: WARNING, handlers: [file]}}
"""


def installed() -> bool:
    """Return True if Synapse is installed on this machine."""
    return PYTHON.exists()


class Refused(AssertionError):
    """The server refused a request that a test made for a person."""


@dataclass
class Person:
    """An account and the calls of its client."""

    user_id: str
    token: str
    client: httpx.AsyncClient

    async def call(self, method: str, path: str, **more: Any) -> Any:
        """Call a path below ``/_matrix/client/v3`` and return the decoded answer."""
        answer = await self.client.request(
            method,
            path if path.startswith("/_matrix") else f"/_matrix/client/v3{path}",
            headers={"Authorization": f"Bearer {self.token}"},
            **more,
        )
        if not answer.is_success:
            raise Refused(f"{method} {path}: {answer.status_code} {answer.text}")
        return answer.json()

    async def make_room(self, *invited: "Person", **more: Any) -> str:
        """Make an unencrypted room and invite these people, who must still join. Returns its id."""
        preset = {"preset": "private_chat", "invite": [each.user_id for each in invited]}
        return str((await self.call("POST", "/createRoom", json=preset | more))["room_id"])

    async def join(self, room: str) -> None:
        await self.call("POST", f"/join/{quote(room)}", json={})

    async def send(self, room: str, content: Any, kind: str = "m.room.message") -> str:
        """Send an event into a room. Returns its id."""
        number = os.urandom(8).hex()
        path = f"/rooms/{quote(room)}/send/{kind}/{number}"
        return str((await self.call("PUT", path, json=content))["event_id"])

    async def say(self, room: str, text: str, **more: Any) -> str:
        return await self.send(room, {"msgtype": "m.text", "body": text, **more})

    async def redact(self, room: str, event_id: str) -> None:
        path = f"/rooms/{quote(room)}/redact/{quote(event_id)}/{os.urandom(8).hex()}"
        await self.call("PUT", path, json={})

    async def upload(self, data: bytes, mime: str, name: str = "") -> str:
        """Upload bytes to the media repository. Returns their ``mxc://`` address."""
        answer = await self.client.post(
            "/_matrix/media/v3/upload",
            params={"filename": name},
            content=data,
            headers={"Authorization": f"Bearer {self.token}", "Content-Type": mime},
        )
        if not answer.is_success:
            raise Refused(answer.text)
        return str(answer.json()["content_uri"])

    async def fetch(self, mxc: str) -> bytes:
        """Download the bytes of an ``mxc://`` address as a client does."""
        where = mxc.removeprefix("mxc://")
        answer = await self.client.get(
            f"/_matrix/client/v1/media/download/{where}",
            headers={"Authorization": f"Bearer {self.token}"},
        )
        assert answer.is_success, answer.text
        return answer.content

    async def timeline(self, room: str, *, of: str = "") -> list[dict[str, Any]]:
        """A room's messages, oldest first. With ``of``, only this person's messages."""
        found: list[dict[str, Any]] = []
        start: str | None = None
        while True:
            params = {"dir": "b", "limit": 100} | ({"from": start} if start else {})
            page = await self.call("GET", f"/rooms/{quote(room)}/messages", params=params)
            found += page["chunk"]
            start = page.get("end")
            if not start or not page["chunk"]:
                break
        messages = [event for event in found if event["type"] == "m.room.message"]
        return [event for event in reversed(messages) if of in ("", event["sender"])]

    async def until_said(
        self, room: str, count: int, *, of: str, within: float = 30.0
    ) -> list[dict[str, Any]]:
        """Wait until a person has sent this many messages, without counting edits, and return
        them."""
        with anyio.fail_after(within):
            while True:
                said = [
                    event
                    for event in await self.timeline(room, of=of)
                    if event["content"].get("m.relates_to", {}).get("rel_type") != "m.replace"
                ]
                if len(said) >= count:
                    return said
                await anyio.sleep(0.05)


@dataclass
class Synapse:
    """A running server."""

    folder: Path
    port: int
    process: asyncio.subprocess.Process
    client: httpx.AsyncClient

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def person(self, name: str, *, password: str = "a password for tests") -> Person:
        """Register an account and log it in. Fails if an earlier test used the name."""
        path = "/_synapse/admin/v1/register"
        nonce = (await self.client.get(path)).json()["nonce"]
        parts = (nonce, name, password, "notadmin")
        signed = hmac.new(SECRET.encode(), "\0".join(parts).encode(), hashlib.sha1).hexdigest()
        body = {"nonce": nonce, "username": name, "password": password, "mac": signed}
        body |= {"admin": False, "displayname": name.capitalize()}
        answer = await self.client.post(path, json=body)
        assert answer.is_success, answer.text
        made = answer.json()
        return Person(made["user_id"], made["access_token"], self.client)


@asynccontextmanager
async def synapse(folder: Path) -> AsyncIterator[Synapse]:
    """Run a server with its data in ``folder``, on a free port of 127.0.0.1."""
    port = free_port()
    (folder / "log.yaml").write_text(_LOG.format(folder=folder))
    (folder / "homeserver.yaml").write_text(_CONFIG.format(folder=folder, port=port, secret=SECRET))
    command = (str(PYTHON), "-m", "synapse.app.homeserver", "-c", str(folder / "homeserver.yaml"))
    made = await asyncio.create_subprocess_exec(*command, "--generate-keys", cwd=folder)
    assert await made.wait() == 0
    with (folder / "out").open("wb") as out:
        process = await asyncio.create_subprocess_exec(*command, cwd=folder, stdout=out, stderr=out)
    try:
        async with httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{port}", timeout=30, trust_env=False
        ) as client:
            with anyio.fail_after(START_S):
                while not await _answers(client):
                    assert process.returncode is None, (folder / "out").read_text()[-3000:]
                    await anyio.sleep(0.1)
            yield Synapse(folder, port, process, client)
    finally:
        if process.returncode is None:
            # the data are not needed any more, so it need not stop cleanly
            process.send_signal(signal.SIGKILL)
        await process.wait()


async def _answers(client: httpx.AsyncClient) -> bool:
    try:
        return (await client.get("/health")).is_success
    except httpx.TransportError:
        return False
