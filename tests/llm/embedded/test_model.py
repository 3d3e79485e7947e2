"""The embedded model answers with its real weights. With bad or missing weights it gives errors."""

import ast
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from nekro_core.llm.embedded.fetch import ensure_weights
from nekro_core.llm.embedded.model import EmbeddedModel
from nekro_core.llm.embedded.server import SLOTS
from nekro_core.llm.embedded.settings import EmbeddedSettings
from nekro_core.llm.embedded.weights import DownloadProgress
from nekro_core.llm.grammar import call_grammar
from nekro_core.llm.model import (
    ChatModel,
    ModelNotReady,
    ModelUnreachable,
    ReplyFinished,
    RequestUsage,
    TextDelta,
)
from nekro_core.llm.replaceable import ReplaceableModel
from nekro_core.llm.scripted import ScriptedModel
from nekro_core.system.locked_temp_folder import LockedTempFolder
from tests.llm.conformance import ChatModelConformance, ask, listen, words_of
from tests.llm.embedded.hub_and_index import Site, serving
from tests.llm.test_grammar import a_parameter, a_tool

FOLDER = Path("data/models")
SETTINGS = EmbeddedSettings(context_tokens=2048)


@pytest.fixture(scope="session")
async def weights() -> Path:
    """The default weights. If this machine does not have them, they are downloaded as a bot would
    do it."""
    return await ensure_weights(SETTINGS, FOLDER, print)


@pytest.fixture(scope="module")
async def model(weights: Path) -> AsyncIterator[ChatModel]:
    """One model process for all tests, because loading takes a second or two."""
    model = EmbeddedModel(replace_file(weights), FOLDER)
    yield model
    await model.aclose()


def replace_file(path: Path) -> EmbeddedSettings:
    return SETTINGS.model_copy(update={"model_file": path})


@pytest.mark.embedded
@pytest.mark.long
class TestConformance(ChatModelConformance):
    """The embedded model passes the tests for every `ChatModel`."""


@pytest.mark.embedded
@pytest.mark.long
async def test_the_model_server_accepts_the_grammar_for_parameters_of_any_type(
    model: ChatModel,
) -> None:
    kinds = [
        {"type": "string", "maxLength": 12},
        {"type": "integer", "minimum": 1},
        {"type": "array", "items": {"type": "array", "items": {"type": "string"}}},
        {"type": "array", "prefixItems": [{"type": "number"}, {"type": "boolean"}]},
        {"anyOf": [{"enum": ["线", 'quo"te', None]}, {"type": "null"}]},
        {"type": "object", "additionalProperties": {"type": "array", "items": {}}},
        {},
    ]
    tools = [
        a_tool("发送", *(a_parameter(f"p{n}", kind, default=None) for n, kind in enumerate(kinds))),
        a_tool("show", *(a_parameter(f"p{n}", kind) for n, kind in enumerate(kinds))),
        a_tool("stop"),
    ]
    request = ask("Show me something.", grammar=call_grammar(tools), temperature=0.0)
    deltas = await listen(model, replace(request, max_tokens=100))
    if deltas[-1] == ReplyFinished("stop"):
        assert ast.parse(words_of(deltas)).body


@pytest.mark.embedded
@pytest.mark.long
async def test_each_cache_key_has_its_own_prompt_cache(model: ChatModel) -> None:
    long = " ".join(f"item {number}," for number in range(20))
    cached = {}
    for _ in range(2):
        for key in ("en", "zh", "ja"):
            request = ask(f"{key} {long}", max_tokens=1, temperature=0.0, cache_key=key)
            usage = next(
                each for each in await listen(model, request) if isinstance(each, RequestUsage)
            )
            cached[key] = usage.cached_tokens / usage.prompt_tokens
    assert len(cached) == SLOTS
    assert min(cached.values()) > 0.9


