"""Measures the first answer of the embedded model after a first start, while it reads its
instructions.

Run by hand: ``python -m tests.e2e.embedded_first_answer [--full]``. Each question is asked of a new
process, as soon as the weights are loaded and the reading has begun. With ``--full``, the question
comes with the whole prompt, as it does after the reading.
"""

import argparse
import os
import tempfile
import time
from pathlib import Path

import anyio

from nekro_core.agent.prompt.small_prompt import beginnings
from nekro_core.llm.embedded.fetch import ensure_weights
from nekro_core.llm.embedded.model import EmbeddedModel, EmbeddedPhase
from nekro_core.llm.embedded.settings import EmbeddedSettings
from tests.e2e.embedded_eval import FOLDER, answer, builtin_tools

QUESTIONS = {
    "en": "hello, what can you do?",
    "zh": "你好，你能做什么？",
    "ja": "こんにちは、何ができますか？",
}
_LOOK_S = 0.02


async def first_answer(weights: Path, language: str, *, full: bool) -> None:
    tools = builtin_tools()
    with tempfile.TemporaryDirectory() as folder:
        model = EmbeddedModel(EmbeddedSettings(model_file=weights), Path(folder))
        started = time.perf_counter()
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(model.prepare, beginnings(tools))
                while model.state.phase is not EmbeddedPhase.READING:
                    await anyio.sleep(_LOOK_S)
                await anyio.sleep(1)  # so that the question interrupts a piece
                loaded = time.perf_counter()
                unread = frozenset() if full else model.profile.unread
                code = await answer(model, tools, QUESTIONS[language], unread)
                answered = time.perf_counter()
                print(
                    f"{language}: weights loaded after {loaded - started - 1:.1f} s, "
                    f"answer {answered - loaded:.1f} s after the question: {code}",
                    flush=True,
                )
                if not full:
                    while model.profile.unread:
                        await anyio.sleep(_LOOK_S)
                    print(f"    all instructions read after {time.perf_counter() - started:.1f} s")
                tasks.cancel_scope.cancel()
        finally:
            await model.aclose()


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="use the whole prompt")
    arguments = parser.parse_args()
    weights = await ensure_weights(EmbeddedSettings(), FOLDER, print)
    for language in QUESTIONS:
        print(f"load of the machine: {os.getloadavg()[0]:.1f}")
        await first_answer(weights, language, full=arguments.full)


if __name__ == "__main__":
    anyio.run(main)
