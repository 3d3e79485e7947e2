"""Attacks through the two connections that the host opens: egress and previews."""

import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import anyio.to_thread
from anyio.abc import ByteStream

from nekro_core.sandbox.box import Box
from nekro_core.sandbox.egress import Egress, EgressRules
from nekro_core.sandbox.egress.dial import Dialer
from nekro_core.sandbox.egress.rules import EgressRule
from nekro_core.sandbox.jail.defences import JailDefences
from nekro_core.sandbox.preview import PreviewTargetState
from tests.sandbox.attacks.attack import PRELUDE, Attack, GotThrough, Ground, Without, judge
from tests.sandbox.attacks.egress import seen_by
from tests.sandbox.preview.world import World, status, world

SPELLINGS = [
    "evil.test",
    "allowed.test.evil.test",
    "evil.test\\x00.allowed.test",
    "evil.test%00.allowed.test",
    "allowed.test@evil.test",
    "evil.test@allowed.test",
    "allowed.test.",
    "ALLOWED.test",
    "\\uff41llowed.test",
    "xn--llowed-test",
    "127.0.0.1",
    "127.1",
    "2130706433",
    "0x7f000001",
    "0177.0.0.1",
    "[::1]",
    "[::ffff:127.0.0.1]",
    "localhost",
]

ASK = """
def ask(host, port):
    with socket.create_connection(("127.0.0.1", 3128), 5) as sock:
        sock.sendall(f"CONNECT {host}:{port} HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n".encode())
        return int((sock.recv(100) or b"HTTP/1.1 000").split(b" ")[1])
"""


@asynccontextmanager
async def way_out(ground: Ground, answers: dict[str, list[list[str]]]) -> AsyncIterator[None]:
    """Let the box reach allowed.test, or everything if the defence is switched off. ``answers`` has
    the addresses of each name, one list for each lookup."""
    rules = EgressRules.parse(["allowed.test:1", "allowed.test:80", "allowed.test:443"])
    if ground.without is not None:
        rules = EgressRules(
            tuple(EgressRule("*", frozenset(range(65536)), private=True) for _ in "1")
        )
    current = [rules]

    async def resolve(name: str) -> list[str]:
        found = answers.get(name)
        if not found:
            raise OSError
        return found.pop(0) if len(found) > 1 else found[0]

    async with Egress.open(lambda *_: current[0], dialer=Dialer(resolve)) as egress:
        await egress.attach("attack", "default", ground.box)
        try:
            yield
        finally:
            current[0] = EgressRules()
            await egress.refresh()


async def other_names(ground: Ground) -> GotThrough:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        async with way_out(ground, {"evil.test": [["127.0.0.1"]]}):
            spelled = "[" + ", ".join(f'"{name}"' for name in SPELLINGS) + "]"
            code = f"{PRELUDE}{ASK}\nfor host in {spelled}:\n"
            code += f"    code = ask(host, {port})\n    holds(code in (400, 403), (host, code))"
            got = judge(await ground.play(code), len(SPELLINGS))
        if await anyio.to_thread.run_sync(seen_by, server):
            got.append("a server of the host saw it")
        return got


async def inner_addresses(ground: Ground) -> GotThrough:
    with socket.create_server(("127.0.0.1", 0)) as server:
        rules = EgressRule("allowed.test", frozenset({server.getsockname()[1]}))
        port = next(iter(rules.ports))
        changing = [["192.0.2.1"], ["127.0.0.1"], ["::ffff:127.0.0.1"], ["169.254.169.254"]]
        async with way_out(ground, {"allowed.test": [*changing, ["127.0.0.1"]]}):
            code = f"{PRELUDE}{ASK}\nfor port in (80, 443, {port}, {port}, {port}):\n"
            code += "    code = ask('allowed.test', port)\n    holds(code == 403, code)"
            got = judge(await ground.play(code), 5)
        if await anyio.to_thread.run_sync(seen_by, server):
            got.append("a server of the host saw it")
        return got


class Shown:
    """A box that a preview shows."""

    def __init__(self, box: Box) -> None:
        self._box = box

    @property
    def preview_state(self) -> PreviewTargetState:
        return PreviewTargetState.RUNNING if self._box.alive else PreviewTargetState.GONE

    async def connect(self, port: int) -> ByteStream:
        return await self._box.connect(port)


async def port_of_the_host(ground: Ground) -> GotThrough:
    with socket.create_server(("127.0.0.1", 0)) as server:
        async with world() as here:
            port = server.getsockname()[1]
            name = here.preview.open(Shown(ground.box), port).split("/")[2]
            with anyio.move_on_after(2):
                answer = await here.get(name)
                got = [] if status(answer) == 502 else [answer.decode("latin-1")]
                if not await anyio.to_thread.run_sync(seen_by, server):
                    return got
        return ["a server of the host was shown"]


SERVER = """
import http.server

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = repr(self.headers.items()).encode()
        self.send_response(302 if self.path == "/away" else 200)
        self.send_header("Set-Cookie", "nekro_session=stolen; Domain=preview.localhost; Path=/")
        self.send_header("Set-Cookie", "theirs=1; domain=localhost")
        self.send_header("Clear-Site-Data", '"cookies"')
        self.send_header("Location", "http://127.0.0.1:%d/ui")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

http.server.ThreadingHTTPServer(("127.0.0.1", 8000), Handler).serve_forever()
"""


async def hostile_server(ground: Ground) -> GotThrough:
    async with world() as here:
        await ground.box.write_file("server.py", (SERVER % here.port).encode())
        await ground.box.execute("python3 server.py > /dev/null 2>&1 &")
        name = here.preview.open(Shown(ground.box), 8000).split("/")[2]
        with anyio.fail_after(30):
            while status(await here.get(name)) == 502:
                await anyio.sleep(0.02)
        return await _tried(here, name)


async def _tried(here: World, name: str) -> GotThrough:
    got = []
    for path in ("/", "/away"):
        answer = (await here.get(name, path, "Cookie: nekro_session_1=secret; a=b")).lower()
        head = answer.partition(b"\r\n\r\n")[0]
        got += [
            line.decode("latin-1")
            for line in head.split(b"\r\n")
            if b"domain=" in line or line.startswith(b"clear-site-data")
        ]
        if b"secret" in answer:
            got.append("it saw the bot's cookie")
    token = name.partition(".")[0]
    for host, expected in {
        f"{'a' * 32}.preview.localhost": 404,
        "preview.localhost": 404,
        f"{token}.evil.preview.localhost": 404,
        f"localhost@{name}": 400,
        f"{name}/../": 400,
    }.items():
        if status(await here.get(host)) != expected:
            got.append(host)
    if here.bot.seen:
        got.append(f"the bot was asked: {json.dumps(here.bot.seen)}")
    return got


ATTACKS = [
    Attack(number=5, name="other names than the allowed one", act=other_names, without=Without()),
    Attack(
        number=5,
        name="an allowed name whose address becomes private",
        act=inner_addresses,
        without=Without(),
    ),
    Attack(
        number=41,
        name="a port of the host in a preview",
        act=port_of_the_host,
        without=Without(defences=JailDefences(network=False)),
    ),
    Attack(
        number=41,
        name="a hostile server in a preview",
        act=hostile_server,
        because="its defence is the proxy; tests/sandbox/preview tries what it does line by line",
        spoils=True,
    ),
]
