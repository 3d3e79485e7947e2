"""Shared documents have copies as files. Changes on either side reach the other side."""

import json
import stat
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loguru import logger

from nekro_core.system.documents import (
    DocumentConflict,
    DocumentStore,
    FileDocuments,
)
from nekro_core.system.working_copies import (
    CONFLICTS,
    STATE,
    BrokenDocument,
    DocumentsDiffer,
    WorkingCopies,
)
from tests.system.document_store_contract import CHECKS

SECRET = ("secrets.toml", "platforms/*.json")
PATTERNS = ("*.toml", "personas/*.json", "platforms/*.json", "plugin_data/*/config.yaml")


def shared_in(tmp_path: Path) -> FileDocuments:
    """Make shared documents in files. Those in the database pass the same contract."""
    return FileDocuments(tmp_path / "shared", secret=SECRET)


async def copies_in(folder: Path, shared: DocumentStore) -> WorkingCopies:
    copies = WorkingCopies(
        shared,
        folder,
        patterns=(*PATTERNS, "plugins/*/config.toml"),
        secret=SECRET,
        in_existing_folders=("plugins/*/config.toml",),
    )
    await copies.settle()
    return copies


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_working_copies_pass_the_contract(
    tmp_path: Path, check: Callable[[DocumentStore], Awaitable[None]]
) -> None:
    await check(await copies_in(tmp_path / "data", shared_in(tmp_path)))


async def test_what_one_process_writes_the_other_process_reads(tmp_path: Path) -> None:
    shared = shared_in(tmp_path)
    anne = await copies_in(tmp_path / "anne", shared)
    ben = await copies_in(tmp_path / "ben", shared)
    await anne.write("conduct.toml", "[bot]\nstate = 'on'\n", expected=None)
    assert await ben.settle()
    assert (tmp_path / "ben/conduct.toml").read_text() == "[bot]\nstate = 'on'\n"
    assert not await ben.settle(), "there is no change since then"
    assert not await anne.settle()


async def test_a_file_edited_by_hand_reaches_the_other_process_with_its_comments(
    tmp_path: Path,
) -> None:
    shared = shared_in(tmp_path)
    anne = await copies_in(tmp_path / "anne", shared)
    ben = await copies_in(tmp_path / "ben", shared)
    (tmp_path / "anne/settings.toml").write_text("# mine\nport = 1\n")
    await anne.settle()
    await ben.settle()
    assert (tmp_path / "ben/settings.toml").read_text() == "# mine\nport = 1\n"
    (tmp_path / "ben/settings.toml").unlink()
    await ben.settle()
    await anne.settle()
    assert not (tmp_path / "anne/settings.toml").exists(), (
        "a document that was removed there must be removed here"
    )


async def test_a_half_written_file_is_not_shared_until_it_is_corrected(tmp_path: Path) -> None:
    said: list[str] = []
    sink = logger.add(said.append, level="ERROR", format="{message}")
    shared = shared_in(tmp_path)
    anne = await copies_in(tmp_path / "anne", shared)
    await anne.write("settings.toml", "port = 1\n", expected=None)
    for name, text, place in [
        ("settings.toml", "port = 2\nlanguage = \n", "line 2"),
        ("platforms/telegram.json", '{"form": 1,\n', "line 2"),
        ("plugin_data/a.b/config.yaml", "a: 1\nb: [\n", "line 3"),
    ]:
        path = tmp_path / "anne" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        await anne.settle()
        await anne.settle()
        assert len([each for each in said if each.startswith(name) and place in each]) == 1, said
        assert set(anne.problems) == {name}
        before = "port = 1\n" if name == "settings.toml" else None
        found = await shared.read(name)
        assert (found.text if found else None) == before
        path.write_text("port = 3\n" if name.endswith("toml") else "{}")
        await anne.settle()
        assert not anne.problems
        assert await shared.read(name) is not None
    logger.remove(sink)


