"""Finds MaiBot plugins and reads their ``_manifest.json`` before their code runs."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from keyword import iskeyword
from pathlib import Path
from typing import Any

from nekro_core.plugins.host.loader import DiscoveredPlugin
from nekro_core.system.errors import NekroError
from nekro_core.tools.problem import PluginProblem, ProblemSeverity

FILE_NAME = "_manifest.json"
_MODULE = "plugin.py"
HOST_VERSION = "1.3.15"
"""The version of MaiBot that this host implements. A manifest says which versions the plugin works
with."""
PROVIDED_PLUGINS = frozenset({"maibot-team.napcat-adapter", "maibot-team.snowluma-adapter"})
"""Plugins of MaiBot that are not needed here, because the bot's own OneBot adapter does their work
and offers their APIs (`nekro_core.compat.maibot.onebot`). If the manifest of a plugin says that it
needs one of these plugins, in any version, the needed plugin counts as installed."""
STRICT_REMEDY = (
    "use another version of the plugin, or set NEKRO_PLUGIN__STRICT_HOST_RANGE=false to try it"
)
"""Tells the operator what to do if a plugin is refused because of its range of MaiBot versions."""

_ID = re.compile(r"[A-Za-z0-9_]+(?:[.-][A-Za-z0-9_]+)+\Z")
_VERSION = re.compile(r"\d+\.\d+\.\d+\Z")
_MAX_BYTES = 1024 * 1024


class MaiBotManifestError(NekroError, ValueError):
    """The manifest is invalid. The text names the key and its value, and says what was expected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MaiBotManifest:
    """The values of a manifest.

    ``capabilities`` are the calls that the plugin may make. ``plugins`` and ``packages`` are the
    plugins and packages that it needs, each with a range of versions. ``raw`` is the whole
    manifest. If the manifest's range of MaiBot versions does not include `HOST_VERSION`,
    ``host_range_problem`` is a text that says so; otherwise it is empty.
    """

    plugin_id: str
    version: str
    name: str
    description: str
    author: str
    url: str
    capabilities: frozenset[str]
    plugins: tuple[tuple[str, str], ...]
    packages: tuple[tuple[str, str], ...]
    raw: Mapping[str, Any]
    host_range_problem: str = ""
    problems: tuple[PluginProblem, ...] = ()

    @property
    def key(self) -> tuple[str, str]:
        """The author and the module name: the two parts of the id, made Python identifiers."""
        first, _, rest = self.plugin_id.partition("." if "." in self.plugin_id else "-")
        return _identifier(first), _identifier(rest)


def read_manifest(path: Path) -> MaiBotManifest:
    """Read and check a manifest. Raises `MaiBotManifestError`, whose text is for the operator."""
    raw = _parsed(path)
    if raw.get("manifest_version") != 2:
        came = raw.get("manifest_version", "nothing")
        raise MaiBotManifestError(
            f"manifest_version {came!r}: expected 2; the plugin needs an update"
        )
    plugin_id = _text(raw, "id")
    if not _ID.match(plugin_id):
        raise MaiBotManifestError(
            f"id {plugin_id!r}: expected words joined by '.' or '-', for example author.plugin-name"
        )
    number = _text(raw, "version")
    if not _VERSION.match(number):
        raise MaiBotManifestError(f"version {number!r}: expected three numbers, for example 1.0.0")
    author = raw.get("author", {})
    if isinstance(author, str):
        author = {"name": author}
    dependencies = _entries(raw, "dependencies")
    outside = _outside_range(raw, "host_application", HOST_VERSION)
    return MaiBotManifest(
        plugin_id=plugin_id,
        version=number,
        name=_text(raw, "name"),
        description=str(raw.get("description", "")),
        author=str(author.get("name", "")) if isinstance(author, Mapping) else "",
        url=str(_mapping(raw, "urls").get("repository", "")),
        capabilities=frozenset(_words(raw, "capabilities")),
        plugins=tuple(_needed(dependencies, "plugin", "id")),
        packages=tuple(_needed(dependencies, "python_package", "name")),
        raw=raw,
        host_range_problem=outside,
        problems=(*_host_warning(outside), *_sdk_warning(raw)),
    )


def discover(source: str, folder: Path) -> list[DiscoveredPlugin]:
    """Find the plugins in a folder. They are sorted by name, except that each plugin comes after
    the plugins that it needs."""
    if not folder.is_dir():
        return []
    folders = sorted(
        path.parent
        for path in folder.glob(f"*/{FILE_NAME}")
        if not path.parent.name.startswith((".", "_"))
    )
    manifests: dict[Path, MaiBotManifest | None] = {path: _manifest(path) for path in folders}
    by_id = {each.plugin_id: path for path, each in manifests.items() if each is not None}
    ordered: dict[Path, None] = {}
    for path in folders:
        _put_in_order(path, manifests, by_id, ordered, frozenset())
    return [DiscoveredPlugin(source, path.name, path / _MODULE, in_folder=True) for path in ordered]


