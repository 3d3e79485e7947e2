"""Attacks on a whole bot by strangers on the network, by chat members, by the model's code and by
other users of the machine.

Each attack must fail, and the bot must continue to serve everybody else.
"""

import http.server
import os
import stat
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import anyio
import httpx
import pytest

from tests.e2e.whole_bot import TOKEN, WholeBot, fence, whole_bot

pytestmark = pytest.mark.long

SECRET = "canary-5d1f"


@pytest.fixture(scope="module")
async def whole(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[WholeBot]:
    folder = tmp_path_factory.mktemp("attacks")
    # This is the mode that git gives the folder: other users may list it.
    (folder / "data").mkdir(mode=0o755)
    (folder / "canary").write_text(SECRET)
    async with whole_bot(folder) as whole:
        yield whole


class _Service(http.server.BaseHTTPRequestHandler):
    """A service on the host that answers every request that reaches it."""

    def do_GET(self) -> None:
        self.server.visits.append(self.path)  # type: ignore[attr-defined]
        self.send_response(200)
        self.end_headers()
        self.wfile.write(SECRET.encode())

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def service() -> Iterator[http.server.ThreadingHTTPServer]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Service)
    server.visits = []  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


# ---- the model's code


async def told(whole: WholeBot, code: str) -> str:
    """Run code and return the value of its variable ``told``. The code raises this value as an
    error, because an error always opens a step whose prompt shows it."""
    group = whole.group(fence(f"{code}\nraise RuntimeError(told)"))
    await whole.peer.say_in_group(group, 10001, "go", at_me=True)
    with anyio.fail_after(30):
        while len(whole.prompts(group)) < 2:
            await anyio.sleep(0.02)
    return whole.prompts(group)[1].last_user_text


async def test_no_path_and_no_address_that_code_sends_as_a_file_reaches_the_host(
    whole: WholeBot, service: http.server.ThreadingHTTPServer
) -> None:
    port = service.server_address[1]
    canary = whole.bot.data.parent / "canary"
    ways = [
        *("/etc/passwd", "/etc/shadow", str(canary), f"file://{canary}", f"../../../..{canary}"),
        *("link", "to-proc", "loop", "fifo", "socket", "folder", "", "a\0b", "x" * 5000, "~"),
        *("/proc/self/root/etc/shadow", "/proc/1/environ", "/proc/self/fd/0", "/dev/zero"),
        *(f"http://{host}:{port}/" for host in ("127.0.0.1", "localhost", "[::1]", "0.0.0.0")),
        *(f"http://{host}:{port}/" for host in ("[::ffff:127.0.0.1]", "2130706433", "127.1")),
        *(f"http://127.0.0.1:{port}#@example.com/", f"HTTP://127.0.0.1:{port}/", "http://xn--/"),
    ]
    code = f"""
import os, socket
os.chdir("/home/user")
os.symlink({str(canary)!r}, "link"), os.symlink("/proc/1/environ", "to-proc")
os.symlink("loop", "loop"), os.mkfifo("fifo"), os.mkdir("folder")
socket.socket(socket.AF_UNIX).bind("socket")
came_back = []
for way in {ways!r}:
    for use in (send_file, send_image, view_image):
        try:
            came_back.append((way, use(way)))
        except ToolError:
            pass
told = f"came back: {{came_back}}"
"""
    assert "came back: []" in await told(whole, code)
    assert service.visits == []  # type: ignore[attr-defined]
    assert SECRET not in str([call.params for call in whole.peer.sends])


@pytest.mark.parametrize(
    "call",
    [
        "send_channel_message('x', chat_key='web-group_lobby')",
        "send_channel_message('x', _ctx=None)",
        "send_channel_message('x', mention='all')",
        "send_file('note.txt', chat_key='web-group_lobby')",
        "send_image('http://127.0.0.1/', ctx={})",
    ],
)
async def test_no_argument_of_a_call_chooses_the_chat_or_the_person_who_asks(
    whole: WholeBot, call: str
) -> None:
    code = f"""
open("/home/user/note.txt", "w").write("note")
try:
    told = f"it gave {{{call}}}"
except ToolError as error:
    told = "refused"
"""
    assert "RuntimeError: refused" in await told(whole, code)


async def test_hundreds_of_megabytes_of_arguments_do_not_stay_in_memory(whole: WholeBot) -> None:
    code = """
large = "A" * (15 * 2**20)
for _ in range(20):
    try:
        recent_messages([[large]])
    except ToolError:
        pass
told = "done"
"""
    before = peak_mb(whole)
    assert "RuntimeError: done" in await told(whole, code)
    assert peak_mb(whole) < before + 200
    await whole.others_are_served()