async def test_if_both_sides_changed_the_shared_document_wins_and_the_file_is_kept_as_a_copy(
    tmp_path: Path,
) -> None:
    shared = shared_in(tmp_path)
    anne = await copies_in(tmp_path / "anne", shared)
    ben = await copies_in(tmp_path / "ben", shared)
    await anne.write("secrets.toml", "key = 'one'\n", expected=None)
    await ben.settle()
    (tmp_path / "ben/secrets.toml").write_text("key = 'of ben'\n")
    found = await anne.read("secrets.toml")
    assert found is not None
    await anne.write("secrets.toml", "key = 'of anne'\n", expected=found.revision)
    await ben.settle()
    assert (tmp_path / "ben/secrets.toml").read_text() == "key = 'of anne'\n"
    (kept,) = (tmp_path / "ben" / CONFLICTS).iterdir()
    assert kept.read_text() == "key = 'of ben'\n"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "ben/secrets.toml").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "ben" / STATE).stat().st_mode) == 0o600
    assert "of " not in (tmp_path / "ben" / STATE).read_text()


async def test_a_writer_is_warned_of_a_change_that_has_not_arrived_yet(tmp_path: Path) -> None:
    shared = shared_in(tmp_path)
    anne = await copies_in(tmp_path / "anne", shared)
    ben = await copies_in(tmp_path / "ben", shared)
    first = await anne.write("conduct.toml", "a = 1\n", expected=None)
    await ben.settle()
    await anne.write("conduct.toml", "a = 2\n", expected=first)
    with pytest.raises(DocumentConflict, match="by somebody else") as told:
        await ben.write("conduct.toml", "a = 3\n", expected=first)
    assert [each for each in told.value.change if each[0] in "+-"] == ["-a = 1", "+a = 2"]
    assert (tmp_path / "ben/conduct.toml").read_text() == "a = 2\n", (
        "after the warning the file has the new text"
    )


async def test_an_interrupted_write_is_continued(tmp_path: Path) -> None:
    """A process ended after it wrote the shared document, before it wrote the file."""
    shared = shared_in(tmp_path)
    anne = await copies_in(tmp_path / "anne", shared)
    first = await anne.write("conduct.toml", "a = 1\n", expected=None)
    await shared.write("conduct.toml", "a = 2\n", expected=first)
    again = await copies_in(tmp_path / "anne", shared)
    found = await again.read("conduct.toml")
    assert found is not None
    assert found.text == "a = 2\n"
    # The process ended after it wrote the file and before it noted that both are the same.
    state = tmp_path / "anne" / STATE
    noted = json.loads(state.read_text())
    await again.write("conduct.toml", "a = 3\n", expected=found.revision)
    state.write_text(json.dumps(noted))
    await copies_in(tmp_path / "anne", shared)
    assert (tmp_path / "anne/conduct.toml").read_text() == "a = 3\n"
    assert not (tmp_path / "anne" / CONFLICTS).exists()


async def test_the_first_start_refuses_to_choose_between_different_documents(
    tmp_path: Path,
) -> None:
    shared = shared_in(tmp_path)
    await shared.write("conduct.toml", "a = 1\n", expected=None)
    await shared.write("settings.toml", "port = 1\n", expected=None)
    folder = tmp_path / "anne"
    folder.mkdir()
    (folder / "conduct.toml").write_text("a = 2\n")
    (folder / "settings.toml").write_text("port = 1\n")
    with pytest.raises(DocumentsDiffer, match=r"nekro documents copy --to") as refused:
        await copies_in(folder, shared)
    assert refused.value.names == ("conduct.toml",)
    assert (folder / "conduct.toml").read_text() == "a = 2\n", "a refused start must change nothing"


