"""The checks of docstrings, names, packages and layout find their faults in small made-up trees."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.house import docs, errors, layout, names, packages, ratchet, singles
from tests.house.checks import CHECKS, House
from tests.house.measures import Lines, lines_of, measured, new_findings, report, unpack
from tests.house.tree import Tree


def written(root: Path, files: Mapping[str, str]) -> Tree:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return Tree(root)


def test_a_class_name_is_shared_only_if_several_files_define_it(tmp_path: Path) -> None:
    here = written(
        tmp_path,
        {
            "nekro_core/a.py": "class Run: ...\nclass _No: ...\nclass One:\n    class Meta: ...",
            "adapters/b.py": "from a import Run as R\nclass Run: ...\nclass _No: ...\nOne = Run",
            "plugins/c.py": "if x:\n    class Twice: ...\nelse:\n    class Twice: ...",
        },
    )
    shared = names.shared_class_names(here)
    assert {name: [each.where for each in shared[name]] for name in shared} == {
        "Run": ["nekro_core/a.py:1", "adapters/b.py:2"]
    }


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("LateSends", ("late", "sends")),
        ("late_sends", ("late", "sends")),
        ("HTTPDoor2", ("http", "door", "2")),
        ("_x", ("x",)),
    ],
)
def test_names_are_split_into_words(name: str, words: tuple[str, ...]) -> None:
    assert names.split(name) == words


def test_definitions_with_old_names_are_found(tmp_path: Path) -> None:
    table = tmp_path / "old.toml"
    table.write_text(
        '[[name]]\nold = ["conduct"]\nnow = "policy"\n'
        '[[name]]\nold = ["Rest"]\nwhole = true\nkinds = ["class"]\nnow = "CooldownState"\n'
        '[[name]]\nold = ["agent"]\nbelow = "nekro_core/sandbox/"\nnow = "supervisor"\n'
    )
    here = written(
        tmp_path,
        {
            "nekro_core/conduct/file.py": "class ConductFile: ...\nclass Conducted: ...",
            "nekro_core/t.py": "class Rest: ...\nclass RestOf: ...\ndef rest(): ...\nConduct = 1",
            "nekro_core/u.py": "class T:\n    def agent(self): ...\n    def _conduct(self): ...",
            "nekro_core/sandbox/link.py": "class T:\n    def agent_of(self): ...",
            "nekro_core/compat/names.py": "class Conduct: ...",
            "nekro_core/api/x.py": "from nekro_core.t import Policy as Conduct\nRest = Conduct",
        },
    )
    found = names.old_names_borne(here, names.old_names(table))
    assert {(str(one), old.now) for one, old in found} == {
        ("nekro_core/conduct/file.py:1: class ConductFile", "policy"),
        ("nekro_core/conduct: package conduct", "policy"),
        ("nekro_core/t.py:1: class Rest", "CooldownState"),
        ("nekro_core/sandbox/link.py:2: method agent_of", "supervisor"),
    }


FULL = '''
"""Adds.

    Args:
        one: In seconds,
            at most 5.
        *rest (int): More of it.

    Returns:
        The sum.

    Raises:
        ValueError: Where one is too large.
    """'''


@pytest.mark.parametrize(
    ("source", "lacks"),
    [
        (f"def f(one, *rest) -> int:\n    {FULL.strip()}\n    raise ValueError", ()),
        (f"def f(one, two, *rest) -> int:\n    {FULL.strip()}", ("Args (two)",)),
        ('def f() -> None:\n    "Does."', ()),
        ("def f() -> None: ...", ("a docstring",)),
        ('def f(a, *, b, **c) -> None:\n    """Args: a and b."""', ("Args (a, b, c)",)),
        ('def f(_) -> "int":\n    "It."', ("Returns",)),
        ('def f():\n    "It."\n    return 1', ("Returns",)),
        ('def f():\n    "It."\n    def g():\n        raise E\n    return', ()),
        ('def f() -> None:\n    "It."\n    if x:\n        raise E("x")', ("Raises",)),
        ('def f() -> None:\n    "It."\n    try: g()\n    except E: raise', ()),
        ('def f() -> None:\n    "It."\n    raise NotImplementedError', ()),
        ('def f() -> Iterator[int]:\n    """It.\n\n    Yields:\n        Them.\n    """', ()),
        ('def f() -> int:\n    """It.\n\n    Yields:\n        Them.\n    """', ("Returns",)),
        ('def f() -> int:\n    """It.\n\n    Returns:\n    """', ("Returns",)),
    ],
)
def test_a_docstring_must_describe_arguments_result_and_errors(
    source: str, lacks: tuple[str, ...], tmp_path: Path
) -> None:
    text = "from nekro_core.room import f\n__all__ = ['f']"
    here = written(tmp_path, {"nekro_core/api/x.py": text, "nekro_core/room.py": source})
    (one,) = docs.public_api(here)
    assert (one.name, one.lacks) == ("f", lacks)


def test_methods_bases_and_fields_of_a_class_are_checked_too(tmp_path: Path) -> None:
    here = written(
        tmp_path,
        {
            "nekro_core/api/__init__.py": "",
            "nekro_core/api/x.py": (
                "from nekro_core.face import *\nfrom nekro_core.room import made, Data\n"
                "from nekro_core import values\n"
                "__all__ = ['Thing', 'made', 'Data', 'values', 'N']\nN = 5"
            ),
            "nekro_core/face.py": "from nekro_core.room import Thing\n__all__ = ['Thing']",
            "nekro_core/values.py": "def v(): ...\ndef _v(): ...",
            "nekro_core/base.py": (
                "class Base:\n    'B.'\n    def told(self, a) -> None:\n        'Tells.'\n"
                "    def deep(self) -> None:\n        'Deep.'"
            ),
            "nekro_core/room.py": (
                "from nekro_core.base import Base\n"
                "class Thing(Base):\n    'It.'\n    def __init__(self, size): raise E(1)\n"
                "    def told(self, a) -> None: ...\n"
                "    @property\n    def size(self) -> int:\n        'Of it.'\n"
                "    @overload\n    def go(self, a): ...\n"
                "    @staticmethod\n    def go(a):\n        'Goes.'\n"
                "    def _hidden(self): ...\n"
                "class Maker:\n    'Makes.'\n    def make(self) -> int:\n        'Makes.'\n"
                "made = Maker()\n"
                "@dataclass(frozen=True)\nclass Data:\n    'D.'\n    a: int\n    b: int = 5\n"
                "    'Bytes.'\n    _c: int = 1\n    D: ClassVar[int] = 2"
            ),
        },
    )
    assert {one.name: one.lacks for one in docs.public_api(here)} == {
        "Thing": ("Args (size)", "Raises"),
        "Thing.size": (),
        "Thing.go": ("Args (a)",),
        "Base.told": ("Args (a)",),
        "Base.deep": (),
        "Maker": (),
        "Maker.make": ("Returns",),
        "Data": ("Args (a)",),
        "v": ("a docstring",),
    }


def test_only_the_topmost_error_class_without_the_root_is_listed(tmp_path: Path) -> None:
    here = written(
        tmp_path,
        {
            "nekro_core/system/errors.py": "class NekroError(Exception): ...",
            "nekro_core/a.py": (
                "from nekro_core.system.errors import NekroError\nimport http\n"
                "class Good(NekroError): ...\nclass Both(Good, ValueError): ...\n"
                "class Bad(ValueError): ...\nclass Worse(Bad): ...\n"
                "class Http(http.HTTPError): ...\nclass Value: ...\nclass G(list[int]): ..."
            ),
            "nekro_core/b.py": "from nekro_core import a\nclass X(a.Bad): ...\nclass Y(a.Good): 0",
            "nekro_core/sandbox/guest/g.py": "class Inside(Exception): ...",
            "adapters/x.py": "class Other(Exception): ...",
        },
    )
    assert list(errors.without_root(here)) == ["nekro_core/a.py: Bad", "nekro_core/a.py: Http"]


def test_undeclared_imports_and_unused_declarations_are_listed(tmp_path: Path) -> None:
    here = written(
        tmp_path,
        {
            "pyproject.toml": (
                "[project]\ndependencies = ['anyio>=4', 'nonebot2[fastapi]', 'pyyaml']\n"
                "[project.optional-dependencies]\nsound = ['idna; x']\ndev = ['regex']"
            ),
            "nekro_core/a.py": (
                "import anyio.abc, json, regex\nfrom nekro_core import b\n"
                "from importlib import import_module\nfrom nonebot.adapters.onebot import v11\n"
                "def f(): import_module('h11')"
            ),
            "examples/x.py": "import nonebot",
        },
    )
    assert packages.undeclared(here) == {
        "regex": "nekro_core/a.py:1: imports regex of regex, which is not declared",
        "nonebot-adapter-onebot": "nekro_core/a.py:4: imports nonebot.adapters.onebot.v11 "
        "of nonebot-adapter-onebot, which is not declared",
        "h11": "nekro_core/a.py:5: imports h11 of h11, which is not declared",
    }
    assert packages.not_imported(here) == {
        "pyyaml": "pyproject.toml: pyyaml (dependencies) is declared, but no file imports it",
        "idna": "pyproject.toml: idna (extra sound) is declared, but no file imports it",
    }


def test_http_clients_other_than_ours_are_listed(tmp_path: Path) -> None:
    here = written(
        tmp_path,
        {
            "nekro_core/ours.py": "import httpx, h11\nfrom urllib.parse import quote",
            "nekro_core/two.py": "import httpx2\nfrom requests import Session",
            "adapters/slow.py": "from urllib.request import urlopen",
            "plugins/late.py": "from importlib import import_module\nimport_module('aiohttp')",
        },
    )
    assert singles.other_http_clients(here) == {
        "nekro_core/two.py": "nekro_core/two.py:1: imports httpx2; our HTTP client is httpx",
        "adapters/slow.py": "adapters/slow.py:1: imports urllib.request.urlopen; "
        "our HTTP client is httpx",
        "plugins/late.py": "plugins/late.py:2: imports aiohttp; our HTTP client is httpx",
    }


def test_locks_and_queues_by_key_are_listed(tmp_path: Path) -> None:
    head = "import anyio\nfrom collections import deque\n"
    here = written(
        tmp_path,
        {
            "nekro_core/a.py": head + "class A:\n    x: dict[str, anyio.Lock] = {}",
            "nekro_core/b.py": head + "class L:\n    q = deque()\nx: OrderedDict[int, L] = {}",
            "nekro_core/c.py": head + "x.setdefault(key, anyio.Semaphore(1))",
            "nekro_core/d.py": head + "x: dict[str, list[int]] = {}\ny: deque[int] = deque()",
            "nekro_core/system/keyed_queue.py": head + "x: dict[str, deque[int]] = {}",
        },
    )
    assert list(singles.other_keyed_queues(here)) == [f"nekro_core/{n}.py" for n in "abc"]


def test_loops_that_drop_old_times_are_listed(tmp_path: Path) -> None:
    loop = "while times and times[0] {} now - 60:\n    times.{}()"
    here = written(
        tmp_path,
        {
            "adapters/a.py": loop.format("<=", "popleft"),
            "nekro_core/b.py": "while waiting[0] is None:\n    waiting.popleft()",
            "nekro_core/system/rate_window.py": loop.format("<", "popleft"),
        },
    )
    assert list(singles.other_rate_windows(here)) == ["adapters/a.py"]


def test_calls_that_confine_a_process_elsewhere_are_listed(tmp_path: Path) -> None:
    here = written(
        tmp_path,
        {
            "nekro_core/a.py": "import ctypes\nctypes.CDLL(None).prctl(1, 9)",
            "plugins/b.py": "import resource\nresource.setrlimit(1, (2, 2))",
            "nekro_core/system/confinement/c.py": "library.syscall(444)",
            "nekro_core/sandbox/guest/d.py": "library.prctl(4)",
            "nekro_core/e.py": "resource.getrlimit(1)",
        },
    )
    assert singles.other_confinement(here) == {
        "nekro_core/a.py": "nekro_core/a.py:2: calls prctl; "
        "what confines a process is in nekro_core/system/confinement/",
        "plugins/b.py": "plugins/b.py:2: calls setrlimit; "
        "what confines a process is in nekro_core/system/confinement/",
    }


def test_sentences_in_code_are_listed(tmp_path: Path) -> None:
    here = written(
        tmp_path,
        {
            "nekro_core/a.py": 'CmdCtl.failed(f"You may not {this}.")',
            "nekro_core/b.py": 'x = Text("Please wait")',
            "adapters/c.py": '"""说明"""\nTITLE = "标题"',
            "nekro_core/d.py": 'CmdCtl.message(say("own.quota.done"))\nText(f"{name}:\\n")',
            "plugins/e.py": 'NAME = i18n_text(zh_CN="名字", en_US="name")',
        },
    )
    assert singles.sentences_in_code(here) == {
        "nekro_core/a.py": "nekro_core/a.py:1: 'You may not ' belongs into the catalogue",
        "nekro_core/b.py": "nekro_core/b.py:1: 'Please wait' belongs into the catalogue",
        "adapters/c.py": "adapters/c.py:2: '标题' belongs into the catalogue",
    }


def test_sql_outside_the_store_is_listed(tmp_path: Path) -> None:
    here = written(
        tmp_path,
        {
            "nekro_core/a.py": 'x = "SELECT seq\\nFROM messages"',
            "adapters/b.py": 'x = f"DELETE FROM {table} WHERE 1"',
            "nekro_core/c.py": 'x = "Select one from the list"\ny = "UPDATE me"',
            "nekro_core/store/d.py": 'x = "INSERT INTO a VALUES (1)"',
        },
    )
    assert list(singles.sql_elsewhere(here)) == ["nekro_core/a.py", "adapters/b.py"]


def test_functions_that_the_architecture_page_names_must_exist(tmp_path: Path) -> None:
    here = written(
        tmp_path,
        {
            "nekro_core/agent/turn.py": (
                "class Turn:\n    async def run(self): ...\n"
                "    class Step:\n        def ask(self): ...\n"
                "if x:\n    def wake(): ...\nKind = int"
            )
        },
    )
    assert layout.wrong_hops(here, tmp_path) == ["ARCHITECTURE.md is not there"]
    good = ["Turn.run", "Turn.run()", "Turn", "Turn.Step.ask", "wake", "Kind"]
    hops = [f"`nekro_core/agent/turn.py: {name}`" for name in good]
    bad = [
        "`nekro_core/agent/turn.py: Turn.ask`",
        "`nekro_core/gone.py: f`",
        "`turn.py`, `a: b`, `tests/`",
    ]
    (tmp_path / "ARCHITECTURE.md").write_text("\n".join([*hops, *bad]))
    assert layout.wrong_hops(here, tmp_path) == [
        "ARCHITECTURE.md:7: nekro_core/agent/turn.py has no Turn.ask",
        "ARCHITECTURE.md:8: nekro_core/gone.py is not there",
    ]
    (tmp_path / "ARCHITECTURE.md").write_text("\n".join(hops))
    assert layout.wrong_hops(here, tmp_path) == [
        "ARCHITECTURE.md names 6 functions, of at least 8 hops"
    ]


def test_files_and_folders_that_the_architecture_page_names_must_exist(tmp_path: Path) -> None:
    written(tmp_path, {"nekro_core/agent/turn.py": "", "nekro_core/plugins/host/a.py": ""})
    assert layout.missing_paths(tmp_path) == []
    (tmp_path / "ARCHITECTURE.md").write_text(
        "`nekro_core/agent/`, `nekro_core/agent/turn.py: Turn`, `turn.py`, `adapters/NAME/`,\n"
        "`plugins/host/`\n"
        "`nekro_core/agent/turns.py: Turn` or `adapters/x/`"
    )
    assert layout.missing_paths(tmp_path) == [
        "ARCHITECTURE.md:3: nekro_core/agent/turns.py is not there",
        "ARCHITECTURE.md:3: adapters/x/ is not there",
    ]


def test_files_directly_in_the_package_count_as_loose(tmp_path: Path) -> None:
    names_there = ["__init__.py", "__main__.py", "py.typed", "cli.py", "notes.txt", "room/a.py"]
    written(tmp_path, {f"nekro_core/{name}": "" for name in names_there})
    assert layout.loose_files(tmp_path) == ["nekro_core/cli.py", "nekro_core/notes.txt"]


def test_a_count_that_fell_is_written_and_one_that_rose_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "not_yet.toml"
    path.write_text("a = 5\nb = 2\nc = 1\n")
    assert ratchet.lower({"a": 3, "b": 4, "c": 0, "d": 1}, path) == [
        "b rose from 2 to 4",
        "d rose from 0 to 1",
    ]
    assert ratchet.read(path) == {"a": 3, "b": 2}


def test_lines_are_counted_without_docstrings_comments_and_blank_ones(tmp_path: Path) -> None:
    text = (
        '"""Two\nlines."""\n\n# why\nX = """a\n\n# b"""  # c\n"Of it."\n'
        '\ndef f():\n    "It."\n    return (\n        1\n    )\n'
    )
    here = written(tmp_path, {"nekro_core/a.py": text})
    assert lines_of(next(iter(here))) == Lines(all=14, without_docstrings=10, code=7)


