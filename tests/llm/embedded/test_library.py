"""An operator downloads, copies, lists and removes model files of their own."""

import hashlib
import struct
from contextlib import suppress
from pathlib import Path

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nekro_core.llm.embedded.gguf import read_gguf
from nekro_core.llm.embedded.library import ModelFiles, machine_memory
from nekro_core.llm.embedded.weights import DownloadProgress, WeightsError
from tests.llm.embedded.hub_and_index import Site, serving


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def header(**numbers: int) -> bytes:
    """The header of a model file, with a list of tokens among its values."""
    values = [text("general.architecture") + struct.pack("<I", 8) + text("qwen2")]
    values.append(text("general.name") + struct.pack("<I", 8) + text("A small one"))
    tokens = struct.pack("<IIQ", 9, 8, 2) + text("a") + text("b")
    values.append(text("tokenizer.ggml.tokens") + tokens)
    for name, number in numbers.items():
        key = f"qwen2.{name.replace('__', '.')}"
        values.append(text(key) + struct.pack("<II", 4, number))
    return b"GGUF" + struct.pack("<IQQ", 3, 0, len(values)) + b"".join(values)


SMALL = header(
    block_count=24,
    embedding_length=896,
    attention__head_count=14,
    attention__head_count_kv=2,
    context_length=32768,
)
FILE = SMALL + bytes(300_000)
MODEL = "/someone/small/resolve/main/small.gguf"


@pytest.fixture
def files(tmp_path: Path) -> ModelFiles:
    return ModelFiles(tmp_path / "models")


def hub(**changes) -> Site:
    return Site(hub_file=FILE, hub_sha256=hashlib.sha256(FILE).hexdigest(), **changes)


async def test_the_memory_that_a_downloaded_file_needs_is_known_and_progress_is_reported(
    files: ModelFiles,
) -> None:
    told: list[DownloadProgress] = []
    with serving(hub()) as site:
        path = await files.download(f"{site.url}{MODEL}", told.append)
    assert path.read_bytes() == FILE
    assert (told[-2].done, told[-2].total) == (len(FILE), len(FILE))
    (found,) = await files.all()
    assert found.info is not None
    assert (found.name, found.info.name, found.known) == ("small.gguf", "A small one", False)
    assert found.info.context_tokens == 32768
    assert found.info.cache_bytes == 24 * 2 * (64 + 64) * 2
    # 1,000 tokens need 36 MB, as the documentation of the settings says.
    assert 36e6 < found.info.memory(1000) - found.bytes < 37e6
    assert machine_memory().total > found.info.memory(2048)


async def test_a_download_that_was_cancelled_continues_where_it_stopped(files: ModelFiles) -> None:
    with serving(hub()) as site:
        url = f"{site.url}{MODEL}"

        def stop(progress: DownloadProgress) -> None:
            if progress.done > 1000:
                scope.cancel()

        with anyio.CancelScope() as scope:
            await files.download(url, stop)
        assert scope.cancelled_caught
        assert await files.all() == []
        site.requests.clear()
        await files.download(url, lambda _: None)
        begun = next(each for each in site.requests if each.startswith("GET /storage"))
        assert "bytes=0-" not in begun
    assert [each.name for each in await files.all()] == ["small.gguf"]


async def test_a_download_is_continued_after_its_connection_has_broken(files: ModelFiles) -> None:
    with serving(hub(break_after=[1000, 50_000])) as site:
        path = await files.download(f"{site.url}{MODEL}", lambda _: None)
    assert path.read_bytes() == FILE


async def test_a_file_with_another_hash_is_refused(files: ModelFiles) -> None:
    with serving(hub()) as site, pytest.raises(WeightsError, match="expected 0000"):
        await files.download(f"{site.url}{MODEL}", lambda _: None, sha256="0" * 64)
    assert await files.all() == []


async def test_a_file_that_is_not_a_model_is_refused(files: ModelFiles) -> None:
    page = b"<html>" * 100
    site = Site(hub_file=page, hub_sha256=hashlib.sha256(page).hexdigest())
    with serving(site), pytest.raises(WeightsError, match="is no GGUF file"):
        await files.download(f"{site.url}{MODEL}", lambda _: None)
    assert await files.all() == []


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("ftp://x/small.gguf", "no address"),
        ("http://127.0.0.1:9/small.gguf", "continues where it stopped"),
        ("http://127.0.0.1:9/..%2fsmall.gguf", "the name"),
        ("http://127.0.0.1:9/small.bin", "the name"),
        ("http://127.0.0.1:9/", "the name"),
    ],
)
async def test_an_impossible_address_is_refused(files: ModelFiles, url: str, says: str) -> None:
    with pytest.raises(WeightsError, match=says):
        await files.download(url, lambda _: None)


async def test_a_file_that_the_server_does_not_have_is_reported(files: ModelFiles) -> None:
    with serving(Site()) as site, pytest.raises(WeightsError, match="answers 404"):
        await files.download(f"{site.url}{MODEL}", lambda _: None)


async def test_a_file_of_this_machine_is_copied_and_removed(
    files: ModelFiles, tmp_path: Path
) -> None:
    source = tmp_path / "mine.gguf"
    source.write_bytes(FILE)
    path = await files.copy(source, lambda _: None)
    assert files.path("mine.gguf") == path
    with pytest.raises(WeightsError, match="already"):
        await files.copy(source, lambda _: None)
    await files.remove("mine.gguf")
    assert source.exists()
    assert [*(tmp_path / "models").iterdir()] == []
    with pytest.raises(WeightsError, match="no model file"):
        await files.remove("mine.gguf")
    (tmp_path / "text.gguf").write_text("hello", "utf-8")
    with pytest.raises(WeightsError, match="no GGUF file"):
        await files.copy(tmp_path / "text.gguf", lambda _: None)
    with pytest.raises(WeightsError, match="the name"):
        files.path("../mine.gguf")


async def test_a_broken_file_in_the_folder_is_listed_with_its_problem(
    files: ModelFiles, tmp_path: Path
) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "broken.gguf").write_bytes(SMALL[:40])
    (found,) = await files.all()
    assert found.info is None
    assert "broken.gguf" in found.problem


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=200), st.integers(0, len(SMALL)))
def test_any_header_is_read_or_refused(tmp_path_factory, rest: bytes, cut: int) -> None:
    path = tmp_path_factory.mktemp("gguf") / "any.gguf"
    path.write_bytes(SMALL[:cut] + rest)
    with suppress(WeightsError):
        assert read_gguf(path).bytes == cut + len(rest)
