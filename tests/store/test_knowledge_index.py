"""The index of documents is used by threads, and may be closed at any moment."""

import subprocess
import sys
from pathlib import Path

_OPENED_AND_CLOSED = """
import sqlite3, sys
from pathlib import Path
from threading import Thread
from nekro_core.store.knowledge_index import KnowledgeIndex

for number in range(300):
    index = KnowledgeIndex(Path(sys.argv[1]) / f"{number % 5}.sqlite3")
    opening = Thread(target=index.open)
    opening.start()
    while index._database is None:
        pass
    index.close()
    opening.join()
    try:
        index.files()
    except sqlite3.ProgrammingError:
        continue
    raise SystemExit("it is open")
print("done")
"""


def test_an_index_may_be_closed_while_another_thread_opens_it(tmp_path: Path) -> None:
    """The test runs in a separate process. Without the lock in `KnowledgeIndex`, closing the index
    at this moment ended the whole process."""
    ran = subprocess.run(
        [sys.executable, "-c", _OPENED_AND_CLOSED, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (0, "done\n"), ran.stderr[-2000:]
