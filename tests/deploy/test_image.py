"""The files of the image agree with each other and with the settings."""

import http.server
import json
import re
import runpy
import shutil
import subprocess
import sys
import sysconfig
import threading
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nekro_core.app.settings import Settings

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
PACKAGES = Path(sysconfig.get_path("purelib"))
DOCKERFILE = (DEPLOY / "Dockerfile").read_text("utf-8").replace("\\\n", " ")


def test_the_settings_of_the_image_exist(tmp_path: Path) -> None:
    (line,) = re.findall(r"^ENV (.+)$", DOCKERFILE, re.MULTILINE)
    written = dict(each.split("=", 1) for each in line.split())
    settings = {
        name: value for name, value in written.items() if name not in ("PATH", "LANG", "HOME")
    }
    lines = (f"{name}={value}" for name, value in settings.items())
    (tmp_path / ".env").write_text("\n".join(lines) + "\n")
    loaded = Settings.load(tmp_path)
    assert str(loaded.host) == "0.0.0.0"
    assert str(loaded.port) in re.findall(r"^EXPOSE (\d+)$", DOCKERFILE, re.MULTILINE)
    (volume,) = re.findall(r"^VOLUME (\S+)$", DOCKERFILE, re.MULTILINE)
    (folder,) = re.findall(r"^WORKDIR (/nekro)$", DOCKERFILE, re.MULTILINE)
    # The data folder and the packages of boxes are in the only folder that the bot can write to.
    assert folder == volume == written["HOME"]
    assert not loaded.nekro_data_dir.is_absolute()
    packages = loaded.nekro_sandbox.packages_dir
    assert packages is not None
    assert packages.is_relative_to(volume)


def test_the_program_of_the_image_runs_as_a_user_other_than_root() -> None:
    (user,) = re.findall(r"^USER (\d+):\d+$", DOCKERFILE, re.MULTILINE)
    assert int(user) > 1000
    assert DOCKERFILE.index("USER ") < DOCKERFILE.index("ENTRYPOINT")


def test_the_engine_gets_exactly_the_files_that_the_dockerfile_copies() -> None:
    lines = re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE, re.MULTILINE)
    copied = {path for line in lines for path in line.split()[:-1]}
    sent = re.findall(r"^!(\S+)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE)
    assert {path.split("/")[0] for path in copied} == set(sent)
    assert all((ROOT / path).exists() for path in copied)
    # The image builds a wheel of the bot, so every file that a wheel is made of must be copied.
    build = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    wheel = build["tool"]["hatch"]["build"]["targets"]["wheel"]
    project = build["project"]
    needed = {*wheel["packages"], *wheel["force-include"], *project["license-files"]}
    assert needed | {project["readme"], "pyproject.toml"} <= copied


def requirements(*extras: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, DEPLOY / "requirements.py", *extras],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
    )


def test_the_requirements_of_the_image_are_those_of_the_project_and_of_the_named_extras() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    assert requirements().stdout.splitlines() == project["dependencies"]
    wanted = [*project["dependencies"], *extras["postgres"], *extras["mcp"]]
    assert requirements("postgres, mcp").stdout.splitlines() == wanted


def test_an_unknown_extra_is_refused_with_the_known_ones() -> None:
    ended = requirements("postgres,teleprinter")
    assert ended.returncode == 1
    assert "EXTRAS: 'teleprinter' is no extra; known are piper, edge" in ended.stderr


def test_the_makefile_and_the_dockerfile_have_the_same_default_extras_and_base() -> None:
    makefile = (ROOT / "Makefile").read_text()
    (of_make,) = re.findall(r"^EXTRAS \?= (\S+)$", makefile, re.MULTILINE)
    (of_file,) = re.findall(r"^ARG EXTRAS=(\S+)$", DOCKERFILE, re.MULTILINE)
    (base_of_make,) = re.findall(r"^image: BASE \?= (\S+)$", makefile, re.MULTILINE)
    (base_of_file,) = re.findall(r"^ARG BASE=(\S+)$", DOCKERFILE, re.MULTILINE)
    assert (of_make, base_of_make) == (of_file, base_of_file)


