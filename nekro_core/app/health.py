"""Checks the parts of the bot on this machine, and says how to repair the parts that do not work.
``nekro doctor`` and the console's first page show the findings.

The checks read the same settings as the bot. They change only one thing: if no bot runs, a database
of an older version is migrated, as at the start of the bot. They use the real parts: they start a
box, generate speech and ask the model.
"""

import platform
import shutil
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path

import anyio
import httpx

from nekro_core.agent.turn.code_stream import misread_samples
from nekro_core.app.instance import PortTaken, bind_listener, find_running_instance
from nekro_core.app.platform_control import read_enabled
from nekro_core.app.settings import Settings
from nekro_core.delivery.accounts import FILE_NAME as ACCOUNTS
from nekro_core.delivery.accounts import read_names
from nekro_core.llm.embedded.fetch import find_weights
from nekro_core.llm.embedded.weights import WeightsError
from nekro_core.llm.http_model import HttpChatModel
from nekro_core.llm.model import ChatRequest, ModelError, PromptMessage
from nekro_core.media.errors import MediaError
from nekro_core.media.self_check import unconfined_abilities
from nekro_core.operator.health import Finding
from nekro_core.policy import PolicyOverrides
from nekro_core.policy.overrides_file import FILE_NAME as CONDUCT
from nekro_core.sandbox.backends import make_backends
from nekro_core.sandbox.box import BackendUnavailable
from nekro_core.sandbox.box_packages import SharedPackages
from nekro_core.sandbox.jail.container import ContainerLimits
from nekro_core.speech.choose import open_speaker, open_transcriber
from nekro_core.speech.speaker import SpeechError
from nekro_core.speech.wav import PcmSound, write_wav
from nekro_core.store import DataFolderInUse, DataFolderLock, Store, StoreError
from nekro_core.system.confinement.bpf import MACHINES

_NEEDED_BYTES = 1_500_000_000
"""Disk space in bytes that is needed for the database, for uploads, and for the model's weights.
The weights are downloaded in pieces, and need more space while the pieces are joined."""
_MODEL_S = 20.0


async def examine(settings: Settings) -> AsyncIterator[Finding]:
    """Run all checks one after another. Yields the findings of a check before the next check
    starts."""
    yield Finding(
        area="system",
        ok=sys.platform == "linux",
        seen=f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
        remedy="the jail needs Linux; elsewhere the bot runs no code",
    )
    if container := ContainerLimits.find():
        yield Finding(area="container", ok=None, seen=container.describe())
    yield code_stream()
    yield _disk(settings.nekro_data_dir)
    yield await _process(settings)
    yield await _database(settings)
    if (objects := await _objects(settings)) is not None:
        yield objects
    async for finding in _boxes(settings):
        yield finding
    yield await _model(settings)
    yield await _voice(settings)
    yield await _decoders()
    for finding in await _hearing(settings):
        yield finding
    for finding in _adapters(settings):
        yield finding
    for finding in _secrets(settings.nekro_data_dir):
        yield finding
    for finding in _files_of_operators(settings.nekro_data_dir):
        yield finding


def quick_problems(settings: Settings, problem_of_settings: str) -> tuple[Finding, ...]:
    """Run the checks that start nothing, send no requests and take less than a millisecond. Returns
    the problems. ``problem_of_settings`` says what is wrong with the files of settings; empty if
    nothing is wrong."""
    data = settings.nekro_data_dir
    found = [_disk(data), *_adapters(settings), *_files_of_operators(data)]
    if problem_of_settings:
        remedy = "correct the file; until then the last good settings stay in force"
        found.append(Finding(area="settings", ok=False, seen=problem_of_settings, remedy=remedy))
    return tuple(each for each in found if each.ok is False)


def code_stream() -> Finding:
    """Check that this Python splits code into statements correctly. Some builds of Python do
    not."""
    if wrong := misread_samples():
        return Finding(
            area="code",
            ok=False,
            seen=f"this Python cuts replies of the model wrongly, one of them is {wrong[0]!r}",
            remedy="use another build of Python: bring the system's up to date, or name another: "
            "make clean, then make run PYTHON=python3.12",
        )
    return Finding(
        area="code", ok=True, seen="replies are cut into their statements as they should"
    )


def _files_of_operators(data: Path) -> Iterator[Finding]:
    """Check the files that a running bot reads again when an operator changes them. While such a
    file is invalid, the bot continues to use the file's last valid content."""
    readers: Mapping[str, Callable[[Path], object]] = {
        CONDUCT: lambda path: PolicyOverrides.parse(path.read_text("utf-8")),
        ACCOUNTS: read_names,
    }
    for name, read in readers.items():
        path = data / name
        if not path.exists():
            continue
        try:
            read(path)
        except (OSError, ValueError) as error:
            remedy = f"correct {path}: docs/{'commands' if name == CONDUCT else 'accounts'}.md"
            yield Finding(area=name, ok=False, seen=str(error), remedy=remedy)
        else:
            yield Finding(area=name, ok=True, seen="is read")