@pytest.mark.parametrize("to_shared", [True, False])
async def test_documents_are_copied_if_nothing_differs_or_on_request(
    tmp_path: Path, to_shared: bool
) -> None:
    shared = shared_in(tmp_path)
    folder = tmp_path / "anne"
    own = FileDocuments(folder, secret=SECRET)
    source, target = (own, shared) if to_shared else (shared, own)
    copies = WorkingCopies(shared, folder, patterns=PATTERNS, secret=SECRET)
    await source.write("conduct.toml", "a = 1\n", expected=None)
    await source.write("personas/ねこ.json", "{}", expected=None)
    assert await copies.copy(to_shared=to_shared) == ["conduct.toml", "personas/ねこ.json"]
    assert await copies.copy(to_shared=to_shared) == []
    found = await target.read("conduct.toml")
    assert found is not None
    await target.write("conduct.toml", "a = 2\n", expected=found.revision)
    await target.write("settings.toml", "port = 2\n", expected=None)
    with pytest.raises(DocumentsDiffer):
        await copies.copy(to_shared=to_shared)
    changed = await copies.copy(to_shared=to_shared, overwrite=True)
    assert changed == ["conduct.toml", "settings.toml"]
    found = await target.read("conduct.toml")
    assert found is not None
    assert found.text == "a = 1\n"
    assert await target.read("settings.toml") is None, "the source has no such document"
    assert not await (await copies_in(folder, shared)).settle()


async def test_broken_files_are_not_copied(tmp_path: Path) -> None:
    shared = shared_in(tmp_path)
    (tmp_path / "anne").mkdir()
    (tmp_path / "anne/settings.toml").write_text("port =\n")
    copies = WorkingCopies(shared, tmp_path / "anne", patterns=PATTERNS)
    with pytest.raises(BrokenDocument, match=r"settings\.toml: .*line 1"):
        await copies.copy(to_shared=True, overwrite=True)


async def test_the_configuration_of_a_plugin_that_is_not_installed_here_stays(
    tmp_path: Path,
) -> None:
    shared = shared_in(tmp_path)
    (tmp_path / "anne/plugins/cup").mkdir(parents=True)
    (tmp_path / "anne/plugins/cup/config.toml").write_text("size = 1\n")
    anne = await copies_in(tmp_path / "anne", shared)
    ben = await copies_in(tmp_path / "ben", shared)
    assert not (tmp_path / "ben/plugins").exists()
    (tmp_path / "ben/plugins/cup").mkdir(parents=True)
    await ben.settle()
    assert (tmp_path / "ben/plugins/cup/config.toml").read_text() == "size = 1\n"
    (tmp_path / "ben/plugins/cup/config.toml").unlink()
    (tmp_path / "ben/plugins/cup").rmdir()
    await ben.settle()
    await anne.settle()
    assert (tmp_path / "anne/plugins/cup/config.toml").exists(), (
        "a document that was removed only there must stay here"
    )


@settings(max_examples=60)
@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(["edit", "write", "delete", "settle"]),
            st.sampled_from(["anne", "ben"]),
            st.integers(0, 5),
        ),
        max_size=14,
    )
)
async def test_both_folders_become_the_same_and_no_text_is_lost(
    steps: list[tuple[str, str, int]],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        await _change_in_turn(Path(folder), steps)


async def _change_in_turn(folder: Path, steps: list[tuple[str, str, int]]) -> None:
    shared = shared_in(folder)
    both = {name: await copies_in(folder / name, shared) for name in ("anne", "ben")}
    named = "conduct.toml"
    deleted = False
    newest: dict[str, str] = {}
    for number, (what, who, value) in enumerate(steps):
        path = folder / who / named
        text = f"a = {value} # {number}\n"
        match what:
            case "edit":
                path.write_text(text)
                newest[who] = text
            case "delete":
                path.unlink(missing_ok=True)
                newest.pop(who, None)
                deleted = True
            case "settle":
                await both[who].settle()
            case "write":
                found = await both[who].read(named)
                expected = found.revision if found else None
                try:
                    await both[who].write(named, text, expected=expected)
                    newest[who] = text
                except DocumentConflict:
                    pass
    for _ in range(3):
        for copies in both.values():
            await copies.settle()
    texts = {
        path.read_text() if path.exists() else None
        for path in (folder / "anne" / named, folder / "ben" / named, folder / "shared" / named)
    }
    assert len(texts) == 1, "both folders and the shared document must have the same text"
    assert not any([await copies.settle() for copies in both.values()])
    kept = {one.text for one in await shared.revisions(named)}
    kept |= {path.read_text() for path in folder.glob(f"*/{CONFLICTS}/*")}
    if not deleted:
        assert set(newest.values()) <= kept, "each newest text must be in effect or kept as a copy"
