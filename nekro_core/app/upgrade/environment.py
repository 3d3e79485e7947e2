"""Makes an environment of Python packages for a version of the bot, beside the data folder.

``versions/20261129-003015/`` is such an environment, and ``versions/current`` is a link to the one
that is in use. An environment is never changed after it was made.
"""

import sys
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement

from nekro_core.app.upgrade.programs import UpgradeRefused, run_program

CURRENT = "current"
_PACKAGE = "nekro-core"
_NOT_TAKEN_OVER = {"dev", "kit"}
"""Extras for people who change the code. A version that only runs does not need them."""
_INSTALL_S = 3600.0
"""Maximum number of seconds for the installation: the packages have 700 MB, and the network may be
slow."""
_SHORT_S = 600.0
"""Maximum number of seconds to make an empty environment. It takes 3 s, but more than 2 minutes on
a machine that is very busy."""


def checked_source(given: str) -> Path:
    """Return the path of a wheel or of a folder with the source of the bot. Raises
    `UpgradeRefused`."""
    path = Path(given).absolute()
    if path.is_file() and path.suffix == ".whl" and path.name.startswith("nekro_core-"):
        return path
    project = path / "pyproject.toml"
    if project.is_file() and f'name = "{_PACKAGE}"' in project.read_text("utf-8"):
        return path
    raise UpgradeRefused(
        f"{given}: expected a wheel (nekro_core-0.2.0-py3-none-any.whl) or a folder with the "
        "source of nekro-core, which has a pyproject.toml"
    )


def make_environment(
    source: Path, versions: Path, *, say: Callable[[str], None], now: float
) -> Path:
    """Make an environment and install a version into it, with the extras that are in use here.
    Return the path of its Python. Raises `UpgradeRefused`; then the folder of the environment is
    left as it is, so that the operator can look at it."""
    folder = versions / datetime.fromtimestamp(now, UTC).strftime("%Y%m%d-%H%M%S")
    extras = installed_extras()
    wanted = f"{source}[{','.join(extras)}]" if extras else str(source)
    say(f"making the environment {folder}, with nekro-core from {wanted}")
    versions.mkdir(parents=True, exist_ok=True)
    run_program([sys.executable, "-P", "-m", "venv", str(folder)], _SHORT_S)
    python = folder / "bin" / "python"
    pip = [str(python), "-P", "-m", "pip", "--disable-pip-version-check"]
    run_program([*pip, "install", "--quiet", wanted], _INSTALL_S)
    return python


def version_of(python: Path) -> str:
    """Return the version of the bot in an environment. Raises `UpgradeRefused`."""
    # Without -P, Python would import the code of the folder in which the command is started, which
    # can be a checkout of the old version.
    code = "import nekro_core; print(nekro_core.__version__)"
    return run_program([str(python), "-P", "-c", code], _SHORT_S).strip()


def installed_extras() -> list[str]:
    """Return the extras of the bot whose packages are all installed here."""
    try:
        own = distribution(_PACKAGE)
    except PackageNotFoundError:
        return []
    needed = [Requirement(each) for each in own.requires or ()]
    found = []
    for extra in own.metadata.get_all("Provides-Extra") or ():
        packages = [
            each.name
            for each in needed
            if each.marker is not None
            and each.marker.evaluate({"extra": extra})
            and not each.marker.evaluate({"extra": ""})
        ]
        if extra not in _NOT_TAKEN_OVER and packages and all(map(_is_installed, packages)):
            found.append(extra)
    return found


def switch_current(versions: Path, python: Path) -> Path:
    """Make ``versions/current`` a link to the environment of ``python``, in one step. Return the
    link. Raises `OSError`."""
    link = versions / CURRENT
    fresh = versions / f".{CURRENT}.new"
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(python.parent.parent.name, target_is_directory=True)
    fresh.replace(link)
    return link


def program_of(python: Path) -> Path:
    """Return the path of the program ``nekro`` of an environment. If ``versions/current`` is a link
    to the environment, the path goes through the link, so that it is right after the next upgrade
    too."""
    folder = python.parent.parent
    link = folder.with_name(CURRENT)
    by_link = link.is_symlink() and link.resolve() == folder.resolve()
    return (link if by_link else folder) / python.parent.name / "nekro"


def _is_installed(name: str) -> bool:
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True
