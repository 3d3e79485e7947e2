"""Reads ``mcp.json``, in which the operator lists the MCP servers that the bot uses:
``{"mcpServers": {name: {...}}}``."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from nekro_core.system.errors import NekroError
from nekro_core.tools.tool import Visibility

VARIABLE = re.compile(r"\$\{(?P<name>\w+)(?::-(?P<default>[^}]*))?\}")
"""Matches ``${NAME}`` and ``${NAME:-default}``."""
_SECRET = re.compile(r"token|key|secret|password|passwd|auth|credential|cookie", re.IGNORECASE)
_LEAST_SECRET = 8
"""Values with fewer characters are not treated as secrets. They are words like ``true``, which must
not be removed from results."""
_SSE = "sse"
_HTTP = ("http", "streamable-http", "streamable_http", "streamablehttp")
_MAX_FILE = 1024 * 1024


class McpConfigError(NekroError, ValueError):
    """The file, or a server's entry in it, is not valid. The text never contains a value that may
    be secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class McpServerConfig:
    """One server: a command that starts it, or its URL. ``sse`` selects the protocol that servers
    used before 2025. ``secrets`` has the values that must not be shown. ``timeout_s`` is the time
    limit of a call; 0 means the default."""

    name: str
    command: str = ""
    args: tuple[str, ...] = field(default=(), repr=False)
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    cwd: str = ""
    url: str = field(default="", repr=False)
    sse: bool = False
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout_s: float = 0.0
    visibility: Visibility = Visibility.DEFERRED
    secrets: frozenset[str] = field(default=frozenset(), repr=False)

    @property
    def place(self) -> str:
        """The server's command or URL, without secrets."""
        if self.command:
            return self.command
        parts = urlsplit(self.url)
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))

    def without_secrets(self, text: str) -> str:
        """Get the text with the server's secrets replaced."""
        for secret in sorted(self.secrets, key=len, reverse=True):
            text = text.replace(secret, "[secret]")
        return text

    def cleaned(self, value: Any) -> Any:
        """Get a JSON value with the server's secrets replaced in all its texts and keys."""
        match value:
            case str():
                return self.without_secrets(value)
            case list():
                return [self.cleaned(each) for each in value]
            case dict():
                return {self.cleaned(key): self.cleaned(each) for key, each in value.items()}
        return value


@dataclass(frozen=True, slots=True)
class McpConfig:
    """The servers in the file, except those that the file switches off. ``wrong`` maps the name of
    each server that cannot be used to the reason."""

    servers: tuple[McpServerConfig, ...] = ()
    wrong: Mapping[str, str] = field(default_factory=dict)


def names_secret(name: str) -> bool:
    """Return True if the name of a variable or header shows that its value is a secret."""
    return _SECRET.search(name) is not None


def read_configuration(
    text: str,
    environment: Mapping[str, str],
    secrets: Mapping[str, Mapping[str, str]] | None = None,
) -> McpConfig:
    """Read the text of the file. ``${NAME}`` and ``${NAME:-default}`` are replaced by values of the
    server's own secrets (``secrets``, by server and name) and of the environment. A faulty entry
    does not affect the other servers. Raises `McpConfigError`."""
    if len(text) > _MAX_FILE:
        raise McpConfigError(f"it is over {_MAX_FILE // 1024} KiB long")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise McpConfigError(f"it is no JSON: {error}") from None
    wanted = value.get("mcpServers") if isinstance(value, dict) else None
    if not isinstance(wanted, dict):
        raise McpConfigError('expected {"mcpServers": {"name": {"command": ...}}}')
    servers: list[McpServerConfig] = []
    wrong: dict[str, str] = {}
    for name, entry in wanted.items():
        try:
            if isinstance(entry, dict) and _is_off(entry):
                continue
            own = (secrets or {}).get(str(name), {})
            servers.append(_server(str(name), entry, environment, own))
        except McpConfigError as error:
            wrong[str(name)] = str(error)
    return McpConfig(tuple(servers), wrong)


def _is_off(entry: Mapping[str, Any]) -> bool:
    return entry.get("disabled") is True or entry.get("enabled") is False


