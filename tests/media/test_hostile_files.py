"""The tests check what a decoder can reach if a hostile file takes control of it."""

import ctypes
import os
import random
from pathlib import Path
from typing import Any

import anyio
import pytest

from nekro_core.media.confined_process import run_confined
from nekro_core.media.converter import MediaConverter
from nekro_core.media.errors import MediaError, UnusableMedia
from nekro_core.media.limits import PictureLimits
from nekro_core.media.self_check import unconfined_abilities
from nekro_core.system.confinement.bpf import MACHINES
from tests.media.pictures import drawn, moving
from tests.media.sounds import amr_wide, encoded, silk, wav

LANDLOCK = ctypes.CDLL(None).syscall(444, None, ctypes.c_size_t(0), 1) >= 1
"""True if this kernel has Landlock. `landlock_create_ruleset` is called to get its version."""


async def pry(deed: str, *, seconds: int = 30, **more: Any) -> dict[str, Any]:
    """Run one attack in a confined child; returns the fields of its answer."""
    request = {"deed": deed, **more}
    fields, _ = await run_confined("tests.media.prying_worker", request, b"data", seconds=seconds)
    return fields


async def test_a_compromised_decoder_reaches_no_file_and_no_network(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("the token")
    mark = tmp_path / "mark"
    assert "refused" in await pry("write", path=str(mark))
    assert not mark.exists() or not mark.read_bytes()
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    async with listener:
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        outcome = {
            "read": await pry("read", path=str(secret)),
            "list": await pry("list", path=str(tmp_path)),
            "connect": await pry("connect", port=port),
        }
    if not LANDLOCK:
        outcome = {"connect": outcome["connect"]}
    if not (await _namespaces()):
        outcome.pop("connect")
    assert [deed for deed, came in outcome.items() if "refused" not in came] == []


NO_DECODING = ("socket", "load", "stat", "fork", "thread", "kill", "code", "hidden file", "trace")
known_machine = pytest.mark.skipif(
    os.uname().machine not in MACHINES, reason="its system calls are not known"
)


@known_machine
async def test_calls_that_decoding_does_not_need_are_refused() -> None:
    without = await pry("", deeds=NO_DECODING, without=["calls_filtered"])
    assert [deed for deed in NO_DECODING if "refused" in without[deed]] == []
    filtered = await pry("", deeds=NO_DECODING)
    assert [deed for deed in NO_DECODING if "refused" not in filtered[deed]] == []


@known_machine
async def test_a_decoder_cannot_execute_another_program() -> None:
    without = await pry("exec", without=["calls_filtered", "files_closed"])
    assert without["got"] == "another program"
    assert "refused" in await pry("exec", without=["files_closed"])


@known_machine
async def test_all_confinements_work_on_this_machine() -> None:
    assert await unconfined_abilities() == []


async def _namespaces() -> bool:
    """Return True if an unprivileged user of this machine may create a network namespace."""
    done = await anyio.run_process(("unshare", "--user", "--net", "true"), check=False)
    return done.returncode == 0


async def test_the_environment_of_a_decoder_has_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEKRO_LLM__API_KEY", "sk-secret")
    assert set((await pry("environment"))["got"]) <= {"LANG", "PATH", "PYTHONPATH", "LC_CTYPE"}


@pytest.mark.parametrize(
    "deed",
    [
        "crash",
        "gibberish",
        *(pytest.param(deed, marks=pytest.mark.long) for deed in ("memory", "spin", "flood")),
    ],
)
async def test_a_crash_or_an_exceeded_limit_ends_only_the_child(deed: str) -> None:
    with pytest.raises(UnusableMedia, match=r"more memory|gave up|within"):
        await pry(deed, seconds=1 if deed == "spin" else 30)


async def test_a_cancelled_request_leaves_no_child() -> None:
    before = set(_children())
    with anyio.move_on_after(0.5):
        await pry("sleep")
    assert set(_children()) <= before


def _children() -> list[str]:
    found = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text()
    return found.split()


MADE = {
    "audio/silk": silk,
    "audio/amr": amr_wide,
    "audio/ogg": lambda: encoded("ogg", "libopus", 48_000),
    "audio/mpeg": lambda: encoded("mp3", "libmp3lame", 44_100),
    "video/mp4": lambda: encoded("mp4", "aac", 44_100),
    "video/webm": lambda: encoded("webm", "libopus", 48_000),
    "audio/wav": lambda: wav(width=1),
    "audio/flac": lambda: encoded("flac", "flac", 44_100),
    "image/png": lambda: drawn("PNG"),
    "image/jpeg": lambda: drawn("JPEG"),
    "image/gif": moving,
    "image/webp": lambda: drawn("WEBP"),
}


def _broken(data: bytes, seed: int) -> bytes:
    """The file with some bytes changed, and sometimes cut off or with a part repeated."""
    chance = random.Random(seed)
    changed = bytearray(data)
    for _ in range(chance.choice((1, 4, 30))):
        changed[chance.randrange(len(changed))] = chance.randrange(256)
    if chance.random() < 0.3:
        del changed[chance.randrange(len(changed)) :]
    if chance.random() < 0.2:
        start = chance.randrange(len(changed) + 1)
        changed[start:start] = changed[start : start + 500]
    return bytes(changed)


async def _survives(mime: str, seeds: range) -> None:
    made = MADE[mime]()
    async with MediaConverter() as converter:
        limits = PictureLimits(max_side=20)
        for seed in seeds:
            data = _broken(made, seed)
            try:
                if mime.startswith("image/"):
                    assert (await converter.picture(data, limits)).data
                else:
                    assert (await converter.sound(data, mime)).data
            except MediaError:
                continue


@pytest.mark.long
@pytest.mark.parametrize("mime", MADE)
async def test_broken_files_are_decoded_or_refused(mime: str) -> None:
    await _survives(mime, range(4))
