"""Finds the OpenMP library that xllamacpp needs and a minimal system does not have.

xllamacpp's wheel loads ``libgomp.so.1`` from the system; a minimal Debian has none. The wheel of
pykdtree (0.5 MB, a dependency for this alone) contains GCC's libgomp, with a hash in its file name.
The loader looks for the plain name in ``LD_LIBRARY_PATH``.
"""

import ctypes
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

NAME = "libgomp.so.1"
_CARRIER = "pykdtree"


def library_path(folder: Path) -> Path | None:
    """A folder to put into ``LD_LIBRARY_PATH``: ``folder`` with a link to the library in it, or
    None where the system has its own (or there is none, and the import will say so)."""
    try:
        ctypes.CDLL(NAME)
    except OSError:
        carried = _carried()
    else:
        return None
    if carried is None:
        return None
    link = folder / NAME
    link.unlink(missing_ok=True)
    link.symlink_to(carried)
    return folder


def _carried() -> Path | None:
    try:
        listed = files(_CARRIER) or ()
    except PackageNotFoundError:
        return None
    found = (Path(str(file.locate())) for file in listed if file.name.startswith("libgomp"))
    return next((path.resolve() for path in found if path.is_file()), None)