@pytest.mark.embedded
@pytest.mark.long
async def test_a_model_process_that_died_is_restarted(model: ChatModel) -> None:
    assert isinstance(model, EmbeddedModel)
    await model.start()
    first = model.process_id
    assert first is not None
    os.kill(first, signal.SIGKILL)
    assert words_of(await listen(model, ask("Say yes.", max_tokens=8)))
    assert model.process_id not in (None, first)


@pytest.mark.embedded
@pytest.mark.long
async def test_the_servers_key_is_not_in_its_command_line_or_environment(model: ChatModel) -> None:
    assert isinstance(model, EmbeddedModel)
    await model.start()
    process = Path(f"/proc/{model.process_id}")
    seen = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
    key = model._server.key
    assert key.encode() not in seen


@pytest.mark.embedded
@pytest.mark.long
async def test_the_model_process_ends_with_the_bot(weights: Path, tmp_path: Path) -> None:
    """If a bot is killed and cannot clean up, its model process ends too."""
    code = f"""
import anyio
from pathlib import Path
from nekro_core.llm.embedded.model import EmbeddedModel
from nekro_core.llm.embedded.settings import EmbeddedSettings
async def main():
    model = EmbeddedModel(EmbeddedSettings(model_file={str(weights)!r}), Path({str(tmp_path)!r}))
    await model.start()
    print(model.process_id, flush=True)
    await anyio.sleep_forever()
anyio.run(main)
"""
    short = Path(tempfile.mkdtemp(prefix="nk"))  # a socket's path must be short
    environment = {**os.environ, "TMPDIR": str(short)}
    async with await anyio.open_process(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, env=environment
    ) as bot:
        assert bot.stdout is not None
        child = int(await bot.stdout.receive())
        (folder,) = short.glob("nekro-model-*")
        living = LockedTempFolder(short, "nekro-model-")
        assert folder.exists(), "the folder of a living bot must stay"
        bot.kill()
        await bot.wait()
    with anyio.fail_after(30):
        while _alive(child):
            await anyio.sleep(0.05)
    # The next start deletes the files of the dead bot and keeps the files of living bots.
    LockedTempFolder(short, "nekro-model-").remove()
    assert [*short.iterdir()] == [living.path]
    living.remove()
    short.rmdir()


def _alive(process_id: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{process_id}/status").read_text()
    except OSError:
        return False


async def test_invalid_weights_are_reported(tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF" + b"\x00" * 1000)
    model = EmbeddedModel(EmbeddedSettings(model_file=broken), tmp_path)
    try:
        with pytest.raises(ModelUnreachable, match=r"ended while loading broken\.gguf: .*\w"):
            await listen(model, ask("hello"))
    finally:
        await model.aclose()


async def test_missing_weights_are_an_error_if_downloading_is_switched_off(tmp_path: Path) -> None:
    model = EmbeddedModel(EmbeddedSettings(download=False), tmp_path)
    try:
        with pytest.raises(ModelUnreachable, match="downloading is switched off"):
            async with model.stream(ask("hello")) as deltas:
                assert not [each async for each in deltas if isinstance(each, TextDelta)]
    finally:
        await model.aclose()


async def test_questions_are_refused_while_the_weights_are_downloaded(tmp_path: Path) -> None:
    release = threading.Event()
    file = b"GGUF" * 1_000_000
    with serving(Site(hub_file=file, hub_sha256="0" * 64, owner="Qwen", hold=release)) as site:
        reports: list[DownloadProgress] = []
        settings = EmbeddedSettings(hub_url=site.url)
        model = ReplaceableModel(EmbeddedModel(settings, tmp_path, report=reports.append))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(model.prepare)
            with anyio.fail_after(30):
                while not any(each.done for each in reports):
                    await anyio.sleep(0.01)
            with pytest.raises(ModelNotReady, match="still being downloaded"):
                await listen(model, ask("hello"))
            # Another model is chosen, so the bot gives the download up and answers with the new
            # model.
            with anyio.fail_after(30):
                await model.replace(ScriptedModel(["hi"]))
                release.set()
    assert words_of(await listen(model, ask("hello"))) == "hi"
