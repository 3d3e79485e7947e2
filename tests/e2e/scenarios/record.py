"""Gets replies of the model from a person or another program, and stores them.

    python -m tests.e2e.scenarios.record FOLDER [--only 6,7] [--wording a] [--missing]

Plays the conversations. Each request appears as ``FOLDER/SCENARIO-WORDING-STEP.req.txt``, with its
pictures next to it. The person or program that plays the model reads only these files, and writes
``.rep.txt`` (words or code) or ``.rep.json`` (``{"text": "...", "calls": [{"name": "...", "args":
{...}}], "finish": "stop"}``). Each reply is stored at once. The file ``FOLDER/END`` shows that the
program has ended.
"""

import argparse
import base64
import fcntl
import json
import signal
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import anyio

from tests.e2e.scenarios.played import StoredReplies, play, reply_key, told
from tests.e2e.scenarios.replies import ModelReply, ReplyKey, changed, read_replies, write_replies
from tests.e2e.scenarios.scenario import Subject
from tests.e2e.scenarios.scene import NoReply, Request, Scene
from tests.e2e.scenarios.subjects import SUBJECTS
from tests.e2e.scenarios.table import all_replies, table
from tests.e2e.scenarios.unstable import to_stored

REPLY_S = 5400.0
"""Maximum seconds to wait for a reply."""


class AskByFile:
    """Writes requests into a folder, waits until somebody writes replies there, and stores them."""

    def __init__(
        self, folder: Path, subjects: Sequence[Subject], stored: StoredReplies | None
    ) -> None:
        self._folder = folder
        self._stored = stored
        self._subjects = {
            number: subject.name
            for subject in subjects
            for each in subject.conversations
            for number in each.numbers
        }
        self._replies: dict[ReplyKey, list[ModelReply]] = defaultdict(list)

    async def __call__(self, scene: Scene, request: Request, number: int) -> ModelReply:
        if self._stored is not None:
            with suppress(NoReply):
                return await self._stored(scene, request, number)
        name = f"{request.part:02d}-{scene.wording}-{len(scene.requests)}"
        path = self._folder / f"{name}.req.txt"
        path.with_suffix(".new").write_text(self._readable(request, name), "utf-8")
        path.with_suffix(".new").rename(path)
        reply = await self._wait(name)
        key = reply_key(scene, request)
        whole = reply.text + json.dumps(reply.calls, ensure_ascii=False)
        stored = partial(to_stored, request=request.text, whole=whole)
        self._replies[key].append(changed(reply, stored))
        self._store(key)
        return reply

    def _store(self, key: ReplyKey) -> None:
        """Write the replies of a scenario. The file is locked, because other programs may record
        other wordings at the same time."""
        subject = self._subjects[key[0]]
        with (Path(tempfile.gettempdir()) / "scenario-replies.lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            write_replies(subject, read_replies(subject) | {key: self._replies[key]})

    async def _wait(self, name: str) -> ModelReply:
        words, structured = (self._folder / f"{name}.rep.{end}" for end in ("txt", "json"))
        with anyio.move_on_after(REPLY_S):
            while True:
                if structured.exists():
                    try:
                        row = json.loads(structured.read_text("utf-8"))
                    # the file is not completely written yet, or has an error
                    except json.JSONDecodeError:
                        await anyio.sleep(0.5)
                        continue
                    calls = tuple(row.get("calls") or ())
                    return ModelReply(row.get("text") or "", calls, row.get("finish") or "stop")
                if words.exists():
                    await anyio.sleep(0.5)  # the file may not be completely written yet
                    return ModelReply(words.read_text("utf-8").removesuffix("\n"))
                await anyio.sleep(0.2)
        raise NoReply(f"nobody replied to {name} in {REPLY_S:g} s")

    def _readable(self, request: Request, name: str) -> str:
        lines: list[str] = []
        pictures = 0
        for message in request.asked.messages:
            lines.append(f"===== {message['role']} {message.get('tool_call_id', '')}".rstrip())
            content = message.get("content") or ""
            parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
            for part in parts:
                if part["type"] == "text":
                    lines.append(part["text"])
                    continue
                pictures += 1
                file = self._folder / f"{name}.picture-{pictures}.png"
                file.write_bytes(base64.b64decode(part["image_url"]["url"].partition(",")[2]))
                lines.append(f"<<a picture, which you see: {file}>>")
            lines += [
                "CALLED " + json.dumps(call["function"], ensure_ascii=False)
                for call in message.get("tool_calls") or ()
            ]
        if tools := request.asked.body.get("tools"):
            lines += [
                "===== TOOLS",
                *(json.dumps(each["function"], ensure_ascii=False) for each in tools),
            ]
        return "\n".join(lines)


async def record(
    folder: Path,
    subjects: list[Subject],
    only: set[int],
    wording: str,
    stored: StoredReplies | None,
) -> None:
    """Play the conversations once in a wording, and store the replies."""
    folder.mkdir(parents=True, exist_ok=True)
    ask = AskByFile(folder, subjects, stored)
    chosen = [
        each
        for subject in subjects
        for each in subject.conversations
        if not only or only & set(each.numbers)
    ]
    try:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
            outcomes = await play(Path(place), chosen, wording, ask, patience_s=7200.0)
    finally:
        (folder / "END").write_text("the end")
    print(table(outcomes))
    print(told(outcomes))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="numbers of scenarios, such as 6,7")
    parser.add_argument("--subject", default="", help="the name of a subject")
    parser.add_argument("--missing", action="store_true", help="ask only where no reply is stored")
    parser.add_argument("--wording", choices=["a", "b", "c"], default="a")
    arguments = parser.parse_args()
    only = {int(each) for each in arguments.only.split(",") if each}
    subjects = [each for each in SUBJECTS if arguments.subject in ("", each.name)]
    # With this handler, `kill` ends the bots too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    stored = StoredReplies(all_replies()) if arguments.missing else None
    anyio.run(record, arguments.folder, subjects, only, arguments.wording, stored)


if __name__ == "__main__":
    main()
