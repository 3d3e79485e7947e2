"""Tells the operator what to do if the kernel, or its configuration, does not allow boxes."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class _Remedy:
    signs: tuple[str, ...]
    text: str


_REMEDIES = (
    _Remedy(
        ("apparmor", "uid map"),
        "Ubuntu 23.10 and later keep user namespaces from programs without an AppArmor profile: "
        "install the system's bubblewrap with its profile (apt install bubblewrap "
        "apparmor-profiles), write a profile with `userns,` for the launcher, or set "
        "kernel.apparmor_restrict_unprivileged_userns=0",
    ),
    _Remedy(
        ("no permissions to creat", "creating new namespace failed", "clone", "unshare"),
        "The kernel refuses user namespaces here. Inside Docker's default settings they are "
        "blocked: use NEKRO_SANDBOX__BACKEND=docker. In a chroot they are refused too: enter the "
        "root by pivot_root (unshare -m, or systemd-nspawn). Else set "
        "kernel.unprivileged_userns_clone=1 and user.max_user_namespaces above 0",
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
    ),
)


def find_remedy(complaint: str) -> str:
    """Return what to do about an error message of bubblewrap; empty for an unknown message."""
    lowered = complaint.lower()
    for remedy in _REMEDIES:
        if any(sign in lowered for sign in remedy.signs):
            return remedy.text
    return ""
