"""What to do about the reasons for which a kernel or its keeper refuses boxes."""

_REMEDIES = (
    (
        ("apparmor", "setting up uid map: permission denied", "uid map"),
        "Ubuntu 23.10 and later keep user namespaces from programs without an AppArmor profile: "
        "install the system's bubblewrap with its profile (apt install bubblewrap apparmor-profiles), "
        "write a profile with `userns,` for the launcher, or set "
        "kernel.apparmor_restrict_unprivileged_userns=0",
    ),
    (
        (
            "no permissions to create a new namespace",
            "creating new namespace failed",
            "clone",
            "unshare",
        ),
        "The kernel refuses user namespaces here. Inside Docker's default settings they are blocked: "
        "use NEKRO_SANDBOX__BACKEND=docker. In a chroot they are refused too: enter the root by "
        "pivot_root (unshare -m, or systemd-nspawn). Else set kernel.unprivileged_userns_clone=1 and "
        "user.max_user_namespaces above 0",
    ),
    (
        ("no python",),
        "Install the system's python3 (3.9 or later, with its standard library), or set "
        "NEKRO_SANDBOX__INTERPRETER to a Python whose whole folder any user may read",
    ),
    (
        ("mount proc", "proc on", "can't mount proc"),
        "The surrounding container hides parts of /proc, so no fresh one may be mounted: use "
        "NEKRO_SANDBOX__BACKEND=docker, or start the container with --security-opt "
        "systempaths=unconfined",
    ),
)


def find(complaint: str) -> str:
    """The remedy for what a launcher said; empty where none is known."""
    lowered = complaint.lower()
    for signs, remedy in _REMEDIES:
        if any(sign in lowered for sign in signs):
            return remedy
    return ""
