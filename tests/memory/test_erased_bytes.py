"""After a person was erased, the files of the database contain no word that the person wrote, and
not the name and id of the person."""

from pathlib import Path

from nekro_core.memory.notes.book import NewNote
from nekro_core.memory.settings import MemorySettings
from nekro_core.store import Person, Store
from tests.memory.conftest import GROUP, LIN, MIA, PRIVATE, Clock, QuickModel, memory_of, say

WORDS = (b"vermilion", b"10001", b"Zaphod")


async def test_no_word_or_id_of_an_erased_person_is_left_in_the_files_of_the_database(
    tmp_path: Path, clock: Clock
) -> None:
    def answer(instructions: str, text: str) -> str:
        if "notes of a chat" in instructions:
            source = text.partition("#")[2].partition(" ")[0]
            return f'{{"text": "Lin paints in vermilion", "about": "10001", "from": {source}}}'
        return "Summary: " + " ".join(text.split())[:300]

    lin = type(LIN)("10001", "Zaphod")
    async with Store.open(f"sqlite://{tmp_path}/nekro.sqlite3", clock=clock) as store:
        memory = await memory_of(store, MemorySettings(), QuickModel(answer), clock)
        for key in (GROUP, PRIVATE):
            for n in range(60):
                mine = n % 2 or key == PRIVATE
                words = "vermilion" if mine else "turquoise"
                await say(store, f"{words} {n}", key=key, by=lin if mine else MIA)
            await say(store, "noted", key=key, by=None)
            for n in range(30):
                new = NewNote(text=f"{n} paints in vermilion", about_id="10001", said_by="20002")
                await memory.notes.keep(key, new)
            await memory.notes.keep(key, NewNote(text="Zaphod was late", said_by="20002"))
            if key != PRIVATE:
                await memory.notes.keep(key, NewNote(text="the lake is turquoise", said_by="20002"))
            await memory.sections(key, before_seq=store.messages.last_seq, people=["10001"])
        await memory.scope.link([PRIVATE, GROUP], "friends")
        await memory.work()
        assert found(tmp_path) == set(WORDS)
        person = Person(adapter="onebot_v11", user_id="10001", instances=("onebot_v11",))
        traces = await store.erasing.look(person)
        await store.erasing.erase(person, traces)
        await memory.erase(person, traces.private)
        await store.erasing.vacuum()
        assert found(tmp_path) == set()
        # Work that runs after the erasure must not write words of the private chat again.
        await memory.scope.link([GROUP], "")
        await memory.sections(GROUP, before_seq=store.messages.last_seq, people=[])
        await memory.work()
        shown = await memory.sections(GROUP, before_seq=store.messages.last_seq, people=["20002"])
        assert "the lake is turquoise" in shown.notes
        assert "turquoise" in shown.summary
    assert found(tmp_path) == set()


def found(folder: Path) -> set[bytes]:
    data = b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())
    return {word for word in WORDS if word in data}
