"""Errors of backups.

::

    NekroError
    └── BackupError           the base class of these errors
        ├── BackupRefused     the backup cannot be made or received now, or there is no such backup
        ├── InvalidBackup     the file is cut off, damaged or changed, or is not a backup
        ├── BackupTooNew      a newer version of the bot made it
        ├── WrongPassphrase   the secrets in it cannot be decrypted
        ├── RestoreRefused    the backup is valid, but cannot be restored to this place
        └── BackupCancelled   the caller stopped the work
"""

from nekro_core.system.errors import NekroError


class BackupError(NekroError):
    """The base class of the errors of backups."""


class BackupRefused(BackupError):
    """The backup cannot be made or received now, or there is no backup with this name. Nothing was
    written. The text says why and what to do."""


class InvalidBackup(BackupError):
    """The file is cut off, damaged or changed, or it is not a backup. The text says what was
    found."""


class BackupTooNew(BackupError):
    """A newer version of the bot made the backup, and this version cannot read it."""


class WrongPassphrase(BackupError):
    """The secrets in the backup cannot be decrypted with this passphrase."""


class RestoreRefused(BackupError):
    """The backup is valid, but it cannot be restored to this place. Nothing was changed."""


class BackupCancelled(BackupError):
    """The caller stopped the work. Its files were removed."""
