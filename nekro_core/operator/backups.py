"""Makes, checks, shows and deletes backups, and prepares a restore for the next start."""

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import anyio
from pydantic import Field, SecretStr

from nekro_core.backup.manifest import Manifest
from nekro_core.backup.own_archives import OwnBackup
from nekro_core.backup.prepared import PreparedRestore
from nekro_core.backup.progress import BackupProgress
from nekro_core.backup.service import BackupService
from nekro_core.operator.actions import NO_PROGRESS, Area, Progress, action, query
from nekro_core.operator.audit import AuditLog, Change
from nekro_core.operator.errors import NoSuchItem, NotAllowed
from nekro_core.operator.roles import AccessRole, Actor

_AUDIT_S = 10.0
"""Maximum time in seconds to store that an upload was cancelled."""

BackupName = Annotated[str, Field(min_length=1, max_length=100)]


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupView:
    """A backup in the list.

    Attributes:
        name: The name of its file in ``data/backups``.
        made: When it was made, in seconds since 1970.
        size: The size of the file in bytes.
    """

    name: str
    made: float
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupContents:
    """What is in a checked backup.

    Attributes:
        name: The name of its file.
        made: When the bot began to make the backup, in seconds since 1970.
        version: The version of the bot that made it.
        files: The number of files in it.
        size: The total size of these files in bytes, unpacked.
        secrets: Whether the secrets are in it, encrypted.
        left_out: Sentences about what is not in the backup.
    """

    name: str
    made: float
    version: str
    files: int
    size: int
    secrets: bool
    left_out: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreView:
    """The restore that the next start carries out.

    Attributes:
        backup: The name of the backup.
        made: When the backup was made, in seconds since 1970.
        prepared: When the restore was prepared, in seconds since 1970.
        secrets: Whether the secrets are restored too.
    """

    backup: str
    made: float
    prepared: float
    secrets: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupFile:
    """A backup to download.

    Attributes:
        name: The name of the file.
        path: Where it is on the bot's machine.
        size: Its size in bytes.
    """

    name: str
    path: Path
    size: int


