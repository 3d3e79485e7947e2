"""Finds the OpenMP library that xllamacpp needs, for a system that does not have it.

xllamacpp's wheel loads ``libgomp.so.1`` from the system, and a minimal Debian does not have it. The
wheel of pykdtree (0.5 MB) contains GCC's libgomp; it is a dependency only for this reason. In this
wheel, the file's name contains a hash, but the system's loader searches ``LD_LIBRARY_PATH`` for the
plain name. So a link with the plain name is made.
"""

import ctypes
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

NAME = "libgomp.so.1"
_CARRIER = "pykdtree"


def library_path(folder: Path) -> Path | None:
    """Make a link to the library in ``folder``, and return ``folder`` for ``LD_LIBRARY_PATH``.
    Return None if the system has the library. Also return None if pykdtree does not have it either;
    in that case the import of xllamacpp fails."""
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
