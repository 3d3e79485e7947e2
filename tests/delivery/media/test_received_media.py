"""Pictures and files that people send are fetched from URLs, checked and stored."""

import base64
import io
import os
import struct
import threading
import zlib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import anyio
import pytest
from PIL import Image

from nekro_core.chat import ChatKey, Media
from nekro_core.delivery.errors import NotFetched
from nekro_core.delivery.media.fetch import Fetcher
from nekro_core.delivery.media.fetch_policy import PlatformFetchPolicy
from nekro_core.delivery.media.settings import MediaSettings
from nekro_core.delivery.media.store import MediaStore, safe_name
from nekro_core.delivery.media_contract import Expected
from nekro_core.media.converter import MediaConverter
from nekro_core.media.sniff import sniff
from tests.delivery.conftest import GROUP, OTHER


def picture(kind: str = "PNG", size: tuple[int, int] = (8, 6), colour: str = "red") -> bytes:
    out = io.BytesIO()
    Image.new("RGB", size, colour).save(out, kind)
    return out.getvalue()


def bomb(width: int, height: int) -> bytes:
    """A PNG of a few bytes whose header claims this size."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = zlib.compress(b"\0" * 100)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
    )


def scans(count: int, side: int = 64) -> bytes:
    """A progressive JPEG with ``count`` scans of a few bytes. A decoder draws the picture once for
    each scan."""

    def part(marker: int, data: bytes) -> bytes:
        return b"\xff" + bytes([marker]) + struct.pack(">H", len(data) + 2) + data

    head = (
        b"\xff\xd8"
        + part(0xDB, b"\0" + b"\1" * 64)
        + part(0xC2, struct.pack(">BHHB", 8, side, side, 1) + b"\1\x11\0")
        + part(0xC4, b"\0" + bytes([1] + [0] * 15) + b"\0")
        + part(0xC4, b"\x10" + bytes([1] + [0] * 15) + b"\xe0")
        + part(0xDA, b"\1\1\0\0\0\0")
        + bytes((side // 8) ** 2 // 8)
    )
    return head + (part(0xDA, b"\1\1\0\1\x3f\0") + b"\0\0") * count + b"\xff\xd9"


WAV = b"RIFF\x24\0\0\0WAVEfmt " + b"\0" * 20
HTML = b"<!DOCTYPE html><script>alert(1)</script>"


@pytest.fixture
def media(tmp_path: Path, converter: MediaConverter) -> MediaStore:
    settings = MediaSettings(max_bytes=2_000_000, max_pixels=1_000_000)
    return MediaStore(tmp_path, settings, converter)


# ---- storing


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP", "BMP"])
async def test_a_picture_is_stored_under_its_digest(
    media: MediaStore, tmp_path: Path, kind: str
) -> None:
    data = picture(kind)
    kept = await media.keep_bytes(GROUP, data, name="../../etc/猫.png", expect="image")
    assert kept.problem == ""
    assert kept.mime == Image.MIME[kind]
    assert (kept.name, kept.size) == ("猫.png", len(data))
    path = Path(kept.path)
    assert path.parent == tmp_path / "uploads" / GROUP.file_name
    assert path.stem == kept.sha256[:32]
    assert await media.read(GROUP, kept.path) == data
    assert (await media.keep_bytes(GROUP, data)).path == kept.path
    assert len(list(path.parent.iterdir())) == 1


@pytest.mark.parametrize(
    ("data", "name", "expect", "problem"),
    [
        (HTML, "cat.png", "", "should be image and is text/html"),
        (HTML, "", "image", "should be image and is text/html"),
        (WAV, "cat.jpeg", "", "should be image and is audio/wav"),
        (picture(), "voice.wav", "", "should be audio and is image/png"),
        (bomb(50_000, 50_000), "cat.png", "", "more than 1000000"),
        (bomb(2_000, 2_000), "cat.png", "image", "2000x2000 pixels"),
        (scans(20_000), "cat.jpg", "image", "more than 200 scans"),
        (picture(size=(64, 64))[:-30], "cat.png", "", "damaged"),
        (picture("JPEG", (64, 64))[:300], "", "image", "damaged"),
        (b"\x89PNG\r\n\x1a\n" + b"\xff" * 100, "", "", "damaged"),
        (b"\0\0\0\x18ftypheic" + b"\0" * 50, "", "image", "not a kind of picture"),
        (b"<svg onload='x'>", "x.svg", "image", "the SVG cannot be drawn"),
        (b"", "cat.png", "", "empty"),
        (b"\0" * 2_000_001, "x.bin", "file", "larger than 1 MiB"),
    ],
)
async def test_decompression_bombs_wrong_types_and_cut_files_are_refused(
    media: MediaStore, tmp_path: Path, data: bytes, name: str, expect: Expected, problem: str
) -> None:
    kept = await media.keep_bytes(GROUP, data, name=name, expect=expect)
    assert problem in kept.problem
    assert kept.path == ""
    assert not [p for p in tmp_path.rglob("*") if p.is_file()]


@pytest.mark.parametrize(
    ("data", "name", "expect", "mime"),
    [
        (HTML, "page.html", "", "text/html"),
        (HTML, "not really.png", "file", "text/html"),
        (bomb(2_000, 2_000), "bomb.png", "file", "image/png"),
        (WAV, "a.wav", "audio", "audio/wav"),
        (b"\x02#!SILK_V3 data", "", "audio", "audio/silk"),
        (b"OggS data", "", "audio", "audio/ogg"),
        (b"\xff\xfb\x90\x64" + b"\0" * 100, "", "audio", "audio/mpeg"),
        (b"\0\0\0\x18ftypmp42", "", "audio", "video/mp4"),
        (b"MZ\x90\0", "setup.exe", "", "application/octet-stream"),
        ("你好".encode(), "a.txt", "", "text/plain"),
    ],
)
async def test_the_type_of_a_file_follows_from_its_content(
    media: MediaStore, data: bytes, name: str, expect: Expected, mime: str
) -> None:
    kept = await media.keep_bytes(GROUP, data, name=name, expect=expect)
    assert (kept.problem, kept.mime) == ("", mime)


def test_a_character_cut_at_the_end_of_the_sniffed_part_is_still_text() -> None:
    assert sniff(("x" * 4095 + "文").encode()[:4096]) == ("text/plain", "txt")
    assert sniff(b"x\xff\xfe" + b"x" * 4093) == ("application/octet-stream", "bin")


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("../../../etc/passwd", "passwd"),
        ("C:\\Windows\\a.png", "a.png"),
        ("a\0b\n.png", "ab.png"),
        ("innocent\u202egnp.exe", "innocentgnp.exe"),
        ("..", ""),
        ("", ""),
        ("x" * 500 + ".png", "x" * 116 + ".png"),
        ("x" * 500, "x" * 120),
        ("\ud800a.png", "a.png"),
    ],
)
def test_file_names_are_cleaned(name: str, shown: str) -> None:
    assert safe_name(name) == shown


async def test_a_chat_reads_only_its_own_media(media: MediaStore, tmp_path: Path) -> None:
    kept = await media.keep_bytes(GROUP, b"mine", name="a.txt")
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    folder = Path(kept.path).parent
    link = folder / f"{'0' * 32}.txt"
    link.symlink_to(secret)
    assert await media.read(GROUP, kept.path) == b"mine"
    for chat, path in [
        (OTHER, kept.path),
        (GROUP, str(secret)),
        (GROUP, f"{folder}/../../secret.txt"),
        (GROUP, str(link)),
        (GROUP, str(folder / f"{'1' * 32}.txt")),
        (GROUP, Path(kept.path).name),
        (GROUP, f"{kept.path}\0"),
        (GROUP, ""),
    ]:
        assert await media.read(chat, path) is None


async def test_over_the_quota_the_oldest_files_of_the_chat_are_deleted(tmp_path: Path) -> None:
    media = MediaStore(tmp_path, MediaSettings(chat_quota_bytes=1_000))
    others = await media.keep_bytes(OTHER, b"o" * 900)
    kept: list[Media] = []
    for number in range(5):
        kept.append(await media.keep_bytes(GROUP, bytes([number]) * 300))
        os.utime(kept[-1].path, (number, number))
    present = [await media.read(GROUP, each.path) is not None for each in kept]
    assert present == [False, False, True, True, True]
    assert await media.read(OTHER, others.path) is not None
    # A new process counts the files that are there at its start.
    again = MediaStore(tmp_path, MediaSettings(chat_quota_bytes=1_000))
    await again.keep_bytes(GROUP, b"new" * 100)
    assert await again.read(GROUP, kept[2].path) is None


# ---- fetching


class Site(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        match self.path:
            case "/cat.png":
                self._answer(200, picture())
            case "/away":
                self._answer(302, b"", Location="/cat.png")
            case "/round":
                self._answer(302, b"", Location="/round")
            case "/file":
                self._answer(302, b"", Location="file:///etc/passwd")
            case "/inside":
                self._answer(302, b"", Location="http://127.0.0.2:1/")
            case "/large":
                self._answer(200, b"", **{"Content-Length": "99999999"})
            case "/endless":
                self.send_response(200)
                self.end_headers()
                try:
                    for _ in range(1_000):
                        self.wfile.write(b"x" * 65_536)
                except OSError:
                    return
            case "/gzip":
                self._answer(200, b"\x1f\x8b...", **{"Content-Encoding": "gzip"})
            case "/slow":
                self.server.slow.wait(60)  # type: ignore[attr-defined]
            case _:
                self._answer(404, b"no")

    def _answer(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def site() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Site) as server:
        server.slow = threading.Event()  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.slow.set()  # type: ignore[attr-defined]
        server.shutdown()
        thread.join()


def allowing(tmp_path: Path, site: str, fetch_s: float = 30.0) -> MediaStore:
    settings = MediaSettings(max_bytes=1_000_000, fetch_s=fetch_s)
    return MediaStore(tmp_path, settings, fetcher=Fetcher(settings, here(site)))


def here(site: str, name: str = "127.0.0.1") -> PlatformFetchPolicy:
    """A policy that treats the site as a platform's program, not as a part of the bot."""
    port = site.rpartition(":")[2]
    return PlatformFetchPolicy([f"{name}:{port}"], is_own_port=lambda _: False)


