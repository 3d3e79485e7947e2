"""Gives a run the host's environment variables and the packages from pip."""

from __future__ import annotations

import os
import sys

from guest_minimal_stdlib import suppress

_PACKAGES = "/home/user/.local/lib/python{}.{}/site-packages".format(*sys.version_info[:2])


def apply_environment(environment: dict[str, str]) -> None:
    """Set the variables, and let the run import packages that pip installed into this box.

    If pip may install something during the run, the folder is made first: a path that does not
    exist yet is not put on the import path.
    """
    if environment:
        os.environ.update(environment)
    if "PIP_USER" in environment:
        with suppress(OSError):
            os.makedirs(_PACKAGES, exist_ok=True)
    if _PACKAGES not in sys.path and os.path.isdir(_PACKAGES):
        sys.path.append(_PACKAGES)
