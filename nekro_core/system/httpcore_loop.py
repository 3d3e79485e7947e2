"""Tells httpcore, the library below httpx, that this process runs asyncio."""

from collections.abc import Iterator
from contextlib import contextmanager

from httpcore import _synchronization


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
    before = getattr(_synchronization, _ASKED, None)
    setattr(_synchronization, _ASKED, _asyncio)
    try:
        yield
    finally:
        setattr(_synchronization, _ASKED, before)


_ASKED = "current_async_library"


def _asyncio() -> str:
    return "asyncio"
