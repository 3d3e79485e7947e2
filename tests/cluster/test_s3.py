"""The object store on S3, on two real servers: moto's, which is simple and keeps versions, and the
gateway of JuiceFS, which is MinIO's code and checks signatures."""

import hashlib
import logging
import resource
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import ClassVar

import anyio
import pytest

from nekro_core.cluster.errors import (
    ClusterMisconfigured,
    ClusterUnavailable,
    ObjectDamaged,
    ObjectMissing,
    ObjectTooLarge,
)
from nekro_core.cluster.s3_address import S3Address
from nekro_core.cluster.s3_objects import S3Objects
from nekro_core.cluster.settings import S3Settings
from tests.faults.line import Line
from tests.peers.s3_servers import (
    BUCKET,
    SECRET_KEY,
    JuiceServer,
    MotoServer,
    S3Server,
    missing,
)

from .conformance import ObjectContract

MIB = 1024 * 1024


def running(server: type[S3Server]) -> Iterator[S3Server]:
    if lacks := missing(server):
        pytest.skip(lacks)
    with server() as started:
        yield started


@pytest.fixture(scope="module")
def moto() -> Iterator[S3Server]:
    yield from running(MotoServer)


@pytest.fixture(scope="module")
def juice() -> Iterator[S3Server]:
    yield from running(JuiceServer)


def address(settings: S3Settings, bucket: str = BUCKET, folder: str = "") -> S3Address:
    folder = folder or uuid.uuid4().hex
    found = S3Address.read(f"s3://{bucket}/{folder}", settings, {})
    assert found is not None
    return found


@asynccontextmanager
async def opened(
    server: S3Server,
    *,
    folder: str = "",
    port: int = 0,
    most_bytes: int = MIB,
    silent_s: float = 20.0,
) -> AsyncIterator[S3Objects]:
    """The object store in a folder of its own of the server's bucket."""
    settings = server.settings(port)
    place = address(settings, folder=folder)
    async with S3Objects.open(place, settings, most_bytes=most_bytes, silent_s=silent_s) as objects:
        yield objects


class TestS3ObjectsOnMoto(ObjectContract):
    @pytest.fixture
    async def objects(self, moto: S3Server) -> AsyncIterator[S3Objects]:
        async with opened(moto) as objects:
            yield objects


class TestS3ObjectsOnJuiceFs(ObjectContract):
    @pytest.fixture
    async def objects(self, juice: S3Server) -> AsyncIterator[S3Objects]:
        async with opened(juice) as objects:
            yield objects


async def test_a_deleted_object_is_in_no_file_of_the_server(
    juice: JuiceServer, tmp_path: Path
) -> None:
    words = b"the vermilion heron"
    source = tmp_path / "source"
    source.write_bytes(words * 1000)
    async with opened(juice) as objects:
        await objects.put("media/a", source)
        assert juice.holds(words)
        assert await objects.delete("media/a")
        with anyio.fail_after(60):  # The server deletes in the background.
            while juice.holds(words):
                await anyio.sleep(0.2)


async def test_in_a_bucket_with_versions_no_version_of_a_deleted_object_is_left(
    tmp_path: Path,
) -> None:
    if lacks := missing(MotoServer):
        pytest.skip(lacks)
    source, folder = tmp_path / "source", "bot"
    with MotoServer() as server:
        server.keep_versions()
        async with opened(server, folder=folder) as objects:
            assert objects.keeps_versions
            assert server.versions(folder) == 0, "the trial of the start leaves nothing"
            for content in (b"first", b"second", b"third"):
                source.write_bytes(content)
                await objects.put("media/a", source)
                await objects.put("media/a-longer", source)
            assert server.versions(f"{folder}/media/a") == 2, "the newest of each"
            assert await objects.delete("media/a") is True
            assert await objects.delete("media/a") is False
            assert await objects.names() == ["media/a-longer"]
            assert server.versions(f"{folder}/media/a") == 1

            # Somebody else deletes an object and names no version: its content stays.
            server.send("DELETE", f"{folder}/media/a-longer")
            assert server.versions(folder) == 2, "the content and the mark"
            with pytest.raises(ObjectMissing):
                await objects.fetch("media/a-longer", tmp_path / "target")
            assert await objects.delete("media/a-longer") is True
            assert server.versions(folder) == 0