@pytest.mark.parametrize("path", ["/cat.png", "/away"])
async def test_a_picture_is_fetched(tmp_path: Path, site: str, path: str) -> None:
    async with allowing(tmp_path, site) as media:
        kept = await media.keep_url(GROUP, f"{site}{path}", expect="image")
    assert (kept.problem, kept.mime, kept.url) == ("", "image/png", f"{site}{path}")


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("/nothing", "answered 404"),
        ("/round", "more than 3 redirects"),
        ("/file", "not http"),
        ("/inside", "127.0.0.2, which is not public"),
        ("/large", "larger than"),
        ("/endless", "larger than"),
        ("/gzip", "compression"),
        ("/slow", "not there within 1 s"),
    ],
)
async def test_a_failed_fetch_is_reported_with_a_reason(
    tmp_path: Path, site: str, path: str, problem: str
) -> None:
    async with allowing(tmp_path, site, 1.0 if path == "/slow" else 30.0) as media:
        kept = await media.keep_url(GROUP, f"{site}{path}")
    assert problem in kept.problem
    assert kept.path == ""


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:9/x",
        "http://localhost:9/x",
        "http://[::1]:9/x",
        "http://[::ffff:127.0.0.1]:9/x",
        "http://[::127.0.0.1]:9/x",
        "http://[64:ff9b::10.0.0.1]:9/x",
        "http://[64:ff9b:1::1]:9/x",
        "http://[2002:a00:1::]:9/x",
        "http://[fec0::1]:9/x",
        "http://[ff0e::1]:9/x",
        "http://user:password@127.0.0.1:9/x",
        "http://127.1:9/x",
        "http://0x7f.1:9/x",
        "http://169.254.169.254/latest/meta-data",
        "http://10.0.0.1/x",
        "http://0.0.0.0/x",
        "http://2130706433/x",
        "http://0x7f000001:9/x",
        "http://127。0。0。1:9/x",
        "http://[::]:9/x",
        "http://[::ffff:7f00:1]:9/x",
        "http://[0:0:0:0:0:ffff:10.0.0.1]:9/x",
        "http://[fd00:ec2::254]/latest/meta-data",
        "http://[2001:0:7f00:1::]:9/x",
        "http://100.100.100.200/latest/meta-data",
        "http://192.0.0.192/latest/",
        "http://168.63.129.16/x",
        "http://public.example@127.0.0.1:9/x",
        "http://127.0.0.1:9#@public.example/x",
    ],
)
async def test_private_addresses_are_not_fetched(media: MediaStore, url: str) -> None:
    async with media:
        kept = await media.keep_url(GROUP, url)
    assert "not public" in kept.problem
    assert "NEKRO_DELIVERY__MEDIA__PRIVATE_HOSTS" in kept.problem


