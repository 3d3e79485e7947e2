"""Calls one engine through the `docker` package, in threads, each call with a time limit."""

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
"""Longest wait for the beginning of an answer, or for its next part."""
_BUILD_S = 1800
"""The same for fetching and building: one step may be silent for a long time."""
_AT_ONCE = 8
_ANY_VERSION = "1.44"
"""Interface version to ask for the engine's own version; that request is the same in all."""
_POOL = 32


class DockerApiError(BackendUnavailable):
    """The engine answered with a refusal. ``status`` is the HTTP status of the answer."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True, kw_only=True)
class DockerEngineInfo:
    """An engine's information about itself."""

    version: str
    machine: str
    """Its processor, named as by `os.uname`."""
    system: str
    remapped: bool
    """Whether the engine maps user ids (rootless, ``userns-remap``)."""
    memory: int
    """Memory of its machine in bytes."""
    unbounded: tuple[str, ...]
    """The limits that it cannot enforce on its machine."""


class DockerEngine:
    """An open connection. Calls raise `BackendUnavailable`, or `DockerApiError` for a refusal."""

    def __init__(self, client: APIClient, facts: DockerEngineInfo) -> None:
        self.client = client
        self.facts = facts
        self._threads = anyio.CapacityLimiter(_AT_ONCE)

    @classmethod
    async def connect(cls, host: str = "", *, build: bool = False) -> "DockerEngine":
        """Connect to the engine at ``host``, or as ``DOCKER_HOST`` and its related variables say.

        ``build`` is for calls that may take half an hour. Raises `BackendUnavailable`.
        """
        client, facts = await anyio.to_thread.run_sync(
            _translated(_connect), host, _BUILD_S if build else _ANSWER_S
        )
        return cls(client, facts)

    async def ask(
        self, call: Callable[_Args, _Result], *args: _Args.args, **kwargs: _Args.kwargs
    ) -> _Result:
        """Make a blocking call in a thread. A cancelled caller also waits for its end: what the
        engine was told to make must be known, so that it can be removed."""

        def made() -> _Result:
            return _translated(call)(*args, **kwargs)

        return await anyio.to_thread.run_sync(made, limiter=self._threads)

    def close(self) -> None:
        """Close idle connections. Attached streams stay open."""
        self.client.close()


def _translated(call: Callable[_Args, _Result]) -> Callable[_Args, _Result]:
    """Wrap a call so that it raises this room's errors."""

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
    """The message of the root cause of an error that three packages wrapped."""
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
    # Otherwise requests would use REQUESTS_CA_BUNDLE instead of the authority in DOCKER_CERT_PATH.
    client.trust_env = False
    return client


def _knock(address: str) -> None:
    """Try a Unix socket and raise its error: the client would leave its socket open."""
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
