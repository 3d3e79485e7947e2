"""The import graph of small made-up trees has the right circles."""

from pathlib import Path

from tests.house import imports
from tests.house.tree import Tree


def tree(root: Path, **files: str) -> Tree:
    """Write files and return their tree. Each keyword is a path below nekro_core/, with ``__`` for
    a slash and ``face`` for ``__init__``. The value is the file's text."""
    for name, text in files.items():
        inner = name.replace("__", "/").replace("face", "__init__")
        path = root / "nekro_core" / f"{inner}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        for parent in path.relative_to(root).parents:
            if parent.parts and not (root / parent / "__init__.py").exists():
                (root / parent / "__init__.py").touch()
    return Tree(root)


def files_in_circles(here: Tree) -> list[tuple[str, ...]]:
    edges = imports.between_files(here, imports.arrows(here))
    return [each.nodes for each in imports.circles(edges, more_than=2)]


def rooms_in_circles(here: Tree) -> list[tuple[str, ...]]:
    edges = imports.between_rooms(here, imports.arrows(here))
    return [each.nodes for each in imports.circles(edges, more_than=1)]


THREE = (("nekro_core/a/one.py", "nekro_core/a/three.py", "nekro_core/a/two.py"),)


def test_three_files_that_import_each_other_are_a_circle(tmp_path: Path) -> None:
    here = tree(
        tmp_path,
        a__one="from nekro_core.a.two import X\n",
        a__two="from nekro_core.a import three\n",
        a__three="import nekro_core.a.one\n",
        a__four="from nekro_core.a import one, two, three\n",
    )
    assert files_in_circles(here) == [*THREE]


def test_two_files_that_import_each_other_are_not_a_circle(tmp_path: Path) -> None:
    here = tree(
        tmp_path, a__one="from nekro_core.a import two", a__two="from nekro_core.a import one"
    )
    assert files_in_circles(here) == []


def test_an_import_for_types_closes_a_circle(tmp_path: Path) -> None:
    for_types = (
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from nekro_core.a.one import X\n"
    )
    here = tree(
        tmp_path,
        a__one="from nekro_core.a import two",
        a__two="from nekro_core.a import three",
        a__three=for_types,
    )
    assert files_in_circles(here) == [*THREE]
    (arrow,) = (each for each in imports.arrows(here) if each.module == "nekro_core.a.one")
    assert str(arrow) == "nekro_core/a/three.py:3 -> nekro_core.a.one: X (type only)"


def test_an_import_inside_a_function_closes_a_circle(tmp_path: Path) -> None:
    here = tree(
        tmp_path,
        a__one="from nekro_core.a import two",
        a__two="from nekro_core.a import three",
        a__three="async def later():\n    from . import one\n    return one\n",
    )
    assert files_in_circles(here) == [*THREE]


def test_a_module_named_by_a_string_closes_a_circle(tmp_path: Path) -> None:
    for text in (
        'import importlib\nimportlib.import_module("nekro_core.a.one")',
        'from importlib import import_module\nrun(import_module, "nekro_core.a.one")',
        'from importlib import import_module\nimport_module(".one", __package__)',
        'TABLE = ("nekro_core.a.one:Name",)',
    ):
        here = tree(
            tmp_path,
            a__one="from nekro_core.a import two",
            a__two="from nekro_core.a import three",
            a__three=text,
        )
        assert files_in_circles(here) == [*THREE], text


def test_an_f_string_may_mean_every_module_of_its_package(tmp_path: Path) -> None:
    here = tree(
        tmp_path,
        a__choose="from importlib import import_module\n"
        'import_module(f".kinds.{name}", __package__)',
        a__kinds__one="",
        a__kinds__two="",
    )
    found = [each.module for each in imports.arrows(here)]
    assert found == ["nekro_core.a.kinds.one", "nekro_core.a.kinds.two"]


def test_a_package_that_names_itself_does_not_import_itself(tmp_path: Path) -> None:
    here = tree(tmp_path, a__one='from importlib.resources import files\nfiles("nekro_core.a")')
    assert not list(imports.arrows(here))


def test_a_module_name_in_guest_code_is_not_an_import(tmp_path: Path) -> None:
    here = tree(tmp_path, sandbox__guest__a='HANDED = "nekro_core.sandbox.b"', sandbox__b="")
    assert not list(imports.arrows(here))


def test_scripts_import_files_of_their_folder_by_short_names(tmp_path: Path) -> None:
    here = tree(tmp_path, a__guest_one="import guest_two\nimport json", a__guest_two="")
    assert [each.module for each in imports.arrows(here)] == ["nekro_core.a.guest_two"]


def test_a_re_exported_name_counts_as_imported_from_its_file(tmp_path: Path) -> None:
    here = tree(
        tmp_path,
        a__face="from nekro_core.a.one import X\nfrom nekro_core.a.two import Y\n",
        a__one="from nekro_core.b.use import Z",
        a__two="",
        b__use="from nekro_core.a import Y",
        b__other="",
    )
    assert files_in_circles(here) == []
    # Between rooms the ``__init__`` counts as a file of its room: b imports a, and a imports b.
    assert rooms_in_circles(here) == [("nekro_core/a", "nekro_core/b")]


def test_a_file_that_imports_from_its_own_package_is_in_a_circle(tmp_path: Path) -> None:
    here = tree(
        tmp_path,
        a__face="from nekro_core.a.one import X\nfrom nekro_core.a.two import Y\n",
        a__one="from nekro_core.a.two import Z",
        a__two="from nekro_core.a import X",
    )
    assert files_in_circles(here) == [
        ("nekro_core/a/__init__.py", "nekro_core/a/one.py", "nekro_core/a/two.py")
    ]


def test_rooms_can_be_in_a_circle_while_their_files_are_not(tmp_path: Path) -> None:
    here = tree(
        tmp_path,
        a__one="from nekro_core.b import one",
        b__one="",
        b__two="from nekro_core.c import one",
        c__one="",
        c__two="from nekro_core.a import two",
        a__two="",
        d__one="from nekro_core.a import one",
    )
    assert files_in_circles(here) == []
    assert rooms_in_circles(here) == [("nekro_core/a", "nekro_core/b", "nekro_core/c")]


def test_a_circle_between_the_sub_rooms_of_a_large_room_is_found(tmp_path: Path) -> None:
    here = tree(
        tmp_path,
        agent__turn__one="from nekro_core.agent.session import one\n"
        "from nekro_core.agent import values",
        agent__session__one="",
        agent__session__two="from nekro_core.agent.turn import two",
        agent__turn__two="",
        agent__values="",
    )
    assert rooms_in_circles(here) == []
    edges = imports.between_sub_rooms(here, imports.arrows(here))
    (circle,) = imports.circles(edges, more_than=1)
    assert circle.nodes == ("nekro_core/agent/session", "nekro_core/agent/turn")
    assert ("nekro_core/agent/turn", "nekro_core/agent/values.py") in edges


def test_the_one_import_whose_removal_opens_a_circle_is_named(tmp_path: Path) -> None:
    here = tree(
        tmp_path,
        a__low="def f():\n    from nekro_core.a import high\n",
        a__middle="from nekro_core.a.low import A, B",
        a__high="from nekro_core.a import low, middle",
    )
    edges = imports.between_files(here, imports.arrows(here))
    (circle,) = imports.circles(edges, more_than=2)
    assert [str(each) for each in circle.closing] == [
        "nekro_core/a/low.py:2 -> nekro_core.a.high (in a function)"
    ]
