"""Tells the operator what to do if an engine cannot be used."""

_REMEDIES = {
    ("permission denied", "errno 13"): (
        "This user may not speak to the engine: add it to the group `docker` (whoever is in it is "
        "as good as root on that machine), or run a rootless engine and set DOCKER_HOST to it"
    ),
    ("no such file", "connection refused", "errno 2]", "errno 111"): (
        "No engine runs where it was looked for: start it (systemctl start docker), or set "
        "DOCKER_HOST, or NEKRO_SANDBOX__DOCKER_HOST, to where it listens"
    ),
    ("certificate", "tls", "ssl"): (
        "The connection to the engine is not trusted: DOCKER_TLS_VERIFY=1 and DOCKER_CERT_PATH "
        "must name the folder with ca.pem, cert.pem and key.pem that fit the engine"
    ),
    (
        "paramiko",
        "sshhttpadapter",
    ): "An engine behind ssh:// needs Paramiko: pip install 'docker[ssh]'",
    ("nekro sandbox image",): (
        "Make the image for boxes with `nekro sandbox image`; it works without a registry too"
    ),
    ("cgroup", "memory limit"): (
        "The engine's machine cannot bound memory or processes. A rootless engine needs cgroup v2 "
        "with delegated controllers (systemd: Delegate=cpu cpuset io memory pids)"
    ),
    ("timed out", "timeout"): (
        "The engine is there and does not answer: look at its log (journalctl -u docker)"
    ),
}


def find_remedy(complaint: str) -> str:
    """Return what to do about an error message of an engine; empty for an unknown message."""
    lowered = complaint.lower()
    for signs, text in _REMEDIES.items():
        if any(sign in lowered for sign in signs):
            return text
    return ""
