"""Reads and changes the entries of ``mcp.json`` for an operator. Secrets are kept in another file.

A secret is written ``${NAME}`` in ``mcp.json``, for example ``"Authorization": "Bearer ${TOKEN}"``.
Its value is in ``secrets/mcp.json``, which only the file's owner can read. Each value belongs to
one server. The values of other variables come from the environment.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeGuard
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr

from nekro_core.system.atomic_files import write_whole
from nekro_core.system.errors import NekroError
from nekro_core.tools.mcp_client.configuration import (
    VARIABLE,
    McpConfig,
    McpConfigError,
    McpServerConfig,
    names_secret,
    read_configuration,
)
from nekro_core.tools.tool import Visibility

CONFIG_FILE = "mcp.json"
SECRETS_FILE = "secrets/mcp.json"
_SECRET_NAME = re.compile(r"[A-Za-z_]\w{0,63}", re.ASCII)


class McpConfigChanged(NekroError):
    """The file was changed by somebody else since it was read. Read it again."""


class McpServerEntry(BaseModel):
    """One server as an operator writes it: either ``command`` with ``args``, or ``url``."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    command: str = ""
    """The program that is started."""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = Field(default_factory=dict)
    cwd: str = ""
    url: str = ""
    """The address of a server that runs elsewhere."""
    type: Literal["", "stdio", "http", "sse"] = ""
    headers: Mapping[str, str] = Field(default_factory=dict)
    timeout: float = Field(default=0, ge=0, le=86_400)
    """Longest time of a call in seconds; 0 for the default."""
    visibility: Visibility = Visibility.DEFERRED
    disabled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class McpEntryShown:
    """An entry of the file, without secrets.

    Attributes:
        name: The server's name.
        entry: The entry. Secrets that the file contains in plain text are shown as ``${NAME}``.
        secrets: The names of the secrets that have a value.
        missing: The names of variables that have no value.
        problem: Why the entry cannot be used; empty if it can be used.
    """

    name: str
    entry: McpServerEntry
    secrets: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class McpConfigShown:
    """The content of the file for an operator. ``revision`` changes with every change. ``problem``
    says why the file as a whole cannot be read."""

    entries: tuple[McpEntryShown, ...] = ()
    revision: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True)
class _Content:
    document: dict[str, Any] = field(default_factory=dict)
    revision: str = ""

    @property
    def servers(self) -> dict[str, Any]:
        found = self.document.setdefault("mcpServers", {})
        if not isinstance(found, dict):
            raise McpConfigError('expected {"mcpServers": {"name": {"command": ...}}}')
        return found


