"""Stores the settings of accounts that the operator added while the bot ran."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from nekro_core.system.documents import DocumentConflict, DocumentFolder, FileDocuments
from nekro_core.system.errors import NekroError

FOLDER = "platforms"
"""The folder of the files, in the data folder."""
DOCUMENTS = f"{FOLDER}/*.json"
"""The pattern of the files' names, for `DocumentStore.listed`. The files contain secrets."""
_FORM = 1
"""The version of the file format."""


class UnreadableAccounts(NekroError, ValueError):
    """The file of an adapter's accounts cannot be read. The text names the file and the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredAccounts:
    """What is stored about the accounts of one adapter.

    Attributes:
        accounts: The settings of the accounts that the operator added, by key, with secrets.
        paused: The keys of the paused accounts. Accounts that the settings define can be among
            them.
    """

    accounts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    paused: frozenset[str] = frozenset()


class AccountSettingsStore(Protocol):
    """Loads and saves the accounts of adapters. The calls block; `save` must be called in a worker
    thread."""

    def load(self, adapter: str) -> StoredAccounts:
        """Load the accounts of an adapter.

        Args:
            adapter: The adapter's name.

        Returns:
            The accounts; empty if none are stored.

        Raises:
            UnreadableAccounts: What is stored cannot be read.
        """

    def save(self, adapter: str, stored: StoredAccounts) -> None:
        """Replace the accounts of an adapter in one step.

        Args:
            adapter: The adapter's name.
            stored: The accounts.

        Raises:
            OSError: The accounts cannot be stored. The accounts that were stored before stay.
        """


class AccountSettingsFiles:
    """The `AccountSettingsStore` with one JSON file for each adapter, which only the owner of the
    data folder can read.

    Args:
        data_dir: The data folder. The files are in its folder ``platforms``.
        documents: Reads and writes the files. The default is `FileDocuments`, which uses no
            database.
    """

    def __init__(self, data_dir: Path, documents: DocumentFolder | None = None) -> None:
        self._folder = data_dir / FOLDER
        self._documents = documents or FileDocuments(data_dir, secret=[DOCUMENTS])
        self._revisions: dict[str, str | None] = {}
        self._listeners: list[Callable[[StoredAccounts], None]] = []

    def listen(self, listener: Callable[[StoredAccounts], None]) -> None:
        """Call ``listener`` with all accounts that are loaded or saved from now on, for example to
        keep their secrets out of the log.

        Args:
            listener: May be called in a worker thread. It must not raise.
        """
        self._listeners.append(listener)

    def load(self, adapter: str) -> StoredAccounts:
        """See `AccountSettingsStore.load`.

        Args:
            adapter: The adapter's name.

        Returns:
            The accounts.

        Raises:
            UnreadableAccounts: The file is not in the expected form, or cannot be read.
        """
        path = self._folder / f"{adapter}.json"
        try:
            document = self._documents.read_now(_name(adapter))
            self._revisions[adapter] = document.revision if document else None
            if document is None:
                return StoredAccounts()
            written = json.loads(document.text)
        except (OSError, ValueError) as error:
            raise UnreadableAccounts(f"{path} cannot be read: {error}") from None
        try:
            if written["form"] != _FORM:
                raise UnreadableAccounts(
                    f"{path} has form {written['form']!r}, and this version reads form {_FORM}: "
                    "a newer version of the bot wrote it"
                )
            accounts = {str(key): dict(each) for key, each in written["accounts"].items()}
            paused = frozenset(map(str, written["paused"]))
        except (LookupError, TypeError, AttributeError, ValueError) as error:
            if isinstance(error, UnreadableAccounts):
                raise
            raise UnreadableAccounts(
                f'{path} is not in the expected form: {{"form": 1, "accounts": {{...}}, '
                f'"paused": [...]}} ({type(error).__name__})'
            ) from None
        stored = StoredAccounts(accounts=accounts, paused=paused)
        for listener in self._listeners:
            listener(stored)
        return stored

    def save(self, adapter: str, stored: StoredAccounts) -> None:
        """See `AccountSettingsStore.save`.

        Args:
            adapter: The adapter's name.
            stored: The accounts.

        Raises:
            DocumentConflict: The file was changed by hand or by another process. Nothing was
                written. The next call overwrites that change.
            OSError: The file cannot be written.
        """
        for listener in self._listeners:
            listener(stored)
        written = {
            "form": _FORM,
            "accounts": {key: dict(each) for key, each in stored.accounts.items()},
            "paused": sorted(stored.paused),
        }
        text = json.dumps(written, ensure_ascii=False, indent=2)
        name = _name(adapter)
        if adapter not in self._revisions:
            document = self._documents.read_now(name)
            self._revisions[adapter] = document.revision if document else None
        try:
            revision = self._documents.write_in_thread(name, text, self._revisions[adapter])
        except DocumentConflict as conflict:
            self._revisions[adapter] = conflict.found.revision if conflict.found else None
            raise AccountsChanged(name, conflict.found) from None
        self._revisions[adapter] = revision


class AccountsChanged(DocumentConflict):
    """The file of the accounts was changed by hand or by another process."""

    def __str__(self) -> str:
        return (
            f"{self.name} was changed by hand or by another process since the bot read it, so "
            "nothing was written. Restart the bot to use the file as it is, or repeat the change "
            "to overwrite it"
        )


def _name(adapter: str) -> str:
    return f"{FOLDER}/{adapter}.json"