def _adapters(settings: Settings) -> Iterator[Finding]:
    """Show which adapters start with the bot. Problems during the start of an adapter are in the
    bot's log."""
    found = settings.adapters
    wanted = (*settings.nekro_platforms, *read_enabled(settings.nekro_data_dir))
    names = ", ".join(each.name for each in found.enabled(wanted))
    yield Finding(area="adapters", ok=True, seen=f"{names} run with the bot")
    for problem in (*found.problems, *found.unknown(wanted)):
        remedy = "see docs/adapters.md; the bot runs without it"
        yield Finding(area="adapters", ok=False, seen=problem, remedy=remedy)


def _disk(data: Path) -> Finding:
    there = next(path for path in (data.absolute(), *data.absolute().parents) if path.exists())
    free = shutil.disk_usage(there).free
    return Finding(
        area="disk",
        ok=free > _NEEDED_BYTES,
        seen=f"{free / 1e9:.1f} GB free under {data}",
        remedy=f"free some space: {_NEEDED_BYTES / 1e9:.1f} GB are needed, most of it for weights",
    )


async def _process(settings: Settings) -> Finding:
    if place := find_running_instance(settings.nekro_data_dir):
        try:
            async with httpx.AsyncClient(timeout=3.0, trust_env=False) as client:
                await client.get(place.address)
        except httpx.HTTPError as error:
            return Finding(
                area="bot",
                ok=False,
                seen=f"process {place.pid} should answer at {place.address}: {error!r}",
                remedy="read its log; if it is stuck, end that process and start the bot again",
            )
        return Finding(area="bot", ok=True, seen=f"runs at {place.address}, process {place.pid}")
    try:
        bind_listener(str(settings.host), settings.port).close()
    except PortTaken as error:
        return Finding(area="bot", ok=False, seen="does not run", remedy=str(error))
    return Finding(area="bot", ok=None, seen=f"does not run; port {settings.port} is free for it")


async def _database(settings: Settings) -> Finding:
    if not settings.nekro_data_dir.exists():
        return Finding(area="database", ok=None, seen="is made at the first start")
    try:
        with DataFolderLock(settings.nekro_data_dir):
            async with Store.open(settings.database_url, settings.nekro_store) as store:
                chats = len(await store.chats.all())
    except DataFolderInUse:
        return Finding(area="database", ok=True, seen="in use by the running bot")
    except (StoreError, OSError) as error:
        return Finding(area="database", ok=False, seen="cannot be opened", remedy=str(error))
    return Finding(area="database", ok=True, seen=f"opens; {chats} chats")


async def _objects(settings: Settings) -> Finding | None:
    """Check the object store of a cluster. Return None if the bot does not run as a cluster."""
    if not settings.nekro_cluster_url.get_secret_value():
        return None
    try:
        from nekro_core.app.object_stores import (  # noqa: PLC0415 - needs NATS's client
            check_objects,
        )
    except ModuleNotFoundError as error:
        remedy = "pip install 'nekro-core[cluster]'"
        return Finding(area="objects", ok=False, seen=f"{error.name} is missing", remedy=remedy)
    return await check_objects(settings)


async def _boxes(settings: Settings) -> AsyncIterator[Finding]:
    async with anyio.create_task_group() as tasks:
        try:
            backends = make_backends(settings.nekro_sandbox, tasks)
        except BackendUnavailable as error:
            yield Finding(area="boxes", ok=False, seen="no backend", remedy=str(error))
            return
        enough = False
        for backend in backends:
            checked = await backend.self_check()
            packages = backend.packages
            await backend.aclose()
            failed = [check for check in checked.checks if not check.ok]
            if checked.ok:
                started, *others = checked.checks
                held = f"all {1 + len(others)} checks hold: {started.seen}"
                yield Finding(area="boxes", ok=True, seen=f"{backend.name}: {held}")
                if packages is not None and not enough:
                    yield _packages(packages)
            for check in failed:
                yield Finding(
                    area="boxes",
                    ok=None if enough else False,  # not a fault if another backend works
                    seen=f"{backend.name}: {check.name}: {check.seen}",
                    remedy=check.remedy,
                )
            enough = enough or checked.ok
        tasks.cancel_scope.cancel()