def _server(
    name: str, entry: object, environment: Mapping[str, str], own: Mapping[str, str]
) -> McpServerConfig:
    if not isinstance(entry, dict):
        raise McpConfigError(f"expected an object, got {type(entry).__name__}")
    if not re.search(r"\w", name) or len(name) > 64:
        raise McpConfigError("a name needs a letter or digit, and at most 64 characters")
    filled: set[str] = set()

    def fill(text: str) -> str:
        def value(found: re.Match[str]) -> str:
            if (secret := own.get(found["name"])) is not None:
                filled.add(secret)
                return secret
            known = environment.get(found["name"], found["default"])
            if known is None:
                raise McpConfigError(
                    f"the environment has no {found['name']}, and it is no secret of the server"
                )
            if _SECRET.search(found["name"]) and found["name"] in environment:
                filled.add(known)
            return known

        return VARIABLE.sub(value, text)

    url, command = _text(entry, "url", fill), _text(entry, "command", fill)
    if bool(url) == bool(command):
        raise McpConfigError("expected either 'command' or 'url'")
    kind = _text(entry, "type", fill).lower() or _text(entry, "transport", fill).lower()
    if url and kind not in ("", _SSE, *_HTTP):
        raise McpConfigError(f"type {kind!r}: expected 'http' (streamable HTTP) or 'sse'")
    if command and kind not in ("", "stdio"):
        raise McpConfigError(f"type {kind!r}: expected 'stdio' beside a command")
    if url and urlsplit(url).scheme not in ("http", "https"):
        raise McpConfigError("url: expected http(s)://...")
    env, headers = _texts(entry, "env", fill), _texts(entry, "headers", fill)
    return McpServerConfig(
        name=name,
        command=command,
        args=_list(entry, "args", fill),
        env=env,
        cwd=_text(entry, "cwd", fill),
        url=url,
        sse=kind == _SSE,
        headers=headers,
        timeout_s=_seconds(entry),
        visibility=_visibility(entry),
        secrets=_secrets({**env, **headers}, filled, url),
    )


def _text(entry: Mapping[str, Any], key: str, fill: Any) -> str:
    value = entry.get(key, "")
    if not isinstance(value, str):
        raise McpConfigError(f"{key}: expected a text, got {type(value).__name__}")
    if "\0" in value:
        raise McpConfigError(f"{key}: holds a NUL character")
    return str(fill(value))


def _list(entry: Mapping[str, Any], key: str, fill: Any) -> tuple[str, ...]:
    value = entry.get(key, [])
    if not isinstance(value, list):
        raise McpConfigError(f"{key}: expected a list of texts, got {type(value).__name__}")
    return tuple(_text({key: each}, key, fill) for each in value)


def _texts(entry: Mapping[str, Any], key: str, fill: Any) -> dict[str, str]:
    value = entry.get(key) or {}
    if not isinstance(value, dict):
        raise McpConfigError(f"{key}: expected an object of texts, got {type(value).__name__}")
    written = {str(n): str(v) if isinstance(v, int | float) else v for n, v in value.items()}
    return {name: _text(written, name, fill) for name in written}


def _seconds(entry: Mapping[str, Any]) -> float:
    value = entry.get("timeout", 0)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 86_400:
        raise McpConfigError("timeout: expected seconds, at most 86,400")
    return float(value)


def _visibility(entry: Mapping[str, Any]) -> Visibility:
    value = entry.get("visibility", Visibility.DEFERRED)
    try:
        return Visibility(value)
    except ValueError:
        raise McpConfigError(
            f"visibility {value!r}: expected 'visible', 'deferred' or 'hidden'"
        ) from None


def _secrets(named: Mapping[str, str], filled: set[str], url: str) -> frozenset[str]:
    found = {value for name, value in named.items() if _SECRET.search(name)} | filled
    # In "Bearer abc", the second word is the secret.
    found |= {word for value in found for word in value.split()}
    parts = urlsplit(url)
    found |= {part for part in (parts.password or "", *re.split("[=&]", parts.query)) if part}
    return frozenset(value for value in found if len(value) >= _LEAST_SECRET)