@pytest.mark.parametrize(
    "host",
    [
        "0177.0.0.1",
        "127.0.0.1.",
        "localhost.",
        "①②⑦.⓪.⓪.①",
        "%31%32%37.0.0.1",
        "[fe80::1%25lo]",
        "[::ffff:127.0.0.1%25lo]",
        "127.0.0.1\\@public.example",
        "127.0.0.1\t",
        "127.0.0.1%00.public.example",
        "127.0.0.1%2523@public.example",
    ],
)
async def test_unusual_spellings_of_private_addresses_are_not_fetched(
    media: MediaStore, site: str, host: str
) -> None:
    port = site.rpartition(":")[2]
    async with media:
        kept = await media.keep_url(GROUP, f"http://{host}:{port}/cat.png")
    assert kept.path == ""


class Resolver:
    """A resolver that gives another answer for each lookup."""

    def __init__(self, *answers: tuple[str, ...]) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> list[str]:
        self.asked.append(host)
        return list(self.answers.pop(0))


@pytest.mark.parametrize(
    "answers",
    [
        pytest.param((("8.8.8.8",), ("127.0.0.1",)), id="internal at the second lookup"),
        pytest.param((("8.8.8.8", "127.0.0.1"),), id="public and internal at once"),
        pytest.param((("2606:4700::1111", "::1"),), id="public and internal IPv6 at once"),
        pytest.param((("127.0.0.1",),), id="internal"),
    ],
)
async def test_a_host_name_is_resolved_once_for_check_and_connection(
    site: str, answers: tuple[tuple[str, ...], ...]
) -> None:
    resolver = Resolver(*answers)
    port = site.rpartition(":")[2]
    async with Fetcher(MediaSettings(fetch_s=0.3), resolve=resolver) as fetcher:
        with pytest.raises(NotFetched):
            await fetcher.fetch(f"http://rebinding.example:{port}/cat.png")
    assert resolver.asked == ["rebinding.example"]


