"""Tests of a chat's box. Its files are saved between uses, and it contains the uploads. Only a few
boxes stay open."""

from pathlib import Path
from typing import Any

import pytest

from nekro_core.agent.prompt.transcript import box_path
from nekro_core.agent.settings import AgentSettings
from nekro_core.agent.turn.boxes import ChatBoxes, LazyBox
from nekro_core.chat import ChatKey, Image, Media, Text
from nekro_core.llm.model import ImagePart
from nekro_core.llm.scripted import ScriptedModel
from nekro_core.policy.settings import TriggerSettings
from nekro_core.sandbox.box import Box
from nekro_core.sandbox.results import FileChanges
from tests.agent.bot import fence, running_bot
from tests.agent.conftest import BoxCache
from tests.agent.pictures import PNG
from tests.sandbox.named.memory_boxes import MemorySource

LIN = ChatKey.parse("fake-private_lin")
EARLY = TriggerSettings(debounce_s=0.2)
"""The bot waits this long for more text, so a step is prepared before its turn begins."""
MEI = ChatKey.parse("fake-private_mei")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


async def keep(boxes: ChatBoxes, chat: ChatKey, text: str) -> None:
    kept = await boxes.open(chat)
    await kept.box.write_file("/home/user/note.txt", text.encode())
    await boxes.close(chat, kept, changed=True)


async def note(boxes: ChatBoxes, chat: ChatKey) -> str:
    kept = await boxes.open(chat)
    text = await kept.box.read_file("/home/user/note.txt", limit=100)
    await boxes.close(chat, kept, changed=False)
    return text.decode()


async def test_a_box_is_used_again_and_its_files_are_kept_after_its_end(
    folder: Path, boxes: BoxCache
) -> None:
    clock = Clock()
    made = ChatBoxes(boxes, folder, AgentSettings(box_idle_s=10), clock=clock)
    await keep(made, LIN, "milk")
    assert made.warm == 1
    clock.now = 11
    await made.end_idle()
    assert made.warm == 0
    assert await note(made, LIN) == "milk"
    await made.aclose()
    again = ChatBoxes(boxes, folder, AgentSettings(), clock=clock)
    assert await note(again, LIN) == "milk"
    await again.aclose()


async def test_the_box_unused_longest_is_closed_for_a_new_one(
    folder: Path, boxes: BoxCache
) -> None:
    made = ChatBoxes(boxes, folder, AgentSettings(warm_boxes=1), clock=Clock())
    await keep(made, LIN, "milk")
    await keep(made, MEI, "tea")
    assert made.warm == 1
    assert await note(made, LIN) == "milk"
    assert await note(made, MEI) == "tea"
    await made.aclose()


async def test_a_chat_gets_a_box_only_when_code_runs_in_it(folder: Path, boxes: BoxCache) -> None:
    model = ScriptedModel(["Four.", fence("send_channel_message('4')"), "Five."])
    async with running_bot(folder, boxes, model, trigger=EARLY) as bot:
        assert await bot.ask("2+2?") == ["Four."]
        assert bot.services.boxes.warm == 0
        assert await bot.ask("and in code?") == ["4"]
        assert await bot.ask("2+3?", MEI) == ["Five."]
        assert [named.owner for named in bot.services.boxes.named.running] == [str(LIN)]


async def test_a_plugin_that_opens_the_box_before_the_run_finds_the_uploads(
    folder: Path,
) -> None:
    made = ChatBoxes(MemorySource(), folder, AgentSettings(), clock=Clock())
    folder.mkdir()
    (folder / "pic.png").write_bytes(PNG)
    medium = Media(path=str(folder / "pic.png"), name="pic.png", mime="image/png", size=len(PNG))
    files = LazyBox(made, LIN)
    files.media = lambda: (medium,)
    assert made.warm == 0
    assert await files.read_file(box_path(medium), limit=10**6) == PNG
    await files.close()
    assert made.warm == 1
    await made.aclose()


async def test_a_box_without_changes_leaves_no_saved_file(folder: Path, boxes: BoxCache) -> None:
    made = ChatBoxes(boxes, folder, AgentSettings(), clock=Clock())
    kept = await made.open(LIN)
    await made.close(LIN, kept, changed=True)
    assert not folder.exists()
    await made.aclose()


async def test_an_unreadable_archive_is_renamed_and_not_overwritten(
    folder: Path, boxes: BoxCache
) -> None:
    saved = folder / LIN.file_name / "default.tar"
    saved.parent.mkdir(parents=True)
    saved.write_bytes(b"no archive" * 100)
    made = ChatBoxes(boxes, folder, AgentSettings(), clock=Clock())
    await keep(made, LIN, "new")
    assert saved.with_suffix(".tar.unreadable").read_bytes() == b"no archive" * 100
    await made.aclose()


class TakenOver:
    """A box whose supervisor is controlled by the code in it. It exports the given archive."""

    def __init__(self, box: Box, archive: bytes) -> None:
        self._box = box
        self._archive = archive

    def __getattr__(self, name: str) -> Any:
        return getattr(self._box, name)

    async def export_changes(self, since: str = "") -> FileChanges:
        whole = not since
        return FileChanges(state="s", whole=whole, entries=1, archive=self._archive)


@pytest.mark.parametrize("archive", [b"", b"no archive", b"\0" * 5000, b"x" * 511 + b"\xff" * 9000])
async def test_an_invalid_archive_from_a_box_does_no_harm(
    folder: Path, boxes: BoxCache, archive: bytes
) -> None:
    class Source:
        unavailable = ""
        pool_bytes = 0

        async def take(self, image: str = "") -> Any:
            return TakenOver(await boxes.take(), archive)

    made = ChatBoxes(Source(), folder, AgentSettings(), clock=Clock())
    for _ in range(3):  # the first save has all files, the next two have only changes
        await made.close(LIN, await made.open(LIN), changed=True)
    await made.aclose()
    again = ChatBoxes(boxes, folder, AgentSettings(), clock=Clock())
    await keep(again, LIN, "milk")
    assert await note(again, LIN) == "milk"
    await again.aclose()


async def test_an_uploaded_picture_is_in_the_box_and_in_the_prompt(
    folder: Path, boxes: BoxCache
) -> None:
    look = """\
import os
paths = [f"/app/uploads/{name}" for name in os.listdir("/app/uploads")]
# Another test may have used this box, and its uploads may still be here.
(path,) = [path for path in paths if path in seen]
try:
    open(path, "w")
except OSError:
    send_channel_message(open(path, "rb").read()[1:4].decode())
"""
    model = ScriptedModel(lambda _: fence(f"seen = {bot.prompt()!r}\n{look}"))
    async with running_bot(folder, boxes, model) as running:
        bot = running
        media = await bot.plugins.services.media.keep_bytes(LIN, PNG, name="a.png")
        picture = (Text("what is this?"), Image(media))
        assert await bot.ask("", segments=picture) == ["PNG"]
        (shown,) = [
            part for part in model.requests[0].messages[1].parts if isinstance(part, ImagePart)
        ]
        assert shown.mime == "image/jpeg"


async def test_a_turn_runs_although_the_upload_of_its_question_was_deleted(
    folder: Path, boxes: BoxCache
) -> None:
    model = ScriptedModel([fence("send_channel_message('I cannot see it')")])
    async with running_bot(folder, boxes, model) as bot:
        gone = (Image(Media(path=str(folder / "gone.png"), size=10)),)
        assert await bot.ask("", segments=gone) == ["I cannot see it"]