class McpConfigFile:
    """The two files. The methods read and write the files, so call the methods in a thread."""

    def __init__(self, data_dir: Path, environment: Mapping[str, str]) -> None:
        self.path = data_dir / CONFIG_FILE
        self.secrets_path = data_dir / SECRETS_FILE
        self._environment = environment

    def load(self) -> McpConfig:
        """Read the servers to run. Raises `McpConfigError` and `OSError`."""
        try:
            text = self.path.read_text("utf-8")
        except FileNotFoundError:
            return McpConfig()
        except UnicodeDecodeError as error:
            raise McpConfigError(f"it is no UTF-8: {error.reason}") from None
        return read_configuration(text, self._environment, self._secrets())

    def shown(self) -> McpConfigShown:
        """Return all entries without secrets. Raises `OSError`."""
        try:
            content, secrets = self._content(), self._secrets()
            servers = content.servers
        except McpConfigError as error:
            return McpConfigShown(problem=str(error))
        return McpConfigShown(
            entries=tuple(
                self._shown(str(name), entry, secrets.get(str(name), {}))
                for name, entry in servers.items()
            ),
            revision=content.revision,
        )

    def prepared(
        self, name: str, entry: McpServerEntry, secrets: Mapping[str, SecretStr | None]
    ) -> McpServerConfig:
        """Check an entry without writing it. Raises `McpConfigError` and `OSError`.

        Args:
            name: The server's name.
            entry: The entry.
            secrets: The value of each ``${NAME}`` in the entry; None keeps the stored value.
        """
        found = self._content()
        return self._check(name, entry, self._filled(found, name, secrets))

    def put(
        self,
        name: str,
        entry: McpServerEntry,
        secrets: Mapping[str, SecretStr | None],
        revision: str | None,
    ) -> None:
        """Add or replace an entry. Keys of the old entry that the bot does not know are kept.

        Args:
            name: The server's name.
            entry: The new entry.
            secrets: The values for each ``${NAME}`` in the entry. None keeps the stored value.
                Values that the entry does not use are deleted.
            revision: The revision that the operator saw; None to replace whatever is there.

        Raises:
            McpConfigError: The entry or the file is not valid. Nothing was written.
            McpConfigChanged: The file has another revision. Nothing was written.
            OSError: A file cannot be read or written.
        """
        content = self._content(revision)
        values = self._filled(content, name, secrets)
        self._check(name, entry, values)
        old = content.servers.get(name)
        kept = (
            {key: value for key, value in old.items() if key not in _KNOWN}
            if _is_entry(old)
            else {}
        )
        written = entry.model_dump(mode="json", exclude_defaults=True)
        content.servers[name] = {**written, **kept}
        used = {each["name"] for each in VARIABLE.finditer(json.dumps(written))}
        self._write_secrets(name, {key: value for key, value in values.items() if key in used})
        self._write(content)

    def remove(self, name: str, revision: str | None) -> None:
        """Remove an entry and its secrets. Raises the errors of `put`, and `McpConfigError` if
        there is no such entry."""
        content = self._content(revision)
        if name not in content.servers:
            raise McpConfigError(f"there is no server {name!r}")
        del content.servers[name]
        self._write(content)
        self._write_secrets(name, {})

    def _content(self, revision: str | None = None) -> _Content:
        try:
            text = self.path.read_text("utf-8")
        except FileNotFoundError:
            content = _Content()
        except UnicodeDecodeError as error:
            raise McpConfigError(f"{CONFIG_FILE} is no UTF-8: {error.reason}") from None
        else:
            try:
                document = json.loads(text)
            except (ValueError, RecursionError) as error:
                raise McpConfigError(f"{CONFIG_FILE} is no JSON: {error}") from None
            if not isinstance(document, dict):
                raise McpConfigError('expected {"mcpServers": {"name": {"command": ...}}}')
            content = _Content(document, hashlib.sha256(text.encode()).hexdigest()[:16])
        if revision is not None and revision != content.revision:
            raise McpConfigChanged(
                f"{CONFIG_FILE} was changed since you opened it: look at it again, then repeat"
            )
        return content

    def _secrets(self) -> dict[str, dict[str, str]]:
        try:
            value = json.loads(self.secrets_path.read_text("utf-8"))
        except FileNotFoundError:
            return {}
        except (ValueError, RecursionError):
            raise McpConfigError(f"{SECRETS_FILE} is no JSON: mend or delete it") from None
        found = value if isinstance(value, dict) else {}
        return {
            str(server): {str(key): str(text) for key, text in values.items()}
            for server, values in found.items()
            if isinstance(values, dict)
        }

    def _filled(
        self, content: _Content, name: str, given: Mapping[str, SecretStr | None]
    ) -> dict[str, str]:
        """Return the values of the secrets. They are the given values; for a given None, it is the
        old value."""
        old = self._secrets().get(name, {})
        present = content.servers.get(name)
        if _is_entry(present):
            old = {**_apart(present)[1], **old}
        values = dict(old)
        for key, secret in given.items():
            if not _SECRET_NAME.fullmatch(key):
                raise McpConfigError(f"the secret {key!r}: expected a name of letters and digits")
            if secret is not None:
                values[key] = secret.get_secret_value()
            elif key not in old:
                raise McpConfigError(f"the secret {key} has no value yet: write one")
        return values

    def _check(
        self, name: str, entry: McpServerEntry, secrets: Mapping[str, str]
    ) -> McpServerConfig:
        written = entry.model_dump(mode="json", exclude_defaults=True)
        _, plain = _apart(written)
        if plain:
            raise McpConfigError(
                f"{', '.join(sorted(plain))}: looks like a secret. Write ${{NAME}} in its place, "
                "and give the value as the secret NAME"
            )
        text = json.dumps({"mcpServers": {name: {**written, "disabled": False}}})
        config = read_configuration(text, self._environment, {name: secrets})
        if config.wrong:
            raise McpConfigError(config.wrong[name])
        return config.servers[0]

    def _shown(self, name: str, entry: Any, secrets: Mapping[str, str]) -> McpEntryShown:
        if not _is_entry(entry):
            return McpEntryShown(
                name=name, entry=McpServerEntry(), problem="expected an object with a command"
            )
        clean, plain = _apart(entry)
        values = {**plain, **secrets}
        config = read_configuration(
            json.dumps({"mcpServers": {name: {**entry, "disabled": False, "enabled": True}}}),
            self._environment,
            {name: secrets},
        )
        problem = config.wrong.get(name, "")
        wanted = {each["name"] for each in VARIABLE.finditer(json.dumps(clean))}
        open_ones = {
            each["name"] for each in VARIABLE.finditer(json.dumps(clean)) if not each["default"]
        }
        return McpEntryShown(
            name=name,
            entry=_lenient(clean),
            secrets=tuple(sorted(wanted & values.keys())),
            missing=tuple(sorted(open_ones - values.keys() - self._environment.keys())),
            problem=problem,
        )

    def _write(self, content: _Content) -> None:
        text = json.dumps(content.document, ensure_ascii=False, indent=2)
        write_whole(self.path, f"{text}\n".encode())

    def _write_secrets(self, name: str, values: Mapping[str, str]) -> None:
        secrets = self._secrets()
        if secrets.get(name, {}) == values:
            return
        secrets[name] = dict(values)
        if not values:
            del secrets[name]
        text = json.dumps(secrets, ensure_ascii=False, indent=1)
        write_whole(self.secrets_path, f"{text}\n".encode())