class Backups(Area):
    """The backups in ``data/backups``.

    Args:
        audit: The audit log.
        service: Makes and keeps the backups.
    """

    name = "backups"

    def __init__(self, audit: AuditLog, service: BackupService) -> None:
        super().__init__(audit)
        self._service = service

    @query(role=AccessRole.VIEWER)
    async def newest(self, actor: Actor) -> list[BackupView]:  # noqa: ARG002
        """List the backups, newest first."""
        return [_view(each) for each in await self._service.list()]

    @query(role=AccessRole.VIEWER)
    async def prepared(self, actor: Actor) -> RestoreView | None:  # noqa: ARG002
        """Show the restore that the next start carries out."""
        found = await self._service.prepared_restore()
        return None if found is None else _restore_view(found)

    async def download(self, actor: Actor, *, name: str) -> BackupFile:
        """Get the file of a backup, to send it to a person. It contains the messages of all chats,
        so the audit log stores who downloaded it.

        Args:
            actor: Who asks.
            name: The name of the backup.

        Returns:
            The file.

        Raises:
            NotAllowed: The actor is not an owner, or their token lacks the scope ``backups:act``.
            NoSuchItem: There is no such backup.
        """
        entry_id = await self._begin(actor, "backups.download", {"name": name[:200]})
        for each in await self._service.list():
            if each.name == name:
                await self.audit_log.done(entry_id, Change(result=None, subject=name))
                return BackupFile(name=each.name, path=each.path, size=each.size)
        error = NoSuchItem(f"there is no backup {name[:200]!r}; it may have been deleted")
        await self.audit_log.failed(entry_id, "failed", str(error))
        raise error

    async def upload(self, actor: Actor, pieces: AsyncIterator[bytes]) -> BackupContents:
        """Add the file of a backup that this bot or another bot made. The backup is checked before
        it appears in the list. A cancelled upload leaves no file.

        Args:
            actor: Who asks.
            pieces: The content of the file.

        Returns:
            What is in the backup.

        Raises:
            NotAllowed: The actor is not an owner, or their token lacks the scope ``backups:act``.
            BackupError: The file is not a complete backup or is too large, or another upload runs.
            OSError: The file cannot be stored.
        """
        entry_id = await self._begin(actor, "backups.upload", {})
        try:
            backup, manifest = await self._service.receive(pieces)
        except BaseException as error:
            outcome = "failed" if isinstance(error, Exception) else "cancelled"
            with anyio.move_on_after(_AUDIT_S, shield=True):
                await self.audit_log.failed(entry_id, outcome, str(error) or type(error).__name__)
            raise
        contents = _contents(backup.name, manifest)
        await self.audit_log.done(
            entry_id, Change(result=contents, subject=backup.name, new=contents)
        )
        return contents

    async def _begin(self, actor: Actor, action: str, parameters: Mapping[str, str]) -> int:
        """Begin an entry of the audit log. Raises `NotAllowed` if the actor is not an owner."""
        if actor.role.allows(AccessRole.OWNER) and actor.in_scope(self.name, acts=True):
            return await self.audit_log.begin(actor, action, parameters)
        text = f"{action} needs the role {AccessRole.OWNER}, and of a token the scope backups:act"
        await self.audit_log.denied(actor, action, text)
        raise NotAllowed(text)

    @action(role=AccessRole.OWNER)
    async def make(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        passphrase: SecretStr | None = None,
        progress: Progress = NO_PROGRESS,
    ) -> Change[BackupContents]:
        """Make and check a backup while the bot runs. If there are then more backups than the
        settings allow, the oldest are deleted.

        Args:
            passphrase: At least 8 characters. With a passphrase, the backup also contains tokens,
                keys and ``.env``, encrypted. Without the passphrase, nobody can restore these
                secrets.
        """
        made = await self._service.make(passphrase=_text(passphrase), report=_reporter(progress))
        contents = _contents(made.path.name, made.manifest)
        return Change(result=contents, subject=contents.name, new=contents)

    @action(role=AccessRole.OPERATOR)
    async def check(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        name: BackupName,
        progress: Progress = NO_PROGRESS,
    ) -> Change[BackupContents]:
        """Read a whole backup and check each file and the database in it.

        Args:
            name: The name of the backup.
        """
        manifest = await self._service.check(name, _reporter(progress))
        return Change(result=_contents(name, manifest), subject=name)

    @action(role=AccessRole.OWNER, destructive=True)
    async def delete(self, actor: Actor, *, name: BackupName) -> Change[None]:  # noqa: ARG002
        """Delete a backup.

        Args:
            name: The name of the backup.
        """
        await self._service.delete(name)
        return Change(result=None, subject=name, old=name)

    @action(role=AccessRole.OWNER)
    async def prepare_restore(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        name: BackupName,
        passphrase: SecretStr | None = None,
        progress: Progress = NO_PROGRESS,
    ) -> Change[RestoreView]:
        """Check and unpack a backup. The next start of the bot moves the data folder aside and puts
        the backup in its place. Until then nothing changes, and `cancel_restore` discards the
        prepared restore.

        Args:
            name: The name of the backup.
            passphrase: The passphrase of the backup's secrets. Without it, the bot keeps its
                present secrets.
        """
        prepared = await self._service.prepare_restore(
            name, passphrase=_text(passphrase), report=_reporter(progress)
        )
        view = _restore_view(prepared)
        return Change(result=view, subject=name, new=view)

    @action(role=AccessRole.OWNER)
    async def cancel_restore(self, actor: Actor) -> Change[bool]:  # noqa: ARG002
        """Discard the prepared restore: the next start changes nothing."""
        found = await self._service.prepared_restore()
        gone = await self._service.cancel_restore()
        return Change(result=gone, subject=found.backup if found else "", old=found and "prepared")


def _reporter(progress: Progress) -> Callable[[BackupProgress], None]:
    return lambda at: progress.report(
        at.phase, done=at.done, total=at.total, code=f"backup_{at.phase}"
    )


def _text(passphrase: SecretStr | None) -> str | None:
    return None if passphrase is None else passphrase.get_secret_value()


def _view(backup: OwnBackup) -> BackupView:
    return BackupView(name=backup.name, made=backup.made, size=backup.size)


def _restore_view(prepared: PreparedRestore) -> RestoreView:
    return RestoreView(
        backup=prepared.backup,
        made=prepared.made,
        prepared=prepared.prepared,
        secrets=prepared.secrets,
    )


def _contents(name: str, manifest: Manifest) -> BackupContents:
    return BackupContents(
        name=name,
        made=manifest.begun,
        version=manifest.nekro,
        files=len(manifest.members),
        size=manifest.size,
        secrets=manifest.has_secrets,
        left_out=manifest.left_out,
    )
