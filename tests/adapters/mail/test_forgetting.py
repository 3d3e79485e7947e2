"""Whoever is erased leaves no subject behind."""

from pathlib import Path

from adapters.mail.threads import Thread, ThreadStore
from nekro_core.app.erasure import _MAIL_THREADS, _from_mail
from nekro_core.chat import ChatKey
from nekro_core.chat.redact import RedactionTarget
from nekro_core.store import Person, PersonTraces


async def test_the_threads_of_a_person_go(tmp_path: Path) -> None:
    threads = ThreadStore(tmp_path / _MAIL_THREADS)
    theirs = ChatKey.parse("mail-private_Ann.With.A.Long.Name@example.org#0123456789ab")
    others = ChatKey.parse("mail-private_bo@example.org")
    for key in (theirs, others):
        threads.write(key, Thread("a secret", ("<1@x>",)))
    person = Person(adapter="mail", user_id=theirs.native_id, instances=("mail",))
    traces = PersonTraces(private=(theirs,))
    assert (
        await _from_mail(tmp_path / _MAIL_THREADS, person, traces, RedactionTarget(frozenset()))
        == 1
    )
    assert threads.read(theirs) is None
    assert threads.read(others) is not None
