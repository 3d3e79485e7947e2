"""Writes the systemd unit of the bot.

The jail makes a user namespace for each box, so the unit must not have options that forbid this.
The following options are missing on purpose:

- ``RestrictNamespaces``, ``ProtectHostname`` and a ``SystemCallFilter`` with a list of allowed
  calls: bubblewrap makes namespaces, mounts file systems and sets the host name of the box.
- ``ProtectKernelTunables``, ``ProtectKernelLogs`` and ``ProcSubset``: they hide parts of ``/proc``.
  While parts of it are hidden, the kernel refuses to mount another ``/proc``, which each box needs.
- ``ProtectControlGroups``: the bot makes a cgroup for each box, in the part of the cgroup tree that
  ``Delegate`` gives to the bot.
- ``MemoryDenyWriteExecute``: Node, which runs in boxes, compiles JavaScript while it runs.

Source: `man 5 systemd.exec`, `systemd.service`, `systemd.resource-control`.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from nekro_core.system.errors import NekroError

STATE = Path("/var/lib/nekro")
"""The folder in which the bot runs as a service of the machine, unless the operator names another
folder."""
STOP_S = 15
"""Seconds that systemd waits for the bot to end before it kills the bot. The bot usually needs 3 s,
and longer if a restore was prepared."""
_REFUSED = frozenset("\"'$\\")
_USER = re.compile(r"[a-z_][a-z0-9_-]{0,30}")
_NAME = re.compile(r"[\w.@-]{1,100}")


class UnitError(NekroError):
    """No unit can be written for these values. The text says why and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceUnit:
    """The systemd unit of one bot.

    Attributes:
        program: The program ``nekro``, as an absolute path.
        folder: The folder in which the bot runs. It contains ``.env`` and the data folder.
        user: The user as whom the bot runs. Empty if the unit is for a user's own service manager
            (``systemctl --user``).
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
        # Stop trying after 5 starts in 60 s: a bot with wrong settings ends at once, and another
        # start does not help.
        return [*lines, "StartLimitIntervalSec=60", "StartLimitBurst=5"]

    def _service(self) -> list[str]:
        lines = [
            "[Service]",
            "Type=exec",
            f'ExecStart="{_escaped(self.program)}" run',
            f"WorkingDirectory={_escaped(self.folder)}",
            "Restart=on-failure",
            "RestartSec=2",
            # Send SIGTERM only to the bot's main process, which then ends its boxes and its model
            # server.
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
            # Keep the packages of boxes in a cache folder. They are usually in /var/tmp, but with
            # PrivateTmp that folder is emptied at each stop, and the packages would be fetched
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
    # systemd replaces specifiers such as %h, also in paths. %% stands for one %.
    return str(path).replace("%", "%%")