def test_the_seccomp_profile_is_what_its_script_prints() -> None:
    """If this test fails, run the command that stands at the top of scripts/seccomp_profile.py."""
    made = subprocess.run(
        [sys.executable, ROOT / "scripts/seccomp_profile.py"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(ROOT)},
    )
    assert made.stdout == (DEPLOY / "seccomp.json").read_text()


def test_the_seccomp_profile_allows_the_calls_that_make_boxes_and_no_dangerous_calls() -> None:
    profile = json.loads((DEPLOY / "seccomp.json").read_text())
    assert profile["defaultAction"] == "SCMP_ACT_ERRNO"
    allowed = {name for rule in profile["syscalls"] for name in rule["names"]}
    assert {"clone", "unshare", "mount", "umount2", "pivot_root", "sethostname"} <= allowed
    refused = {"bpf", "init_module", "kexec_load", "ptrace", "reboot", "setns", "swapon", "keyctl"}
    assert not allowed & {*refused, "io_uring_setup", "perf_event_open", "userfaultfd"}


def test_each_file_that_the_image_leaves_out_or_strips_is_in_the_packages() -> None:
    """If a file is missing, a package has moved it, and the image would grow unnoticed."""
    lists = runpy.run_path(str(DEPLOY / "shrink.py"))
    for pattern in (*lists["UNUSED"], *lists["WITH_SYMBOLS"]):
        assert [*PACKAGES.glob(pattern)], f"deploy/shrink.py: nothing is at {pattern}"


def test_packages_of_the_image_become_smaller_and_work(tmp_path: Path) -> None:
    if shutil.which("strip") is None:
        pytest.skip("strip is not installed (Debian: binutils)")
    for name in ("uvloop", "numpy/testing", "numpy/_core/tests"):
        shutil.copytree(PACKAGES / name, tmp_path / name)
    (library,) = tmp_path.glob("uvloop/loop.*.so")
    before = library.stat().st_size
    command = [sys.executable, DEPLOY / "shrink.py", tmp_path]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert f"{tmp_path}: " in done.stdout
    assert library.stat().st_size < before
    assert (tmp_path / "numpy/testing/__init__.py").exists()
    assert not (tmp_path / "numpy/_core/tests").exists()
    program = "import uvloop; print(uvloop.__file__); uvloop.new_event_loop().close()"
    imported = subprocess.run(
        [sys.executable, "-c", program],
        check=True,
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(tmp_path)},
    )
    assert imported.stdout.startswith(str(tmp_path))


class _Page(http.server.BaseHTTPRequestHandler):
    status = 200

    def do_GET(self) -> None:
        self.send_response(self.status)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def answering(folder: Path, status: int) -> Iterator[None]:
    """Run a web server that answers each request with this status. A file in ``folder`` names the
    server's address, as the data folder of a running bot names the bot's address."""
    page = type("_OnePage", (_Page,), {"status": status})
    with http.server.HTTPServer(("127.0.0.1", 0), page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        (folder / "running.json").write_text(json.dumps({"address": address, "token": "t"}))
        yield
        server.shutdown()


def health(data: Path) -> "subprocess.CompletedProcess[str]":
    # The environment names a proxy. The health check must not use it, because the bot is on
    # loopback.
    environment = {"NEKRO_DATA_DIR": str(data), "http_proxy": "http://127.0.0.1:9"}
    return subprocess.run(
        [sys.executable, "-I", "-S", DEPLOY / "healthcheck.py"],
        check=False,
        capture_output=True,
        text=True,
        env=environment,
    )


@pytest.mark.parametrize(("status", "well"), [(200, True), (404, False), (503, False)])
def test_the_health_check_asks_the_bot(tmp_path: Path, status: int, *, well: bool) -> None:
    with answering(tmp_path, status):
        ended = health(tmp_path)
    assert ended.returncode == (not well), ended.stdout + ended.stderr
    assert ended.stdout == "the bot answers\n" if well else f"HTTP Error {status}" in ended.stdout


def test_a_bot_that_is_not_ready_or_has_ended_is_not_healthy(tmp_path: Path) -> None:
    ended = health(tmp_path)
    assert ended.returncode == 1
    assert "no bot is ready" in ended.stdout
    with answering(tmp_path, 200):
        pass
    ended = health(tmp_path)
    assert ended.returncode == 1
    assert "Connection refused" in ended.stdout
