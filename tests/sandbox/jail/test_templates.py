"""A box has the contents of its image, and nothing else from the machine."""

import tempfile
from pathlib import Path

import anyio
import pytest

from nekro_core.sandbox.box import Backend, Box, BoxSpec
from nekro_core.sandbox.jail.interpreter import Interpreter, ProcessIdentity
from nekro_core.sandbox.jail.runtime_folder import RuntimeFolder, open_runtime_folder
from nekro_core.sandbox.jail.templates import BoxTemplate, make_reachable
from nekro_core.system.locked_temp_folder import LockedTempFolder
from tests.sandbox.run_code import play


async def make(jail: Backend, image: str) -> Box:
    if image not in await jail.images():
        pytest.skip(f"no image {image} on this machine")
    return await jail.create(BoxSpec(template=image))


@pytest.mark.jail
async def test_the_image_of_a_python_version_has_exactly_that_version(jail: Backend) -> None:
    versions = [name for name in await jail.images() if name.startswith("python:")]
    assert versions
    for image in versions:
        box = await jail.create(BoxSpec(template=image))
        result = await play(box, "import platform\nprint(platform.python_version())")
        assert f"{result.output.strip()}.".startswith(image.partition(":")[2] + ".")
        await box.destroy()


@pytest.mark.jail
async def test_numpy_and_pillow_are_imported_in_advance(jail: Backend) -> None:
    box = await make(jail, "python-data")
    with anyio.fail_after(30):
        while (
            await play(box, "import sys\nprint('numpy' in sys.modules, 'PIL.Image' in sys.modules)")
        ).output != "True True\n":
            await anyio.sleep(0.05)
    code = """
        import subprocess, sys, numpy
        from PIL import Image
        Image.fromarray(numpy.zeros((2, 3, 3), dtype="uint8")).save("black.png")
        print(Image.open("black.png").size)
        print(subprocess.run([sys.executable, "-c", "import numpy; print(numpy.ones(2).sum())"],
            capture_output=True, text=True).stdout, end="")
    """
    assert (await play(box, code)).output == "(3, 2)\n2.0\n"
    await box.destroy()


@pytest.mark.jail
async def test_the_plain_image_has_no_further_packages(jail: Backend) -> None:
    box = await jail.create(BoxSpec())
    code = """
        import importlib.util
        print([name for name in ("numpy", "PIL", "nekro_core") if importlib.util.find_spec(name)])
    """
    assert (await play(box, code)).output == "[]\n"
    await box.destroy()


@pytest.mark.jail
async def test_node_and_npm_run(jail: Backend) -> None:
    box = await make(jail, "node:22")
    code = """
        import subprocess
        script = "console.log(process.version.split('.')[0], [1, 2, 3].map(n => n * 2).join())"
        for words in (["node", "-e", script], ["npm", "--version"]):
            done = subprocess.run(words, capture_output=True, text=True)
            print(done.returncode, done.stdout.strip() or done.stderr)
    """
    first, second = (await play(box, code)).output.splitlines()
    assert first == "0 v22 2,4,6"
    assert second.startswith("0 10.")
    await box.destroy()


def test_files_that_boxes_cannot_reach_are_copied(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    (closed / "package" / "inner").mkdir(parents=True)
    (closed / "package" / "__init__.py").write_text("found = True")
    (closed / "package" / "inner" / "code.py").write_text("")
    (closed / "program").write_text("#!/bin/sh\n")
    closed.chmod(0o700)
    held = LockedTempFolder(tmp_path, "runtime-")
    laid_out = held.path
    template = BoxTemplate(
        interpreter=Interpreter("/usr/bin/python3", "/usr", (3, 11), "3.11.2", ()),
        binds=((closed / "package", "/run/packages/package"), (closed / "program", "/opt/x")),
    )
    folder = RuntimeFolder(held)
    assert make_reachable(template, folder, ProcessIdentity(), own_paths=False) == template
    reached = make_reachable(template, folder, ProcessIdentity(uid=54_321), own_paths=False)
    (package, inside), (program, _) = reached.binds
    assert package.is_relative_to(laid_out)
    assert inside == "/run/packages/package"
    assert (package / "__init__.py").read_text() == "found = True"
    assert (package / "inner" / "code.py").exists()
    assert program.stat().st_mode & 0o777 == 0o755
    held.remove()


def test_files_in_a_home_are_linked_under_neutral_paths(tmp_path: Path) -> None:
    home = tmp_path / "alice" / "package"
    (home / "__pycache__").mkdir(parents=True)
    (home / "__init__.py").write_text("found = True")
    (home / "__pycache__" / "__init__.cpython-311.pyc").write_text(str(home))
    (tmp_path / "alice" / "program").write_text("#!/bin/sh\n")
    (tmp_path / "alice" / "program").chmod(0o755)
    held = LockedTempFolder(tmp_path, "runtime-")
    template = BoxTemplate(
        interpreter=Interpreter("/usr/bin/python3", "/usr", (3, 11), "3.11.2", ()),
        binds=((home, "/run/packages/package"), (home.with_name("program"), "/opt/x")),
    )
    for identity in (ProcessIdentity(), ProcessIdentity(uid=54_321)):
        reached = make_reachable(template, RuntimeFolder(held), identity)
        for path, _ in reached.binds:
            assert path.is_relative_to(held.path)
            files = [path, *(one for one in path.rglob("*") if one.is_file())]
            assert not any(b"alice" in one.read_bytes() for one in files if one.is_file())
        (package, _), (program, _) = reached.binds
        assert program.samefile(home.with_name("program"))  # a hard link takes no space
        assert list((package / "__pycache__").glob("__init__.*.pyc"))
    assert home.with_name("program").stat().st_mode & 0o777 == 0o755
    held.remove()


def test_the_runtime_folder_ignores_tmpdir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder = open_runtime_folder(None, shared=False)
    assert not folder.path.is_relative_to(tmp_path)
    folder.remove()