async def test_an_object_is_deleted_whole_if_the_bucket_began_to_keep_versions_meanwhile(
    tmp_path: Path,
) -> None:
    if lacks := missing(MotoServer):
        pytest.skip(lacks)
    source = tmp_path / "source"
    source.write_bytes(b"content")
    with MotoServer() as server:
        async with opened(server, folder="bot") as objects:
            await objects.put("media/a", source)
            server.keep_versions()
            assert await objects.delete("media/a") is True
            assert server.versions("bot") == 0


async def test_an_object_whose_content_has_changed_is_not_used(
    moto: MotoServer, tmp_path: Path
) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(b"what was stored")
    target.write_bytes(b"as before")
    async with opened(moto, folder="damaged") as objects:
        await objects.put("media/a", source)
        digest = hashlib.sha256(b"what was stored").hexdigest()
        kept = {"x-amz-meta-sha256": digest}
        moto.send("PUT", "damaged/media/a", b"what was st0red", kept)
        with pytest.raises(ObjectDamaged, match="its content has changed"):
            await objects.fetch("media/a", target)
    assert target.read_bytes() == b"as before"
    assert [each.name for each in tmp_path.iterdir() if each.name.startswith(".")] == []


async def test_an_object_that_is_too_large_is_not_fetched(moto: MotoServer, tmp_path: Path) -> None:
    async with opened(moto, folder="large") as objects:
        moto.send("PUT", "large/media/a", b"x" * (MIB + 1))
        with pytest.raises(ObjectTooLarge, match="more than 1048576 bytes"):
            await objects.fetch("media/a", tmp_path / "target")
    assert [*tmp_path.iterdir()] == []


async def test_objects_whose_names_are_not_of_the_bot_are_not_listed(
    moto: MotoServer, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"x")
    async with opened(moto, folder="mine") as objects:
        await objects.put("media/a", source)
        for key in ("mine/a%20b", "mine/%C3%A4", "mine/.hidden", "mine/media/", "mine2/media/b"):
            moto.send("PUT", key, b"x")
        assert await objects.names() == ["media/a"]


@pytest.mark.long
async def test_more_than_one_page_of_objects_is_listed(moto: MotoServer, tmp_path: Path) -> None:
    async with opened(moto, folder="many") as objects:
        for number in range(1001):
            moto.send("PUT", f"many/media/{number:04}", b"")
        names = await objects.names("media/")
    assert names == [f"media/{number:04}" for number in range(1001)]


@pytest.mark.parametrize("server", ["moto", "juice"])
async def test_a_bucket_that_does_not_exist_is_named(
    request: pytest.FixtureRequest, server: str
) -> None:
    running: S3Server = request.getfixturevalue(server)
    settings = running.settings()
    with pytest.raises(ClusterMisconfigured) as refused:
        async with S3Objects.open(address(settings, "another-bucket"), settings):
            pass
    assert "s3://another-bucket/" in str(refused.value)
    assert "NoSuchBucket" in str(refused.value)
    assert "make the bucket, or check NEKRO_CLUSTER_OBJECTS" in str(refused.value)


async def test_wrong_credentials_are_refused_and_not_shown(juice: JuiceServer) -> None:
    settings = juice.settings(secret_key="hidden and wrong")
    with pytest.raises(ClusterMisconfigured) as refused:
        async with S3Objects.open(address(settings), settings):
            pass
    assert "SignatureDoesNotMatch" in str(refused.value)
    assert "check NEKRO_S3__SECRET_KEY" in str(refused.value)
    assert "hidden" not in str(refused.value)
    unknown = settings.model_copy(update={"access_key": settings.secret_key})
    with pytest.raises(ClusterMisconfigured, match="check NEKRO_S3__ACCESS_KEY"):
        async with S3Objects.open(address(unknown), unknown):
            pass


async def test_credentials_that_the_settings_lack_come_from_the_variables_of_aws(
    juice: JuiceServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "nekro")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    settings = S3Settings(endpoint=juice.endpoint)
    async with S3Objects.open(address(settings), settings) as objects:
        assert await objects.names() == []


