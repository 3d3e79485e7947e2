"""What the object store does when the S3 server refuses a request or cannot answer it. The answers
are those of Amazon's documentation ("Error responses" of the S3 API reference) and of MinIO."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import parse_qs

import anyio
import pytest
from anyio.abc import SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

from nekro_core.cluster.errors import ClusterMisconfigured, ClusterUnavailable
from nekro_core.cluster.s3_address import S3Address
from nekro_core.cluster.s3_answers import S3Refused
from nekro_core.cluster.s3_objects import S3Objects
from nekro_core.cluster.s3_requests import S3Requests
from nekro_core.cluster.settings import S3Settings
from tests.peers.listening import LoopbackServer, Request, read_request

EMPTY_LIST = b"<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>"


def error(code: str, message: str = "") -> bytes:
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{code}</Code>'
        f"<Message>{message}</Message><RequestId>4442587FB7D0A2F9</RequestId></Error>"
    ).encode()


class ScriptedS3(LoopbackServer):
    """Gives the answers of a script, each a status and a body, and the last one again and again."""

    def __init__(self, *script: tuple[int, bytes], headers: str = "") -> None:
        super().__init__()
        self._script = list(script)
        self._headers = headers
        self.requests: list[Request] = []

    async def serve(self, stream: SocketStream, reader: BufferedByteReceiveStream) -> bool:
        self.requests.append(await read_request(reader))
        status, body = self._script.pop(0) if len(self._script) > 1 else self._script[0]
        head = f"HTTP/1.1 {status} S3\r\nContent-Length: {len(body)}\r\n{self._headers}\r\n"
        await stream.send(head.encode() + body)
        return True


def settings(server: LoopbackServer) -> S3Settings:
    return S3Settings.model_validate(
        {
            "endpoint": server.base_url.removesuffix("/v1"),
            "access_key": "nekro",
            "secret_key": "hidden",
        }
    )


def bucket(server: LoopbackServer) -> S3Address:
    found = S3Address.read("s3://nekro-objects", settings(server), {})
    assert found is not None
    return found


@asynccontextmanager
async def objects_of(server: LoopbackServer) -> AsyncIterator[S3Objects]:
    """The object store, opened without the requests that try the bucket out at the start."""
    async with S3Requests.open(bucket(server), settings(server)) as requests:
        yield S3Objects(bucket(server), requests)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source"
    path.write_bytes(b"a picture")
    return path


async def test_a_busy_server_is_asked_again(source: Path) -> None:
    busy = (503, error("SlowDown", "Please reduce your request rate."))
    async with (
        ScriptedS3(busy, (500, error("InternalError")), (200, b"")) as server,
        objects_of(server) as objects,
    ):
        await objects.put("media/a", source)
        assert [each.body for each in server.requests] == [b"a picture"] * 3
        assert all(each.headers["content-length"] == "9" for each in server.requests)


async def test_a_server_that_stays_busy_is_asked_three_times(source: Path) -> None:
    async with (
        ScriptedS3((503, error("SlowDown", "Please reduce your request rate."))) as server,
        objects_of(server) as objects,
    ):
        with pytest.raises(ClusterUnavailable, match="SlowDown"):
            await objects.put("media/a", source)
        assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (507, error("XMinioStorageFull", "Storage backend has reached its minimum free drive")),
        (507, b"<html>no XML of S3"),
        (403, error("QuotaExceeded")),
    ],
)
async def test_the_error_says_that_the_object_store_is_full_and_it_is_asked_only_once(
    source: Path, status: int, body: bytes
) -> None:
    async with ScriptedS3((status, body)) as server, objects_of(server) as objects:
        with pytest.raises(ClusterUnavailable, match="the object store is full"):
            await objects.put("media/a", source)
        assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("status", "body", "says"),
    [
        (403, error("RequestTimeTooSkewed"), "this machine's clock is wrong"),
        (403, error("AccessDenied", "Access Denied"), "the credentials need s3:ListBucket"),
        (403, error("InvalidAccessKeyId"), "check NEKRO_S3__ACCESS_KEY"),
        (404, error("NoSuchBucket"), "make the bucket"),
        (301, b"", "set NEKRO_S3__REGION"),
        (
            400,
            error("AuthorizationHeaderMalformed").replace(
                b"</Error>", b"<Region>eu-west-1</Region></Error>"
            ),
            "set NEKRO_S3__REGION=eu-west-1",
        ),
    ],
)
async def test_a_refusal_that_lasts_ends_the_start_at_once_with_an_error_that_names_the_remedy(
    status: int, body: bytes, says: str
) -> None:
    async with ScriptedS3((status, body)) as server:
        with pytest.raises(ClusterMisconfigured) as refused:
            async with S3Objects.open(bucket(server), settings(server)):
                pass
        assert len(server.requests) == 1
    assert says in str(refused.value)
    assert "hidden" not in str(refused.value)


async def test_a_missing_permission_to_read_objects_is_noticed_at_the_start() -> None:
    listed = (200, EMPTY_LIST)
    async with ScriptedS3(
        listed, listed, (200, b""), (403, error("AccessDenied", "not authorized to s3:GetObject"))
    ) as server:
        with pytest.raises(ClusterMisconfigured, match="not authorized to s3:GetObject"):
            async with S3Objects.open(bucket(server), settings(server)):
                pass


class MemoryS3(LoopbackServer):
    """Keeps objects, and refuses the methods ``refused`` for objects as Amazon does if the
    credentials lack a permission. It has no versions.

    Without ``ends``, no answer says where it ends. The connection stays open after an answer to
    another method than GET.
    """

    def __init__(self, *refused: str, ends: bool = True) -> None:
        super().__init__()
        self.objects: dict[str, Request] = {}
        self._refused = refused
        self._ends = ends

    async def serve(self, stream: SocketStream, reader: BufferedByteReceiveStream) -> bool:
        request = await read_request(reader)
        status, body, headers = self._answer(request)
        if self._ends and status != 204:
            headers += f"Content-Length: {len(body)}\r\n"
        await stream.send(f"HTTP/1.1 {status} S3\r\n{headers}\r\n".encode() + body)
        # The end of a list or an object is the end of the connection.
        return self._ends or request.method != "GET"

    def _answer(self, request: Request) -> tuple[int, bytes, str]:
        path, _, query = request.path.partition("?")
        key = path.removeprefix("/nekro-objects/")
        if query and request.method == "GET":
            if "list-type=2" not in query:
                return 200, b"<VersioningConfiguration/>", ""
            prefix = parse_qs(query).get("prefix", [""])[0]
            keys = sorted(each for each in self.objects if each.startswith(prefix))
            listed = "".join(f"<Contents><Key>{each}</Key></Contents>" for each in keys)
            return 200, f"<ListBucketResult>{listed}</ListBucketResult>".encode(), ""
        if request.method in self._refused:
            names = {"PUT": "Put", "GET": "Get", "DELETE": "Delete"}
            action = f"s3:{names[request.method]}Object"
            return 403, error("AccessDenied", f"not authorized to perform: {action}"), ""
        if request.method == "PUT":
            self.objects[key] = request
            return 200, b"", ""
        if request.method == "DELETE":
            self.objects.pop(key, None)
            return (204 if self._ends else 200), b"", ""
        if key not in self.objects:
            return 404, error("NoSuchKey"), ""
        stored = self.objects[key]
        digest = stored.headers["x-amz-meta-sha256"]
        return 200, stored.body, f"x-amz-meta-sha256: {digest}\r\n"


async def test_a_bucket_with_all_permissions_is_accepted_and_nothing_is_left_in_it() -> None:
    async with (
        MemoryS3() as server,
        S3Objects.open(bucket(server), settings(server)) as objects,
    ):
        assert server.objects == {}
        assert not objects.keeps_versions


@pytest.mark.parametrize(
    ("method", "permission"),
    [("PUT", "s3:PutObject"), ("GET", "s3:GetObject"), ("DELETE", "s3:DeleteObject")],
)
async def test_the_start_ends_with_an_error_that_names_the_permission_that_is_missing(
    method: str, permission: str
) -> None:
    async with MemoryS3(method) as server:
        with pytest.raises(ClusterMisconfigured) as refused:
            async with S3Objects.open(bucket(server), settings(server)):
                pass
    assert f"not authorized to perform: {permission})" in str(refused.value)
    assert "cannot be used" in str(refused.value)
    assert "the credentials need" in str(refused.value)


async def test_an_answer_that_does_not_say_where_it_ends_keeps_no_request_waiting(
    source: Path, tmp_path: Path
) -> None:
    """The answers to PUT and DELETE have no Content-Length, and the connection stays open."""
    async with (
        MemoryS3(ends=False) as server,
        S3Objects.open(bucket(server), settings(server)) as objects,
    ):
        await objects.put("media/a", source)
        assert await objects.fetch("media/a", tmp_path / "copy") == 9
        assert await objects.delete("media/a") is True
        assert server.objects == {}


class ChunkedS3(LoopbackServer):
    """Sends an object of 32 MiB in chunks, the last of them ``pause_s`` seconds after the others.
    Such an answer does not say how large the object is."""

    def __init__(self, pause_s: float) -> None:
        super().__init__()
        self._pause_s = pause_s

    async def serve(self, stream: SocketStream, reader: BufferedByteReceiveStream) -> bool:
        await read_request(reader)
        await stream.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for number in range(32):
            if number == 31:
                await anyio.sleep(self._pause_s)
            await stream.send(b"100000\r\n" + b"x" * 1024**2 + b"\r\n")
        await stream.send(b"0\r\n\r\n")
        return True


@pytest.mark.long
async def test_the_time_limit_of_an_object_that_comes_in_chunks_grows_with_what_has_come(
    tmp_path: Path,
) -> None:
    """The limit is 8 s at first, and 39 s when the pause begins."""
    with (tmp_path / "copy").open("wb") as copy:
        async with (
            ChunkedS3(pause_s=9.0) as server,
            S3Requests.open(bucket(server), settings(server)) as requests,
        ):
            got = await requests.download("media/a", copy, 64 * 1024**2, least_s=8.0)
    assert got.size == 32 * 1024**2


async def test_a_refusal_that_does_not_say_where_it_ends_is_understood(source: Path) -> None:
    async with MemoryS3("PUT", ends=False) as server, objects_of(server) as objects:
        with pytest.raises(S3Refused, match="s3:PutObject"):
            await objects.put("media/a", source)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"<html><body>Welcome</html>", "is no XML"),
        (b"", "is no XML"),
        (
            b'<!DOCTYPE a [<!ENTITY b "bbbb"><!ENTITY c "&b;&b;&b;&b;">]><ListBucketResult/>',
            "defines entities",
        ),
        ("<a/>".encode("utf-16"), "defines entities"),
        (b"x" * (8 * 1024**2 + 1), "more than 8388608 bytes"),
    ],
)
async def test_an_answer_that_is_not_of_s3_is_refused(body: bytes, says: str) -> None:
    async with ScriptedS3((200, body)) as server, objects_of(server) as objects:
        with pytest.raises(ClusterUnavailable, match=says):
            await objects.names()


async def test_a_list_that_never_ends_is_given_up() -> None:
    page = (
        b"<ListBucketResult><IsTruncated>true</IsTruncated>"
        b"<NextContinuationToken>again</NextContinuationToken>"
        b"<Contents><Key>media/a</Key></Contents></ListBucketResult>"
    )
    async with ScriptedS3((200, page)) as server, objects_of(server) as objects:
        with pytest.raises(ClusterUnavailable, match="does not end"):
            await objects.names()
        assert len(server.requests) == 2


async def test_after_three_error_pages_of_a_proxy_the_error_names_their_status(
    source: Path,
) -> None:
    async with (
        ScriptedS3((502, b"<html>bad gateway</html>")) as server,
        objects_of(server) as objects,
    ):
        with pytest.raises(S3Refused, match="answers status 502"):
            await objects.put("media/a", source)
        assert len(server.requests) == 3
