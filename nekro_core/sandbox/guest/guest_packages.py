"""Prepares the environment of a run: variables from the host, and packages that pip installed."""

from __future__ import annotations

import os
import sys

from guest_minimal_stdlib import suppress

_PACKAGES = "/home/user/.local/lib/python{}.{}/site-packages".format(*sys.version_info[:2])


def apply_environment(environment: dict[str, str]) -> None:
    """Set the variables, and add the folder of packages that pip installed to the import path.

    Only an existing folder can be added. So if the box has pip and the folder is missing, the
    folder is made. Then the run can import packages that it installs itself.
    """
    if environment:
        os.environ.update(environment)
    if "PIP_USER" in environment:
        with suppress(OSError):
            os.makedirs(_PACKAGES, exist_ok=True)
    if _PACKAGES not in sys.path and os.path.isdir(_PACKAGES):
        sys.path.append(_PACKAGES)
