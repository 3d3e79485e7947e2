"""Add the shared packages to the path of a Python program in a box, after those of the image.

Every Python interpreter imports a module of this name at its start, before it runs a program. The
folder of this file is in the PYTHONPATH of a box. The packages are for one version of Python, which
the file ``.complete`` names. An image can have other versions of Python too; programs that run on
them do not get the packages.
"""

from __future__ import annotations

import sys
from importlib.machinery import PathFinder
from types import ModuleType

_STARTUP = __file__.rpartition("/")[0]
_PACKAGES = _STARTUP.rpartition("/")[0]


def _is_for_this_python() -> bool:
    try:
        with open(f"{_PACKAGES}/.complete", encoding="ascii") as file:  # noqa: PTH123 - starts fast
            return file.read() == "{}.{}".format(*sys.version_info[:2])
    except (OSError, ValueError):
        return False


def _run_own() -> None:
    """Run the ``sitecustomize`` of the image. Python does not import it by itself, because it finds
    this file first."""
    spec = PathFinder.find_spec(__name__, sys.path)
    if spec is not None and spec.loader is not None:
        module = ModuleType(__name__)
        module.__spec__, module.__file__ = spec, spec.origin
        spec.loader.exec_module(module)


sys.path[:] = [path for path in sys.path if path != _STARTUP]
if _is_for_this_python():
    sys.path.append(_PACKAGES)
_run_own()
