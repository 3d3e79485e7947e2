"""Writes the systemd unit of the bot.

The jail makes its boxes in user namespaces of its own, so a unit may not have the options that
forbid this. These options are missing on purpose:

- ``RestrictNamespaces``, ``ProtectHostname`` and a ``SystemCallFilter`` with a list of allowed
  calls: bubblewrap makes namespaces, mounts file systems and sets the name of the box.
- ``ProtectKernelTunables``, ``ProtectKernelLogs`` and ``ProcSubset``: they cover parts of
  ``/proc``, and then the kernel lets no box mount a ``/proc`` of its own.
- ``ProtectControlGroups``: the bot makes a cgroup for each box, in the part of the tree that
  ``Delegate`` gives it.
- ``MemoryDenyWriteExecute``: Node compiles programs in boxes while they run.

Source: `man 5 systemd.exec`, `systemd.service`, `systemd.resource-control`.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from nekro_core.system.errors import NekroError

STATE = Path("/var/lib/nekro")
"""The folder of a bot of the whole machine, unless the operator names another one."""
STOP_S = 15
"""Seconds that the bot has to end. It needs 3 s; after a prepared restore it may need longer."""
_REFUSED = frozenset("\"'$\\")
_USER = re.compile(r"[a-z_][a-z0-9_-]{0,30}")
_NAME = re.compile(r"[\w.@-]{1,100}")


class UnitError(NekroError):
    """No unit can be written for these values. The text says why and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceUnit:
    """The unit of one bot.

    Attributes:
        program: The program ``nekro``, as an absolute path.
        folder: The folder in which the bot runs: it has ``.env`` and the data folder.
        user: The user who runs the bot. Empty for a unit of the user's own service manager.
    """

    program: Path
    folder: Path
    user: str = ""

    def __post_init__(self) -> None:
        for path in (self.program, self.folder):
            text = str(path)
            if not path.is_absolute() or not text.isprintable() or _REFUSED & set(text):
                raise UnitError(
                    f"{text!r}: expected an absolute path without quotes, $ and backslashes, which "
                    "mean something else in a unit; move it"
                )
        if self.user and not _USER.fullmatch(self.user):
            raise UnitError(
                f"{self.user!r}: expected the name of a user: lower-case letters, digits, _ and -"
            )

    @property
    def text(self) -> str:
        """The whole unit file."""
        return "\n".join((*self._unit(), "", *self._service(), "", *self._install(), ""))

    def _unit(self) -> list[str]:
        lines = [
            "# Written by `nekro service install`; `nekro service remove` deletes it.",
            "[Unit]",
            "Description=nekro-core, a chat bot",
        ]
        if self.user:
            lines += ["Wants=network-online.target", "After=network-online.target"]
        # A bot with wrong settings ends at once, and starting it again does not help.
        return [*lines, "StartLimitIntervalSec=60", "StartLimitBurst=5"]

    def _service(self) -> list[str]:
        lines = [
            "[Service]",
            "Type=exec",
            f'ExecStart="{_escaped(self.program)}" run',
            f"WorkingDirectory={_escaped(self.folder)}",
            "Restart=on-failure",
            "RestartSec=2",
            # SIGTERM goes to the bot alone: it ends its boxes and its model server itself.
            "KillMode=mixed",
            f"TimeoutStopSec={STOP_S}",
            "UMask=0077",
            "LimitNOFILE=65536",
            "# Each box gets a cgroup with limits.",
            "Delegate=yes",
            "# A box that uses too much memory must not end the bot.",
            "OOMPolicy=continue",
            "# What the jail does not need. It needs namespaces, mounts and an uncovered /proc.",
            "NoNewPrivileges=yes",
            "LockPersonality=yes",
            "RestrictRealtime=yes",
            "RestrictSUIDSGID=yes",
            "RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK",
            "SystemCallArchitectures=native",
        ]
        if not self.user:
            return lines
        lines += [
            f"User={self.user}",
            "CapabilityBoundingSet=",
            "AmbientCapabilities=",
            "PrivateDevices=yes",
            "PrivateTmp=yes",
            "ProtectClock=yes",
            "ProtectHome=read-only",
            "ProtectKernelModules=yes",
            "ProtectSystem=strict",
            # /var/tmp is private, and emptied at each stop: the packages of boxes would be fetched
            # again.
            "CacheDirectory=nekro",
            "Environment=NEKRO_SANDBOX__PACKAGES_DIR=/var/cache/nekro",
        ]
        if self.folder == STATE:
            return [*lines, f"StateDirectory={STATE.name}", "StateDirectoryMode=0700"]
        return [*lines, f'ReadWritePaths="{_escaped(self.folder)}"']

    def _install(self) -> list[str]:
        target = "multi-user.target" if self.user else "default.target"
        return ["[Install]", f"WantedBy={target}"]


def unit_file(name: str, *, of_user: bool, home: Path) -> Path:
    """Return the path of the unit file. Raises `UnitError`."""
    if not _NAME.fullmatch(name):
        raise UnitError(f"{name!r}: expected a name for the service of letters, digits and . _ @ -")
    folder = home / ".config/systemd/user" if of_user else Path("/etc/systemd/system")
    return folder / f"{name}.service"


def _escaped(path: Path) -> str:
    # systemd replaces %h and others, also in paths.
    return str(path).replace("%", "%%")
