"""Lists the packages that Nekro Agent's environment always has. Published plugins import them
without naming them as requirements.

The names and versions come from the metadata (``Requires-Dist``) of the published package
nekro-agent 2.4.0 and of the packages that it needs. The version limits in this metadata are not
used: a package is fetched in the newest version that fits the bot's own packages.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

ROOT = "nekro_agent"
"""Plugins that import this module are written for Nekro Agent."""

THE_FRAMEWORK = frozenset({"nekro-agent", "nekro-core"})
"""Distributions, by canonical name, in whose place a plugin gets this framework. A version that a
plugin wants of them is ignored."""

PROVIDED = THE_FRAMEWORK | {"nonebot2", "nonebot-adapter-onebot", "maibot-plugin-sdk"}
"""Distributions that are never fetched for a plugin, whatever version it asks for: the framework,
and the libraries through which plugins use it."""


@dataclass(frozen=True, slots=True)
class HostPackage:
    """A package of Nekro Agent's environment.

    ``modules`` are the top-level modules that plugins import from it; empty if this framework
    itself offers them. ``there`` is the major version in Nekro Agent's environment. ``here`` is the
    major version that a plugin gets from this bot: that of the bot's own package, or the newest of
    November 2026. A version 0.x also has its second number, if an interface changed with it.
    ``note`` says what an author should know about the difference; it may be empty.
    """

    name: str
    modules: tuple[str, ...]
    there: str
    here: str
    note: str = ""

    @property
    def differs(self) -> bool:
        """Whether the major versions differ."""
        return self.there != self.here


PACKAGES = (
    HostPackage("aiodocker", ("aiodocker",), "0", "0"),
    HostPackage("aiofiles", ("aiofiles",), "24", "25"),
    HostPackage("aiohttp", ("aiohttp",), "3", "3"),
    HostPackage("aiosmtplib", ("aiosmtplib",), "2", "5"),
    HostPackage("asyncpg", ("asyncpg",), "0", "0"),
    HostPackage("bcrypt", ("bcrypt",), "4", "5"),
    HostPackage("chinesecalendar", ("chinese_calendar",), "1", "1"),
    HostPackage("croniter", ("croniter",), "7", "7"),
    HostPackage("cryptography", ("cryptography",), "48", "48"),
    HostPackage("defusedxml", ("defusedxml",), "0", "0"),
    HostPackage("discord-py", ("discord",), "2", "2"),
    HostPackage("docker", ("docker",), "7", "7"),
    HostPackage("gitpython", ("git",), "3", "3"),
    HostPackage("httpx", ("httpx",), "0.27", "0.28", "`proxies=` is `proxy=` or `mounts=`"),
    HostPackage("jinja2", ("jinja2",), "3", "3"),
    HostPackage("json5", ("json5",), "0", "0"),
    HostPackage("lark-oapi", ("lark_oapi",), "1", "1"),
    HostPackage("lunar-python", ("lunar_python",), "1", "1"),
    HostPackage("matplotlib", ("matplotlib", "mpl_toolkits"), "3", "3"),
    HostPackage("mcp", ("mcp",), "1", "2", "the bot's own where its extra `mcp` is installed"),
    HostPackage("numpy", ("numpy",), "2", "2"),
    HostPackage("openai", ("openai",), "1", "3"),
    HostPackage("openpyxl", ("openpyxl",), "3", "3"),
    HostPackage("pandas", ("pandas",), "2", "3"),
    HostPackage("passlib", ("passlib",), "1", "1"),
    HostPackage("pillow", ("PIL",), "12", "13"),
    HostPackage("psutil", ("psutil",), "7", "7"),
    HostPackage("psycopg2-binary", ("psycopg2",), "2", "2"),
    HostPackage("pycryptodome", ("Crypto",), "3", "4"),
    HostPackage("pypdf", ("pypdf",), "5", "7"),
    HostPackage("python-dateutil", ("dateutil",), "4", "4"),
    HostPackage("python-jose", ("jose",), "3", "3"),
    HostPackage("python-magic", ("magic",), "0", "0"),
    HostPackage("python-multipart", ("python_multipart", "multipart"), "0", "0"),
    HostPackage("python-telegram-bot", ("telegram",), "22", "22"),
    HostPackage("pytz", ("pytz",), "2026", "2026"),
    HostPackage("qdrant-client", (), "1", "1", "our own classes, unless a plugin names it"),
    HostPackage("requests", ("requests",), "2", "2"),
    HostPackage("sse-starlette", ("sse_starlette",), "2", "3"),
    HostPackage("tiktoken", ("tiktoken",), "0", "0"),
    HostPackage("toml", ("toml",), "0", "0"),
    HostPackage("tortoise-orm", ("tortoise",), "0", "1"),
    HostPackage("tqdm", ("tqdm",), "4", "4"),
    HostPackage("tzlocal", ("tzlocal",), "5", "5"),
    HostPackage("websockets", ("websockets",), "15", "17"),
)

OFFERED: Mapping[str, str] = MappingProxyType(
    {module: package.name for package in PACKAGES for module in package.modules}
)
"""Maps each module to the package that it is in."""
