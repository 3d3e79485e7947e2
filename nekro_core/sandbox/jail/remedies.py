"""Tells the operator what to do if the kernel, or its configuration, does not allow boxes."""

from dataclasses import dataclass

from nekro_core.sandbox.jail.container import ContainerLimits


@dataclass(frozen=True, slots=True)
class _Remedy:
    signs: tuple[str, ...]
    text: str
    of_container: bool = False
    """Whether the settings of the container in which the bot runs can be the reason of the
    error."""


_REMEDIES = (
    _Remedy(
        ("apparmor", "uid map"),
        "Ubuntu 23.10 and later keep user namespaces from programs without an AppArmor profile: "
        "install the system's bubblewrap with its profile (apt install bubblewrap "
        "apparmor-profiles), write a profile with `userns,` for the launcher, or set "
        "kernel.apparmor_restrict_unprivileged_userns=0",
        of_container=True,
    ),
    _Remedy(
        ("no permissions to creat", "creating new namespace failed", "clone", "unshare"),
        "The kernel refuses user namespaces here. Inside Docker's default settings they are "
        "blocked: use NEKRO_SANDBOX__BACKEND=docker. In a chroot they are refused too: enter the "
        "root by pivot_root (unshare -m, or systemd-nspawn). Else set "
        "kernel.unprivileged_userns_clone=1 and user.max_user_namespaces above 0",
        of_container=True,
    ),
    _Remedy(
        ("no python",),
        "Install the system's python3 (3.9 or later, with its standard library), or set "
        "NEKRO_SANDBOX__INTERPRETER to a Python whose whole folder any user may read",
    ),
    _Remedy(
        ("mount proc", "proc on"),
        "The surrounding container hides parts of /proc, so no fresh one may be mounted: use "
        "NEKRO_SANDBOX__BACKEND=docker, or start the container with --security-opt "
        "systempaths=unconfined",
        of_container=True,
    ),
    _Remedy(
        ("make / slave", "pivot_root", "sethostname", "set hostname"),
        "Something forbids mounts in the user namespace of a box, usually an AppArmor profile or a "
        "seccomp filter around the bot: start the bot without it",
        of_container=True,
    ),
)


def find_remedy(complaint: str, container: ContainerLimits | None = None) -> str:
    """Return what to do about an error message of bubblewrap; empty for an unknown message.

    Args:
        complaint: The error message.
        container: The limits of the container around the bot, if it runs in one.
    """
    lowered = complaint.lower()
    for remedy in _REMEDIES:
        if any(sign in lowered for sign in remedy.signs):
            return container.remedy() if container and remedy.of_container else remedy.text
    return ""
