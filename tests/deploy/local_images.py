"""Makes the images of compose.yaml on this machine, without a registry of images: a base image with
debootstrap, the bot's image with ``make image``, and images of NATS and PostgreSQL under the names
that compose.yaml has, from packages of these programs."""

import contextlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.deploy.composed import ROOT, composed
from tests.peers import nats
from tests.sandbox.docker.engine import running_engine

BASE = "nekro-test-base"
"""Debian 12 with Python, as ``make image`` wants its base to be."""
_MAKE_S = 3000.0
"""The longest time for one image. The packages of the bot are 0.3 GB to download, and other
programs may use the machine."""
_CERTIFICATES = "etc/ssl/certs/ca-certificates.crt"

_NATS = """FROM nekro-test-base
COPY nats-server /usr/local/bin/
ENTRYPOINT ["nats-server"]
"""
_POSTGRES = """FROM nekro-test-base
RUN apt-get update --quiet && \\
    DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet --no-install-recommends postgresql
COPY start.sh /start.sh
STOPSIGNAL SIGINT
ENTRYPOINT ["sh", "/start.sh"]
"""
_START_POSTGRES = """# Does what the official image does with its three variables.
set -eu
data=/var/lib/postgresql/data
if [ "$(id -u)" = 0 ]; then
    chown postgres "$data" && chmod 700 "$data"
    exec setpriv --reuid postgres --regid postgres --init-groups sh "$0"
fi
PATH="$PATH:$(echo /usr/lib/postgresql/*/bin)"
if [ ! -s "$data/PG_VERSION" ]; then
    [ -n "$POSTGRES_PASSWORD" ] || { echo "POSTGRES_PASSWORD is not set" >&2; exit 1; }
    echo "$POSTGRES_PASSWORD" >/tmp/password
    initdb --pgdata "$data" --username "$POSTGRES_USER" --pwfile /tmp/password \\
        --auth-local trust --auth-host scram-sha-256
    echo "host all all all scram-sha-256" >>"$data/pg_hba.conf"
    echo "CREATE DATABASE $POSTGRES_DB" | postgres --single -j -D "$data" postgres
fi
exec postgres -D "$data" -c "listen_addresses=*"
"""


class NoImages(Exception):
    """The images cannot be made here. The message says what is missing."""


@dataclass(frozen=True, slots=True)
class Docker:
    """The client of one engine.

    Args:
        host: The engine's address.
    """

    host: str

    def run(self, *words: str | Path, folder: Path = ROOT, stdin: bytes | None = None) -> str:
        """Run a command, such as ``docker ps`` or ``make image``, and return what it printed.
        Fails if the command fails."""
        done = subprocess.run(
            words,
            check=False,
            cwd=folder,
            input=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "DOCKER_HOST": self.host},
            timeout=_MAKE_S,
        )
        printed = done.stdout.decode(errors="replace")
        assert done.returncode == 0, f"{words} ended with {done.returncode}:\n{printed[-4000:]}"
        return printed


@contextlib.contextmanager
def engine_with_images(folder: Path) -> Iterator[Docker]:
    """Start an engine, and make the images. Raises `NoImages` or `NoEngine`.

    ``NEKRO_TEST_DOCKER_HOST`` can name an engine that has the images already.
    """
    if given := os.environ.get("NEKRO_TEST_DOCKER_HOST"):
        yield Docker(given)
        return
    if shutil.which("docker") is None:
        raise NoImages("the program docker is not installed (Debian: docker.io)")
    if shutil.which("debootstrap") is None:
        raise NoImages("debootstrap is not installed")
    with running_engine(folder / "engine", own_network=False) as address:
        docker = Docker(address)
        _make_base(docker, folder / "base")
        docker.run("make", "image", f"BASE={BASE}", "IMAGE_ARGS=--network host")
        services = composed()["services"]
        if (server := nats.program()) is not None:
            _make(docker, folder / "nats", services["nats"]["image"], _NATS, Path(server))
        started_by = folder / "start.sh"
        started_by.write_text(_START_POSTGRES)
        image = services["postgres"]["image"]
        _make(docker, folder / "postgres", image, _POSTGRES, started_by)
        yield docker


def _make_base(docker: Docker, root: Path) -> None:
    sources = (Path("/etc/apt/sources.list"), *Path("/etc/apt/sources.list.d").glob("*"))
    listed = "\n".join(path.read_text("utf-8") for path in sources if path.is_file())
    mirrors = re.findall(r"^(?:URIs:|deb .*?)\s*(http\S*/debian)/?(?:\s|$)", listed, re.MULTILINE)
    packages = "--include=ca-certificates,python3,python3-venv"
    command = ["debootstrap", "--variant=minbase", packages, "bookworm", str(root), *mirrors[:1]]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=_MAKE_S)
    if done.returncode != 0:
        raise NoImages(f"debootstrap makes no Debian here: {done.stdout[-500:]}")
    # What this machine trusts, so that pip reaches its index during the build too.
    shutil.copy(Path("/", _CERTIFICATES), root / _CERTIFICATES)
    (root / "etc/pip.conf").write_text(f"[global]\ncert = /{_CERTIFICATES}\n")
    archive = subprocess.run(
        ["tar", "--create", "--one-file-system", "--directory", root, "."],
        check=True,
        capture_output=True,
    )
    docker.run("docker", "import", "-", BASE, stdin=archive.stdout)
    shutil.rmtree(root)


def _make(docker: Docker, folder: Path, name: str, dockerfile: str, copied: Path) -> None:
    """Make an image from this Dockerfile, which copies one file."""
    folder.mkdir()
    (folder / "Dockerfile").write_text(dockerfile)
    shutil.copy(copied, folder)
    docker.run("docker", "build", "--network", "host", "--tag", name, folder)
