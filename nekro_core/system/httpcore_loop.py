"""Tells httpcore, the library below httpx, that this process runs asyncio."""

import importlib
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def httpcore_knows_asyncio() -> Iterator[None]:
    """Until the block ends, httpcore does not search for the package ``sniffio``.

    httpcore asks several times for each request which kind of event loop runs. Each time it imports
    ``sniffio``, which would know, and ignores that the import fails. A failed import looks through
    all folders of ``sys.path``. With these searches, a request that streams a reply takes 4.4 ms of
    processor time, without them 3.4 ms. Installing ``sniffio`` would help too, but see
    docs/decisions/0065.

    Only one block may run at a time in a process. If a later httpcore asks in another way, the
    block has no effect.
    """
    try:
        asked = importlib.import_module("httpcore._synchronization")
        before = asked.current_async_library
    except (ImportError, AttributeError):
        yield
        return
    asked.current_async_library = _asyncio  # type: ignore[attr-defined]
    try:
        yield
    finally:
        asked.current_async_library = before  # type: ignore[attr-defined]


def _asyncio() -> str:
    return "asyncio"