def peak_mb(whole: WholeBot) -> int:
    """The bot's peak memory in MB."""
    assert whole.bot.process is not None
    status = Path(f"/proc/{whole.bot.process.pid}/status").read_text()
    return next(int(line.split()[1]) // 1024 for line in status.splitlines() if "VmHWM" in line)


# ---- strangers on the network


@pytest.fixture
async def stranger(whole: WholeBot) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=whole.bot.address, trust_env=False, timeout=60) as client:
        yield client


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/ui", 401),
        ("/ui/", 401),
        ("/%75i/", 401),
        ("/ui%2f", 401),
        ("/ui/%2e%2e/api/v1/rooms", 401),
        ("/ui/_nicegui/3.0/components", 401),
        ("/ui/_nicegui_ws/socket.io/?EIO=4&transport=polling", 401),
        ("/_nicegui_ws/socket.io/?EIO=4&transport=polling", 404),
        ("/_nicegui/x", 404),
        ("/api/v1/rooms", 401),
        ("/api/v1//rooms", 401),
        ("//api/v1/rooms", 404),
        ("/api/v1/rooms/lobby/events", 401),
        ("/api/v1/rooms/lobby/media/1/0", 401),
        (f"/api/v1/rooms?token={TOKEN}", 401),
        ("/docs", 404),
        ("/openapi.json", 404),
        ("/onebot/v11/", 404),
        ("/onebot/v11/http", 404),
    ],
)
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"X-Forwarded-For": "127.0.0.1", "X-Forwarded-Prefix": "/ui", "X-Forwarded-Host": "x"},
        {"Cookie": "nekro_session_00000000=9999999999.x.y", "X-Original-URL": "/login"},
    ],
)
async def test_no_route_opens_without_the_token(
    stranger: httpx.AsyncClient, path: str, status: int, headers: dict[str, str]
) -> None:
    answer = await stranger.get(path, headers=headers)
    assert answer.status_code == status
    assert "chat_key" not in answer.text


@pytest.mark.parametrize(
    "headers",
    [
        "",
        "Authorization: Bearer\r\n",
        f"Authorization: {TOKEN}\r\n",
        f"Authorization: Basic {TOKEN}\r\n",
        f"Authorization: Bearer x{TOKEN}\r\n",
        f"Cookie: token={TOKEN}\r\n",
        f"Sec-WebSocket-Protocol: {TOKEN}\r\n",
    ],
)
@pytest.mark.parametrize(
    "path",
    [
        "/onebot/v11/",
        "/onebot/v11/ws",
        f"/onebot/v11/ws?access_token={TOKEN}",
        "/ui/_nicegui_ws/socket.io/?EIO=4&transport=websocket",
    ],
)
async def test_no_websocket_opens_without_the_token(
    whole: WholeBot, path: str, headers: str
) -> None:
    request = (
        f"GET {path} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
        f"X-Self-ID: 20002\r\n{headers}\r\n"
    )
    async with await anyio.connect_tcp("127.0.0.1", whole.bot.running["port"]) as stream:
        await stream.send(request.encode())
        with anyio.fail_after(30):
            assert (await stream.receive()).startswith(b"HTTP/1.1 403")


async def test_an_endless_header_costs_little_memory(whole: WholeBot) -> None:
    before = peak_mb(whole)
    async with await anyio.connect_tcp("127.0.0.1", whole.bot.running["port"]) as stream:
        await stream.send(b"GET /login HTTP/1.1\r\nHost: localhost\r\nX: ")
        with pytest.raises(anyio.BrokenResourceError):
            await stream.send(b"a" * 64_000_000)
    assert peak_mb(whole) < before + 30
    await whole.others_are_served()


# ---- other users of the machine


async def test_other_users_cannot_read_the_bots_files(whole: WholeBot) -> None:
    group = whole.group(
        fence('open("/home/user/diary", "w").write("dear")\nsend_channel_message("kept")')
    )
    assert await whole.ask(group) == ["kept"]
    upload = {"data": "c2VjcmV0", "name": "a.txt"}
    what = {"speaker": "lin", "text": "look", "attachments": [upload]}
    assert (await whole.web.post("/rooms/lobby/messages", json=what)).is_success
    boxes = whole.bot.data / "boxes"
    with anyio.fail_after(30):
        while not [*boxes.rglob("default.tar")]:
            await anyio.sleep(0.05)
    kept = dict(kept_files(whole.bot.data))
    assert {"nekro.sqlite3", "secrets", "boxes", "uploads"} <= {path.name for path in kept}
    open_to_others = [path for path, mode in kept.items() if mode & 0o077]
    assert open_to_others == []


def kept_files(folder: Path) -> Iterator[tuple[Path, int]]:
    """All files and folders below a folder with their modes, without symbolic links. The bot runs
    at the same time, so a file that it renames or deletes after the listing is skipped."""
    for parent, folders, files in os.walk(folder):
        for path in (Path(parent, name) for name in folders + files):
            try:
                mode = path.lstat().st_mode
            except FileNotFoundError:
                continue
            if not stat.S_ISLNK(mode):
                yield path, stat.S_IMODE(mode)


async def test_no_secret_is_in_the_log(whole: WholeBot) -> None:
    assert whole.bot.token not in whole.bot.log
    assert TOKEN not in whole.bot.log
    assert "Traceback" not in whole.bot.log
