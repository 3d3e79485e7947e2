"""Calls a Docker engine through the `docker` package. Calls run in threads, and each has a time
limit."""

import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

import anyio
import anyio.to_thread
import docker
import docker.constants
import docker.errors
import docker.utils
import requests
from docker.api.client import APIClient

from nekro_core.sandbox.box import BackendUnavailable

_Args = ParamSpec("_Args")
_Result = TypeVar("_Result")

_ANSWER_S = 30
"""Longest wait for the beginning of an answer, and for each next part of it, in seconds."""
_BUILD_S = 1800
"""The same wait while the engine pulls or builds an image. It is longer, because the engine may
write no output during a step."""
_AT_ONCE = 8
_ANY_VERSION = "1.44"
"""API version of the first request, which asks for the engine's own API version. This request is
the same in all versions."""
_POOL = 32


class DockerApiError(BackendUnavailable):
    """The engine answered with an error. ``status`` is the HTTP status of the answer."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True, kw_only=True)
class DockerEngineInfo:
    """What an engine reports about itself and its machine."""

    version: str
    machine: str
    """The processor architecture of the engine's machine, for example ``x86_64``."""
    system: str
    remapped: bool
    """Whether the engine maps user ids (rootless, ``userns-remap``)."""
    memory: int
    """Memory of the engine's machine in bytes."""
    unbounded: tuple[str, ...]
    """The limits that the engine cannot enforce on its machine."""


class DockerEngine:
    """An open connection to an engine. Calls raise `BackendUnavailable`, and its subclass
    `DockerApiError` if the engine answers with an error."""

    def __init__(self, client: APIClient, facts: DockerEngineInfo) -> None:
        self.client = client
        self.facts = facts
        self._threads = anyio.CapacityLimiter(_AT_ONCE)

    @classmethod
    async def connect(cls, host: str = "", *, build: bool = False) -> "DockerEngine":
        """Connect to the engine at ``host``. If ``host`` is empty, connect to the engine that
        ``DOCKER_HOST`` and related variables name.

        With ``build``, a call may wait half an hour for the engine. Raises `BackendUnavailable`.
        """
        client, facts = await anyio.to_thread.run_sync(
            _translated(_connect), host, _BUILD_S if build else _ANSWER_S
        )
        return cls(client, facts)

    async def ask(
        self, call: Callable[_Args, _Result], *args: _Args.args, **kwargs: _Args.kwargs
    ) -> _Result:
        """Make a blocking call in a thread. A cancelled caller still waits for the end of the call.
        Then it knows what the engine has made and can remove that."""

        def made() -> _Result:
            return _translated(call)(*args, **kwargs)

        return await anyio.to_thread.run_sync(made, limiter=self._threads)

    def close(self) -> None:
        """Close idle connections. Attached streams stay open."""
        self.client.close()


def _translated(call: Callable[_Args, _Result]) -> Callable[_Args, _Result]:
    """Wrap a call so that it raises `DockerApiError` or `BackendUnavailable`."""

    def translated(*args: _Args.args, **kwargs: _Args.kwargs) -> _Result:
        try:
            return call(*args, **kwargs)
        except docker.errors.APIError as error:
            said = str(error.explanation or error)
            raise DockerApiError(f"the engine refused: {said}", error.status_code or 0) from error
        except (
            docker.errors.DockerException,
            requests.exceptions.RequestException,
            OSError,
        ) as error:
            raise BackendUnavailable(f"no answer from an engine: {_innermost(error)}") from error

    return translated


def _innermost(error: BaseException) -> str:
    """Return the message of the first error in the chain of causes. Three packages wrap this error,
    one after another, each in an error of its own."""
    while (inner := error.__cause__ or error.__context__) is not None:
        error = inner
    return str(error) or type(error).__name__


def _connect(host: str, timeout_s: int) -> tuple[APIClient, DockerEngineInfo]:
    environment = dict(os.environ)
    if host:
        environment["DOCKER_HOST"] = host
    settings = {
        **docker.utils.kwargs_from_env(environment=environment),
        "timeout": timeout_s,
        "max_pool_size": _POOL,
    }
    _knock(str(settings.get("base_url") or docker.constants.DEFAULT_UNIX_SOCKET))
    asking = _open(_ANY_VERSION, settings)
    try:
        version = asking.version(api_version=False)["ApiVersion"]
    finally:
        asking.close()
    client = _open(version, settings)
    try:
        return client, _read_facts(client.info())
    except BaseException:
        client.close()
        raise


def _open(version: str, settings: dict[str, Any]) -> APIClient:
    client = APIClient(version=version, **settings)
    # If `trust_env` were true, requests would use REQUESTS_CA_BUNDLE instead of the CA in
    # DOCKER_CERT_PATH.
    client.trust_env = False
    return client


def _knock(address: str) -> None:
    """Connect once to a Unix socket, and raise the error if that fails. Without this check, the
    client would not close its socket after such an error."""
    scheme, _, path = address.partition("://")
    if scheme.endswith("unix") and hasattr(socket, "AF_UNIX"):
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(_ANSWER_S)
            probe.connect("/" + path.lstrip("/"))


def _read_facts(info: dict[str, Any]) -> DockerEngineInfo:
    options = " ".join(info.get("SecurityOptions") or ())
    bounds = {"memory": "MemoryLimit", "processes": "PidsLimit", "processors": "CpuCfsQuota"}
    return DockerEngineInfo(
        version=str(info.get("ServerVersion", "")),
        machine=str(info.get("Architecture", "")),
        system=str(info.get("OSType", "")),
        remapped="name=userns" in options or "name=rootless" in options,
        memory=int(info.get("MemTotal") or 0),
        unbounded=tuple(name for name, key in bounds.items() if not info.get(key)),
    )