def test_a_report_compares_two_commits(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        who = ("-c", "user.name=x", "-c", "user.email=x@example.org")
        subprocess.run(["git", *who, *arguments], cwd=tmp_path, check=True, capture_output=True)

    files = {
        "pyproject.toml": "[project]\ndependencies = []\noptional-dependencies = {}",
        "nekro_core/room/a.py": "class Wrong(Exception): ...\ndef f(): ...\n",
    }
    written(tmp_path, files)
    git("init", "--quiet")
    git("add", ".")
    git("commit", "--quiet", "--message", "First")
    files["nekro_core/room/a.py"] = (
        "\n\nclass Wrong(Exception): ...\nclass More(ValueError): ...\ndef f(): ...\n"
    )
    written(tmp_path, files)
    earlier = tmp_path / "earlier"
    earlier.mkdir()
    unpack("HEAD", tmp_path, earlier)
    now, base = (measured(House(root, justified={})) for root in (tmp_path, earlier))
    assert now.outcomes.keys() == CHECKS.keys()
    lines = list(report(now, base))
    assert f"{1:>9}{2:>9}{'+1':>8}  errors_without_root" in lines
    assert list(new_findings(now, base)) == [
        "errors_without_root: nekro_core/room/a.py:4: More(ValueError)"
    ]
    assert f"{2:>9}  errors_without_root" in list(report(now))