async def test_each_redirect_target_is_resolved_again(site: str) -> None:
    resolver = Resolver(("127.0.0.1",), ("127.0.0.1",))
    port = site.rpartition(":")[2]
    reach = here(site, "files.example")
    async with Fetcher(MediaSettings(), reach, resolve=resolver) as fetcher:
        assert await fetcher.fetch(f"http://files.example:{port}/away") == picture()
    assert resolver.asked == ["files.example"] * 2


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("", "no scheme"),
        ("file:///etc/passwd", "begins with file:"),
        ("ftp://x/y", "begins with ftp:"),
        ("http://", "not http"),
        ("http://\ud800/", "cannot be fetched"),
        ("http://[::1", "cannot be fetched"),
        ("http://xn--/", "cannot be fetched"),
        ("http://" + "1" * 70_000, "cannot be fetched"),
        ("data:nothing", "malformed data"),
        ("data:;base64,!!!", "malformed base64"),
        ("base64://" + "A" * 4_000_000, "larger than"),
    ],
)
async def test_an_invalid_url_is_refused(media: MediaStore, url: str, problem: str) -> None:
    async with media:
        kept = await media.keep_url(GROUP, url)
    assert problem in kept.problem


@pytest.mark.parametrize(
    "url",
    [
        "base64://" + base64.b64encode(picture()).decode(),
        "base64://" + base64.b64encode(picture()).decode().rstrip("="),
        "base64://" + base64.encodebytes(picture()).decode(),
        "data:image/png;base64," + base64.b64encode(picture()).decode(),
        "data:text/plain," + "".join(f"%{byte:02x}" for byte in picture()),
    ],
)
async def test_a_data_url_is_read(media: MediaStore, url: str) -> None:
    kept = await media.keep_url(GROUP, url, expect="image")
    assert (kept.problem, kept.mime, kept.url) == ("", "image/png", "")


async def test_chats_whose_names_differ_only_in_case_have_separate_media(media: MediaStore) -> None:
    upper, lower = ChatKey.parse("web-group_A"), ChatKey.parse("web-group_a")
    kept = await media.keep_bytes(upper, b"text")
    assert await media.read(lower, kept.path) is None


async def test_lookups_that_hang_do_not_block_other_lookups() -> None:
    """Lookups that hang take at most two places, so other lookups can run."""
    at_once = most = 0

    async def resolver(_host: str, _port: int) -> list[str]:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        try:
            await anyio.sleep_forever()
        finally:
            at_once -= 1
        return []

    async with Fetcher(MediaSettings(fetch_s=0.1), resolve=resolver) as fetcher:

        async def fetch(number: int) -> None:
            with pytest.raises(NotFetched, match="not there within"):
                await fetcher.fetch(f"http://{number}.example.test/cat.png")

        async with anyio.create_task_group() as tasks:
            for number in range(20):
                tasks.start_soon(fetch, number)
    assert most == 2
