"""Documents in files keep texts that were written by hand. Only their owner can read the files."""

import fcntl
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from nekro_core.system.documents import (
    DocumentConflict,
    DocumentError,
    DocumentStore,
    FileDocuments,
)
from tests.system.document_store_contract import CHECKS


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_documents_in_files_pass_the_contract(
    tmp_path: Path, check: Callable[[DocumentStore], Awaitable[None]]
) -> None:
    await check(FileDocuments(tmp_path, secret={"secrets.toml"}))


async def test_a_text_that_was_edited_by_hand_is_kept_as_a_revision(tmp_path: Path) -> None:
    documents = FileDocuments(tmp_path)
    first = await documents.write("conduct.toml", "# by the page\n", expected=None)
    (tmp_path / "conduct.toml").write_text("# by hand\n")
    edited = await documents.revision("conduct.toml")
    assert edited not in (first, None)
    with pytest.raises(DocumentConflict, match="\\+# by hand"):
        # This writer has read an earlier text. A text is stored as a revision when another text is
        # written.
        await documents.write("conduct.toml", "# x\n", expected=await _page_text_again(documents))
    await documents.write("conduct.toml", "# by the page again\n", expected=edited)
    texts = [one.text for one in await documents.revisions("conduct.toml")]
    assert texts[:2] == ["# by the page again\n", "# by hand\n"]


async def _page_text_again(documents: FileDocuments) -> str | None:
    by_hand = await documents.read("conduct.toml")
    assert by_hand is not None
    earlier = await documents.write("conduct.toml", "# y\n", expected=by_hand.revision)
    await documents.write("conduct.toml", by_hand.text, expected=earlier)
    return earlier


async def test_only_the_owner_can_read_a_document_and_its_revisions(tmp_path: Path) -> None:
    documents = FileDocuments(tmp_path / "data")
    first = await documents.write("settings.toml", "a = 1\n", expected=None)
    await documents.write("settings.toml", "a = 2\n", expected=first)
    made = [path for path in (tmp_path / "data").rglob("*") if path.is_file()]
    assert len(made) == 3
    assert [path.stat().st_mode & 0o077 for path in made] == [0, 0, 0]


async def test_a_removed_document_is_noticed(tmp_path: Path) -> None:
    documents = FileDocuments(tmp_path)
    first = await documents.write("conduct.toml", "a = 1\n", expected=None)
    (tmp_path / "conduct.toml").unlink()
    assert await documents.revision("conduct.toml") is None
    with pytest.raises(DocumentConflict, match="was removed") as told:
        await documents.write("conduct.toml", "a = 2\n", expected=first)
    assert told.value.found is None


async def test_a_file_that_is_not_text_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "conduct.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(DocumentError, match="not UTF-8"):
        await FileDocuments(tmp_path).read("conduct.toml")


async def test_a_write_fails_if_another_process_never_releases_the_lock(tmp_path: Path) -> None:
    (tmp_path / "revisions").mkdir()
    held = os.open(tmp_path / "revisions" / ".lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(held, fcntl.LOCK_EX)
    try:
        with pytest.raises(DocumentError, match="held by another process"):
            await FileDocuments(tmp_path, lock_s=0.1).write("conduct.toml", "", expected=None)
    finally:
        os.close(held)
    await FileDocuments(tmp_path).write("conduct.toml", "", expected=None)