def _manifest(folder: Path) -> MaiBotManifest | None:
    try:
        return read_manifest(folder / FILE_NAME)
    except MaiBotManifestError:
        return None  # the error is reported when the plugin is loaded


def _put_in_order(
    path: Path,
    manifests: Mapping[Path, MaiBotManifest | None],
    by_id: Mapping[str, Path],
    ordered: dict[Path, None],
    above: frozenset[Path],
) -> None:
    if path in ordered or path in above:
        return  # the plugin is listed already, or some plugins need each other in a circle
    manifest = manifests[path]
    for needed, _ in manifest.plugins if manifest else ():
        if needed in by_id:
            _put_in_order(by_id[needed], manifests, by_id, ordered, above | {path})
    ordered[path] = None


def _parsed(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise MaiBotManifestError(f"larger than {_MAX_BYTES} bytes: too large for a manifest")
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise MaiBotManifestError(f"cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise MaiBotManifestError(f"is not UTF-8 (byte {error.start}): save it as UTF-8") from None
    try:
        raw = json.loads(text)
    except json.JSONDecodeError as error:
        raise MaiBotManifestError(f"is no JSON: {error.msg} in line {error.lineno}") from None
    except RecursionError:
        raise MaiBotManifestError("is nested too deeply") from None
    if not isinstance(raw, dict):
        raise MaiBotManifestError(f"expected an object, got {type(raw).__name__}")
    return raw


def _text(raw: Mapping[str, Any], key: str) -> str:
    value = raw.get(key)
    if not isinstance(value, str) or not value.strip():
        came = "nothing" if value is None else repr(value)
        raise MaiBotManifestError(f"{key}: expected a text, got {came}")
    return value.strip()


def _mapping(raw: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = raw.get(key) or {}
    if not isinstance(value, Mapping):
        raise MaiBotManifestError(f"{key}: expected an object, got {type(value).__name__}")
    return value


def _list(raw: Mapping[str, Any], key: str) -> list[Any]:
    value = raw.get(key) or []
    if not isinstance(value, list):
        raise MaiBotManifestError(f"{key}: expected a list, got {type(value).__name__}")
    return value


def _words(raw: Mapping[str, Any], key: str) -> list[str]:
    entries = _list(raw, key)
    for each in entries:
        if not isinstance(each, str):
            raise MaiBotManifestError(f"{key}: expected texts, got {each!r}")
    return [each.strip() for each in entries]


def _entries(raw: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    entries = _list(raw, key)
    for each in entries:
        if not isinstance(each, Mapping):
            raise MaiBotManifestError(f"{key}: expected objects, got {each!r}")
    return entries


def _needed(dependencies: list[Mapping[str, Any]], kind: str, name: str) -> list[tuple[str, str]]:
    return [
        (_text(each, name), str(each.get("version_spec", "")))
        for each in dependencies
        if each.get("type") == kind
    ]


def _outside_range(raw: Mapping[str, Any], key: str, ours: str) -> str:
    """Return a text with the problem if the version ``ours`` is outside the range, otherwise an
    empty text. ``ours`` is outside if it is below ``min_version``, or if its first two numbers are
    above the first two numbers of ``max_version``. Raises `MaiBotManifestError` if ``min_version``
    or ``max_version`` is not a version."""
    wanted = _mapping(raw, key)
    least, most = wanted.get("min_version"), wanted.get("max_version")
    for each in (least, most):
        if each is not None and not (isinstance(each, str) and _VERSION.match(each)):
            raise MaiBotManifestError(f"{key}: version {each!r}, expected for example 1.0.0")
    too_new = most and _numbers(ours)[:2] > _numbers(most)[:2]
    if too_new or (least and _numbers(ours) < _numbers(least)):
        return f"{key}: wants {least or 'any'} to {most or 'any'}, this is {ours}"
    return ""


def _host_warning(problem: str) -> list[PluginProblem]:
    if not problem:
        return []
    remedy = "try what it does; NEKRO_PLUGIN__STRICT_HOST_RANGE=true refuses such plugins"
    return [PluginProblem(severity=ProblemSeverity.WARNING, message=problem, remedy=remedy)]


@cache
def _sdk_version() -> str:
    """The version of the installed SDK. It is cached: a lookup after a change in the folder of
    packages would make the import system store one more record."""
    return version("maibot-plugin-sdk")


def _sdk_warning(raw: Mapping[str, Any]) -> list[PluginProblem]:
    try:
        ours = _sdk_version()
    except PackageNotFoundError:
        raise MaiBotManifestError("the package maibot-plugin-sdk is not installed") from None
    try:
        problem = _outside_range(raw, "sdk", ".".join(ours.split(".")[:3]))
    except MaiBotManifestError as error:
        problem = str(error)
    return [PluginProblem(severity=ProblemSeverity.WARNING, message=problem)] if problem else []


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:3])


def _identifier(text: str) -> str:
    clean = re.sub(r"\W", "_", text) or "_"
    if clean[0].isdigit():
        clean = f"_{clean}"
    return f"{clean}_" if iskeyword(clean) else clean