_KNOWN = frozenset(McpServerEntry.model_fields) | {"enabled", "transport"}


def _is_entry(entry: object) -> TypeGuard[dict[str, Any]]:
    return isinstance(entry, dict)


def _apart(entry: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Take the secrets out of an entry. Return the entry with ``${NAME}`` in place of each secret
    that it has in plain text, and these secrets by name."""
    found: dict[str, str] = {}
    clean = dict(entry)
    for group in ("env", "headers"):
        values = entry.get(group)
        if not isinstance(values, dict):
            continue
        clean[group] = dict(values)
        for key, value in values.items():
            if isinstance(value, str) and value and names_secret(key) and "${" not in value:
                name = re.sub(r"\W+", "_", str(key), flags=re.ASCII).upper()
                found[name] = value
                clean[group][key] = f"${{{name}}}"
    url = entry.get("url")
    if isinstance(url, str):
        parts = urlsplit(url)
        if (parts.query or parts.password) and "${" not in url:
            found["URL"] = url
            clean["url"] = "${URL}"
    return clean, found


def _lenient(entry: Mapping[str, Any]) -> McpServerEntry:
    """Return an entry for a form, with the parts that are valid. The other fields have their
    defaults."""
    given = {key: value for key, value in entry.items() if key in McpServerEntry.model_fields}
    given["disabled"] = entry.get("disabled") is True or entry.get("enabled") is False
    kind = str(entry.get("type") or entry.get("transport") or "").lower()
    given["type"] = {"sse": "sse", "stdio": "stdio", "": ""}.get(kind, "http")
    valid: dict[str, Any] = {}
    for key, value in given.items():
        try:
            McpServerEntry.model_validate({key: value})
        except ValueError:
            continue
        valid[key] = value
    return McpServerEntry.model_validate(valid)