async def test_missing_credentials_are_named(
    juice: JuiceServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    settings = S3Settings(endpoint=juice.endpoint)
    with pytest.raises(ClusterMisconfigured, match="there are no credentials for S3: set NEKRO_S3"):
        async with S3Objects.open(address(settings), settings):
            pass
    half = S3Settings.model_validate({"endpoint": juice.endpoint, "access_key": "nekro"})
    with pytest.raises(ClusterMisconfigured, match="the other is not: set both, or neither"):
        async with S3Objects.open(address(half), half):
            pass


async def test_a_server_that_is_away_is_unavailable_and_then_used_again(
    juice: JuiceServer, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"x" * 300_000)
    async with Line(juice.port) as line, opened(juice, port=line.port) as objects:
        await objects.put("media/a", source)
        juice.stop()
        with pytest.raises(ClusterUnavailable, match="does not answer"):
            await objects.put("media/b", source)
        with pytest.raises(ClusterUnavailable, match="does not answer"):
            await objects.fetch("media/a", tmp_path / "target")
        settings = juice.settings()
        with pytest.raises(ClusterUnavailable, match="check that it runs"):
            async with S3Objects.open(address(settings), settings):
                pass
        juice.start()
        await objects.put("media/b", source)
        assert await objects.names() == ["media/a", "media/b"]


async def test_a_connection_that_breaks_in_the_middle_is_made_again(
    juice: JuiceServer, tmp_path: Path
) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(b"a" * 300_000 + b"the marked place" + b"b" * 300_000)
    async with Line(juice.port) as line, opened(juice, port=line.port) as objects:
        line.ends_before = b"the marked place"
        await objects.put("media/a", source)
        assert line.ends_before == b"", "the connection was cut"
        line.ends_before = b"the marked place"
        assert await objects.fetch("media/a", target) == 600_016
        assert line.ends_before == b"", "the connection was cut"
    assert target.read_bytes() == source.read_bytes()


async def test_a_request_to_a_silent_server_fails_after_a_while(
    juice: JuiceServer, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"x")
    async with Line(juice.port) as line, opened(juice, port=line.port, silent_s=0.3) as objects:
        line.freeze()
        with anyio.fail_after(20), pytest.raises(ClusterUnavailable, match="does not answer"):
            await objects.put("media/a", source)
        line.thaw()
        await objects.put("media/a", source)


async def test_a_server_with_tls_must_have_a_certificate_that_is_trusted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if lacks := missing(MotoServer):
        pytest.skip(lacks)
    with MotoServer(tls=True) as server:
        with pytest.raises(ClusterMisconfigured, match="SSL_CERT_FILE names the authority's file"):
            async with opened(server):
                pass
        monkeypatch.setenv("SSL_CERT_FILE", str(server.certificate))
        source = tmp_path / "source"
        source.write_bytes(b"encrypted on its way")
        async with opened(server) as objects:
            await objects.put("media/a", source)
            assert await objects.names() == ["media/a"]


@pytest.mark.long
async def test_a_large_file_is_never_in_memory_as_a_whole(
    juice: JuiceServer, tmp_path: Path
) -> None:
    size = 300 * MIB
    source, target = tmp_path / "source", tmp_path / "target"
    with source.open("wb") as file:
        file.truncate(size)
    async with opened(juice, most_bytes=size) as objects:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        await objects.put("boxes/a", source)
        assert await objects.fetch("boxes/a", target) == size
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
        await objects.delete("boxes/a")
    print(f"{size // MIB} MiB there and back: {grown:.0f} MiB more memory at the peak")
    assert grown < 64


class _Lines(logging.Handler):
    lines: ClassVar[list[str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


async def test_no_log_line_has_the_secret(juice: JuiceServer, tmp_path: Path) -> None:
    handler = _Lines(level=logging.DEBUG)
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        async with opened(juice) as objects:
            await objects.names()
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
    assert any("CanonicalRequest" in line for line in handler.lines), "botocore was heard"
    assert not [line for line in handler.lines if SECRET_KEY in line]
