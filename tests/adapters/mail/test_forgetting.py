"""When a person is erased, the stored subjects of their mail threads are deleted. This works even
if the adapter does not run."""

from pathlib import Path

from adapters.mail.threads import FOLDER, Thread, ThreadStore
from nekro_core.app.adapters import erase_from_adapters
from nekro_core.chat import ChatKey
from nekro_core.chat.redact import RedactionTarget
from nekro_core.store import Person, PersonTraces


async def test_erasing_a_person_deletes_their_threads(tmp_path: Path) -> None:
    threads = ThreadStore(tmp_path / FOLDER)
    theirs = ChatKey.parse("mail-private_Ann.With.A.Long.Name@example.org#0123456789ab")
    others = ChatKey.parse("mail-private_bo@example.org")
    for key in (theirs, others):
        threads.write(key, Thread("a secret", ("<1@x>",)))
    person = Person(adapter="mail", user_id=theirs.native_id, instances=("mail",))
    traces = PersonTraces(private=(theirs,))
    for gone in (1, 0):
        forgotten = RedactionTarget(frozenset())
        assert await erase_from_adapters(tmp_path, person, traces, forgotten) == gone
        assert threads.read(theirs) is None
        assert threads.read(others) is not None
