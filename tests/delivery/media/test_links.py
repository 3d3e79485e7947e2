"""Large files that a platform cannot send are served under links. Each link is signed, expires, and
opens one file."""

import base64
import json
from pathlib import Path

import httpx
import pytest

from nekro_core.chat import Media
from nekro_core.delivery.media.links import MediaLinks
from nekro_core.delivery.media.store import MediaStore
from tests.delivery.conftest import GROUP, OTHER, Clock

ADDRESS = "https://bot.example.org"


@pytest.fixture
async def kept(tmp_path: Path) -> Media:
    source = tmp_path / "book.pdf"
    source.write_bytes(b"%PDF-1.7 " + bytes(range(256)))
    async with MediaStore(tmp_path) as media:
        return await media.keep_file(GROUP, Media(path=str(source), name='b"oo/k\n.pdf'))


@pytest.fixture
def links(tmp_path: Path, clock: Clock) -> MediaLinks:
    return MediaLinks(tmp_path, lambda: "secret", address=ADDRESS, seconds=60, clock=clock)


async def get(links: MediaLinks, link: str, method: str = "GET", **headers: str) -> httpx.Response:
    """Request a link as the web server would."""
    path = link.removeprefix(ADDRESS).removeprefix("/media")
    transport = httpx.ASGITransport(links)
    async with httpx.AsyncClient(transport=transport, base_url=ADDRESS) as client:
        return await client.request(method, path, headers=headers)


async def test_a_link_serves_its_file_as_a_download(links: MediaLinks, kept: Media) -> None:
    link = links.link(GROUP, kept)
    assert link.startswith(f"{ADDRESS}/media/")
    answer = await get(links, link)
    assert answer.content == Path(kept.path).read_bytes()
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"].startswith("attachment;")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in answer.headers["content-security-policy"]
    part = await get(links, link, range="bytes=5-8")
    assert (part.status_code, part.content) == (206, b"1.7 ")
    assert (await get(links, link, "HEAD")).status_code == 200
    assert (await get(links, link, "POST")).status_code == 405


async def test_a_link_expires(links: MediaLinks, kept: Media, clock: Clock) -> None:
    link = links.link(GROUP, kept)
    clock.now += 59
    assert (await get(links, link)).status_code == 200
    clock.now += 2
    assert (await get(links, link)).status_code == 404


@pytest.mark.parametrize(
    ("accepted", "sentence"),
    [
        ("", "This link is not valid, or not any more.\n"),
        ("fr, zh-CN;q=0.8, en;q=0.5", "此链接无效，或已经失效。\n"),
        ("ja", "このリンクは無効か、有効期限が切れています。\n"),
    ],
)
async def test_an_invalid_link_answers_in_the_language_of_its_visitor(
    links: MediaLinks, accepted: str, sentence: str
) -> None:
    answer = await get(links, "/media/none", **{"accept-language": accepted})
    assert (answer.status_code, answer.text) == (404, sentence)


async def test_the_link_of_a_deleted_file_gives_not_found(links: MediaLinks, kept: Media) -> None:
    link = links.link(GROUP, kept)
    Path(kept.path).unlink()
    assert (await get(links, link)).status_code == 404


async def test_a_link_opens_only_its_own_file(
    links: MediaLinks, kept: Media, tmp_path: Path, clock: Clock
) -> None:
    (tmp_path / "uploads" / "nekro.sqlite3").write_text("secrets")
    body, _, rest = links.link(GROUP, kept).partition("/media/")[2].partition(".")
    mark = rest.partition("/")[0]

    def signed_by(secret: str, **fields: object) -> str:
        other = MediaLinks(tmp_path, lambda: secret, clock=clock)
        made = base64.urlsafe_b64encode(json.dumps(fields).encode()).decode().rstrip("=")
        return f"/{made}.{other._mark(made)}/x"

    until = int(clock.now) + 50
    for attack in (
        f"/{body}.{'A' * 43}/x",
        f"/{body}A.{mark}/x",
        f"/{body}.{mark}/../../x",
        f"/{body}/x",
        "/",
        "/../nekro.sqlite3",
        signed_by("guessed", file="fake-group_1/" + "a" * 32 + ".pdf", until=until),
        # Even a link with a valid signature gives access to stored media only.
        signed_by("secret", file="../nekro.sqlite3", until=until),
        signed_by("secret", file="nekro.sqlite3", until=until),
        signed_by("secret", file="..%2f" + "a" * 32 + ".pdf", until=until),
    ):
        assert (await get(links, attack)).status_code == 404, attack


async def test_no_link_is_made_without_an_address_or_for_files_outside_the_chats_media(
    links: MediaLinks, kept: Media, tmp_path: Path
) -> None:
    nowhere = MediaLinks(tmp_path, lambda: "secret")
    assert nowhere.link(GROUP, kept) == ""
    assert nowhere.link(GROUP, kept, address="http://10.0.0.5:8080/").startswith(
        "http://10.0.0.5:8080/media/"
    )
    assert links.link(OTHER, kept) == ""
    assert links.link(GROUP, Media(path="/etc/passwd", name="x")) == ""
    assert links.link(GROUP, Media(name="x")) == ""