def _packages(packages: SharedPackages) -> Finding:
    if packages.names:
        return Finding(area="boxes", ok=True, seen=f"can import {', '.join(packages.names)}")
    if packages.failure:
        seen = "numpy, pandas and other packages could not be fetched"
        return Finding(area="boxes", ok=False, seen=seen, remedy=packages.failure)
    seen = "numpy, pandas and other packages are not fetched yet; the running bot fetches them"
    return Finding(area="boxes", ok=None, seen=seen)


async def _model(settings: Settings) -> Finding:
    if not settings.nekro_llm.configured:
        return await _weights(settings)
    named = f"{settings.nekro_llm.model} at {settings.nekro_llm.base_url}"
    model = HttpChatModel(settings.nekro_llm)
    request = ChatRequest(messages=(PromptMessage.of("user", "Say hi."),), max_tokens=8)
    try:
        with anyio.fail_after(_MODEL_S):
            async with model.stream(request) as deltas:
                async for _ in deltas:
                    break
    except ModelError as error:
        return Finding(area="model", ok=False, seen=named, remedy=str(error))
    except TimeoutError:
        return Finding(
            area="model", ok=False, seen=named, remedy=f"no answer within {_MODEL_S:g} s"
        )
    finally:
        await model.aclose()
    return Finding(area="model", ok=True, seen=f"{named} answers")


async def _weights(settings: Settings) -> Finding:
    try:
        found = await find_weights(settings.nekro_embedded, settings.nekro_data_dir / "models")
    except WeightsError as error:
        return Finding(area="model", ok=False, seen="the embedded one", remedy=str(error))
    if found is None:
        if not settings.nekro_embedded.download:
            remedy = "choose a model on the page Models, or allow the download of the embedded one"
            return Finding(
                area="model", ok=False, seen="none; the download is switched off", remedy=remedy
            )
        return Finding(
            area="model", ok=None, seen="the embedded one; the running bot downloads its weights"
        )
    return Finding(area="model", ok=True, seen=f"the embedded one, {found.name}")


async def _voice(settings: Settings) -> Finding:
    speaker = open_speaker(settings.nekro_speech)
    try:
        speech = await speaker.speak("Hello.")
    except SpeechError as error:
        return Finding(area="voice", ok=False, seen=speaker.name, remedy=str(error))
    finally:
        await speaker.aclose()
    return Finding(area="voice", ok=True, seen=f"{speaker.name} says hello in {speech.voice}")


async def _decoders() -> Finding:
    """Check that the processes that decode received pictures and voices are confined."""
    try:
        reach = await unconfined_abilities()
    except MediaError as error:
        return Finding(
            area="media",
            ok=False,
            seen=f"no picture and no voice can be decoded: {error}",
            remedy="the bot must be allowed to start processes",
        )
    if reach:
        return Finding(
            area="media",
            ok=False,
            seen=f"a file that takes its decoder over could {', '.join(reach)}",
            remedy="Linux 5.13 or newer with Landlock and seccomp filters, on "
            f"{' or '.join(MACHINES)}; until then memory and time are bounded and nothing else",
        )
    seen = "decoders reach no files, no network and no other process"
    return Finding(area="media", ok=True, seen=seen)


async def _hearing(settings: Settings) -> list[Finding]:
    """Check which received voices can be decoded, and whether they are transcribed."""
    decodes = find_spec("av") is not None
    findings = [
        Finding(
            area="sound",
            ok=decodes or None,
            seen="voices of every kind are decoded"
            if decodes
            else "of voices only SILK is decoded",
            remedy="for AMR, Ogg, MP3, M4A and WebM: pip install 'nekro-core[audio]'",
        )
    ]
    wanted = settings.nekro_speech.transcriber
    transcriber = open_transcriber(wanted)
    if transcriber is None:
        seen = "what people say in voices is not written down"
        remedy = "name an endpoint: NEKRO_SPEECH__TRANSCRIBER__BASE_URL"
        return [*findings, Finding(area="hearing", ok=None, seen=seen, remedy=remedy)]
    silence = write_wav(PcmSound(bytes(32_000), 16_000))
    try:
        await transcriber.transcribe(silence)
    except SpeechError as error:
        found = Finding(
            area="hearing", ok=False, seen=str(error), remedy="NEKRO_SPEECH__TRANSCRIBER__*"
        )
    else:
        found = Finding(
            area="hearing", ok=True, seen=f"{wanted.model} at {wanted.base_url} listens"
        )
    finally:
        await transcriber.aclose()
    return [*findings, found]


def _secrets(data: Path) -> list[Finding]:
    """Show where the files with the tokens are. The tokens are not shown, because people paste this
    output into bug reports."""
    folder = data / "secrets"
    return [
        Finding(area="token", ok=None, seen=f"{path.name}: cat {path}")
        for path in sorted(folder.glob("*_access_token"))
    ]
