"""The documents of the repository agree with each other and with the code."""

import ast
import inspect
import os
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from nekro_core.api import adapter
from tests.house.layout import HOP

ROOT = Path(__file__).parents[2]
DECISIONS = ROOT / "docs/decisions"
CONTRIBUTING = ROOT / "CONTRIBUTING.md"
FORMS = ROOT / ".github/ISSUE_TEMPLATE"
NOT_OURS = {"node_modules", "data", "dist", "site", "versions", "__pycache__"}
"""Folders that git does not have. Folders whose names begin with a dot are skipped, too."""

_FENCED = re.compile(r"^( *)```(\w*)\n(.*?)^\1```", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\]\(([^()\s]+)\)")
_CODE = re.compile(r"`([^`\n]+)`")
_HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.MULTILINE)
_MADE = re.compile(r"^make ([a-z][a-z-]*)", re.MULTILINE)


def committed(*suffixes: str) -> Iterator[Path]:
    """Files of the repository with one of these endings.

    This does not ask git, because a copy of the repository may come without git's data.
    """
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [
            each
            for each in folders
            if each not in NOT_OURS and (not each.startswith(".") or each == ".github")
        ]
        yield from (Path(folder) / each for each in files if each.endswith(suffixes))


PAGES = sorted(committed(".md"))
DECISION_FILES = sorted(DECISIONS.glob("[0-9]*.md"))


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, made from the headings as GitHub makes them."""
    found: set[str] = set()
    for heading in _HEADING.findall(_FENCED.sub("", page.read_text("utf-8"))):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        base = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        count = 0
        anchor = base
        while anchor in found:
            count += 1
            anchor = f"{base}-{count}"
        found.add(anchor)
    return found


def links(page: Path) -> list[str]:
    prose = _CODE.sub("", _FENCED.sub("", page.read_text("utf-8")))
    return [each for each in _LINK.findall(prose) if not re.match(r"[a-z]+:", each)]


def blocks(page: Path, kind: str) -> list[str]:
    return [text for _, each, text in _FENCED.findall(page.read_text("utf-8")) if each == kind]


def make_targets() -> dict[str, str]:
    """The targets of the Makefile and their commands."""
    text = (ROOT / "Makefile").read_text("utf-8")
    rules = re.findall(r"^([a-z][a-z-]*):(?!=).*\n((?:\t.*\n)*)", text, re.MULTILINE)
    return dict(rules)


def test_the_main_pages_exist() -> None:
    names = {name(page) for page in PAGES}
    assert {
        "README.md",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "docs/README.md",
        "docs/decisions/README.md",
        ".github/PULL_REQUEST_TEMPLATE.md",
    } <= names


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_to_files_and_headings_have_a_target(page: Path) -> None:
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{name(page)} links to {link}, which does not exist"
        if anchor:
            assert anchor in anchors(target), f"{name(page)} links to {link}: no such heading"


def test_pages_that_the_code_names_exist() -> None:
    """Comments and docstrings name pages by path, and decisions by path or by number."""
    numbers = {each.name[:4] for each in DECISION_FILES}
    for source in committed(".py", ".toml", ".md", "Makefile", ".sh"):
        text = source.read_text("utf-8")
        for path in re.findall(r"\bdocs/(?:[\w-]+/)*[\w.-]+\.md\b", text):
            assert (ROOT / path).exists(), f"{name(source)} names {path}, which does not exist"
        for number in re.findall(r"\bdecisions/(\d{4})\b", text):
            assert number in numbers, f"{name(source)} names decision {number}"


def test_each_decision_is_in_the_index_once_by_its_first_line() -> None:
    entries = re.findall(
        r"^- \[(\d{4})\]\(([\w.-]+)\) (.+)$",
        (DECISIONS / "README.md").read_text("utf-8"),
        re.MULTILINE,
    )
    indexed = sorted((number, path, sentence) for number, path, sentence in entries)
    assert indexed == [
        (each.name[:4], each.name, each.read_text("utf-8").splitlines()[0].removeprefix("# "))
        for each in DECISION_FILES
    ]


def test_decisions_are_numbered_without_gaps() -> None:
    numbers = [int(each.name[:4]) for each in DECISION_FILES]
    assert numbers == list(range(1, len(numbers) + 1))


def test_the_index_of_docs_lists_every_page_in_every_language() -> None:
    indexed = [each.partition("#")[0] for each in links(ROOT / "docs/README.md")]
    pages = {each.name for each in (ROOT / "docs").glob("*.md")} - {"README.md"}
    assert pages == {each for each in indexed if "/" not in each}
    for folder in ("decisions", "wire"):
        assert any(each.startswith(f"{folder}/") for each in indexed)


@pytest.mark.parametrize("readme", ["README.md", "README.zh.md", "README.ja.md"])
def test_each_readme_links_the_main_pages(readme: str) -> None:
    targets = {each.partition("#")[0] for each in links(ROOT / readme)}
    assert {"ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/README.md"} <= targets


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "README.md", "README.zh.md", "README.ja.md"])
def test_each_make_target_that_is_named_exists(page: str) -> None:
    text = (ROOT / page).read_text("utf-8")
    code = _CODE.findall(_FENCED.sub("", text)) + [each[2] for each in _FENCED.findall(text)]
    named = {target for each in code for target in _MADE.findall(each)}
    assert {"check" if page == "CONTRIBUTING.md" else "run"} <= named
    assert named <= set(make_targets())


def test_pre_commit_runs_what_make_check_runs() -> None:
    configuration = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))
    (repository,) = configuration["repos"]
    assert repository["repo"] == "local"
    hooks = repository["hooks"]
    commands = [each.replace("$(BIN)", ".venv/bin") for each in make_targets()["check"].split("\n")]
    assert [each["entry"] for each in hooks] == [each.strip() for each in commands if each]
    assert all(shlex.split(each["entry"])[0].startswith(".venv/bin/") for each in hooks)
    assert not any(each["pass_filenames"] for each in hooks)


def test_the_example_in_contributing_equals_the_code() -> None:
    """If this fails, copy the changed code into CONTRIBUTING.md or choose another example."""
    (example,) = [each for each in blocks(CONTRIBUTING, "python") if "def write_whole" in each]
    assert example == inspect.getsource(adapter.write_whole)


def test_the_example_of_a_comment_is_in_the_code() -> None:
    (example,) = [each for each in blocks(CONTRIBUTING, "python") if "WITHIN" in each]
    sources = (ROOT / "nekro_core").rglob("*.py")
    assert any(example in each.read_text("utf-8") for each in sources), example


def test_the_example_in_contributing_of_a_renamed_class_warns_if_its_old_name_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (example,) = [each for each in blocks(CONTRIBUTING, "python") if "OldName" in each]
    (tmp_path / "example_of_renaming.py").write_text(example)
    monkeypatch.syspath_prepend(tmp_path)
    try:
        with pytest.warns(DeprecationWarning, match="is called NewName since") as warned:
            from example_of_renaming import NewName, OldName  # noqa: PLC0415
        assert OldName is NewName
        assert [each.filename for each in warned] == [__file__]
        with pytest.raises(ImportError, match="Nobody"):
            from example_of_renaming import Nobody  # noqa: F401, PLC0415
    finally:
        sys.modules.pop("example_of_renaming", None)


@pytest.mark.parametrize("form", ["bug", "plugin", "feature"])
def test_issue_forms_have_the_fields_that_github_requires(form: str) -> None:
    content = yaml.safe_load((FORMS / f"{form}.yml").read_text("utf-8"))
    assert set(content) <= {"name", "description", "title", "labels", "body"}
    assert content["name"]
    assert content["description"]
    asked = [each for each in content["body"] if each["type"] != "markdown"]
    ids = [each["id"] for each in asked]
    assert len(set(ids)) == len(ids) > 0
    for each in content["body"]:
        assert each["type"] in {"markdown", "textarea", "input", "dropdown", "checkboxes"}
        assert each["attributes"].get("value") or each["attributes"].get("label")


NO_PATHS = (
    ".ci/",
    "data/",
    "audio/",
    "video/",
    "multipart/",
    "secrets/",
    "dice_cup/",
    "copies/",
    "versions/",
)
"""Some texts look like paths of the repository but are not. They begin with one of these: folders
of a running bot, media types, and the plugin that a reader of the guide writes."""
EXPLAINS_OLD_NAMES = {"CHANGELOG.md", "docs/decisions/0033-rooms-and-names.md"}
PATHS_CHECKED_ELSEWHERE = {"ARCHITECTURE.md"}
"""`tests.house.layout` checks the paths and hops of this page."""
NOT_OF_OUR_CODE = {
    *("allow_pickle", "max_inotify_instances", "on_startup", "pg_dump", "sock_diag"),
    *("c2c_group_at_messages", "connection_upgrade", "http_upgrade", "message_content"),
    *("CHOKIDAR_USEPOLLING", "EventSource", "WATCHFILES_FORCE_POLLING"),
    *("enable_authenticated_media", "on_bot_connect", "ONEBOT_V12_WS_URLS"),
    *("all_old", "egress.toml", "setup.py", "github__create_issue", "guild/channel", "your_bot"),
    *("adapters/NAME", "group_C024BE91L"),
    *("test_a_recalled_message_ends_the_turn",),
    *("HAPROXY_IMAGE", "NAPCAT_IMAGE", "NATS_IMAGE", "PORT_OF_GATEWAY2", "POSTGRES_IMAGE"),
}
"""Names that other programs define (Linux, NoneBot, nginx, Discord, QQ, Synapse, numpy, pip), a
file of a running bot, variables of compose.yaml, and examples."""

NAMES_OF_LIBRARIES = {
    *("ByteReceiveStream", "ByteSendStream", "DirectoryPath", "FilePath", "on_ready"),
    *("MaiMessages", "ToolParameterInfo", "wait_closed"),
}
"""Names of anyio, asyncio, pydantic, NoneBot and MaiBot's SDK that docstrings mention."""

_IN_BACKTICKS = re.compile(r"(?<!`)`[^`\n]+`(?!`)|``[^`\n]+``")
_PATH = re.compile(r"[\w.-]+(?:/[\w.-]+)+/?|[\w-]+\.(?:py|toml)")
_NAME = re.compile(r"[A-Za-z_]\w*")
_SEVERAL_WORDS = re.compile(r"[^_]_+[^_]|[a-z][A-Z]|^__")


_LISTED_FILE = re.compile(r"(?<![\w/])[a-z]\w*(?:\.py|/)(?=\s|$)")
_OUR_FILE = re.compile(
    r"(?<![\w/.])(?:nekro_core|tests|adapters|plugins|bench|docs)/(?:\w+/)*\w+\.(?:py|toml)\b"
)
MAKES_UP_PATHS = (
    *("tests/house/", "tests/mutants/test_mutants.py", "tests/e2e/test_wheel.py"),
    "tests/cli/adapter_kit/",
)
"""Files that contain example paths, or paths of a wheel or an adapter that a test writes."""


def listed_files(room: Path) -> list[str]:
    """The files that a package's docstring lists: indented lines, each a name before a text."""
    text = ast.get_docstring(ast.parse(room.read_text("utf-8"))) or ""
    lines = re.findall(r"^    (?=\w+(?:\.py|/)\s)(.*)", text, re.MULTILINE)
    return [each for line in lines for each in _LISTED_FILE.findall(line)]


ROOMS_WITH_LISTS = [
    each for each in sorted((ROOT / "nekro_core").rglob("__init__.py")) if listed_files(each)
]


@pytest.fixture(scope="module")
def names_in_code() -> set[str]:
    found: set[str] = set()
    for source in committed(
        ".py", ".toml", ".js", ".html", ".sh", ".yml", ".txt", ".json", "Makefile", "Dockerfile"
    ):
        if source not in (Path(__file__), ROOT / "tests/house/old_names.toml"):
            found.update(_NAME.findall(source.read_text("utf-8", errors="replace")))
    return found


@pytest.fixture(scope="module")
def paths() -> set[str]:
    """The path of every file and folder of the repository, and every tail of such a path."""
    found: set[str] = set()
    for source in committed(""):
        parts = source.relative_to(ROOT).parts
        for end in range(1, len(parts) + 1):
            found.update("/".join(parts[begin:end]) for begin in range(end))
    return found


def missing_names(text: str, known: set[str]) -> list[str]:
    """Names of several words that the code does not have. A setting (``NEKRO_A__B_C``, ``__B_C`` or
    ``B_C``) exists if each of its parts is a name in the code."""
    return [
        each
        for each in _NAME.findall(text)
        if _SEVERAL_WORDS.search(each)
        and each not in known
        and each not in NOT_OF_OUR_CODE
        and not (
            each.isupper()
            and known >= {*each.removeprefix("NEKRO_").lower().strip("_").split("__")}
        )
    ]


def missing_paths(text: str, known: set[str]) -> list[str]:
    return [
        each
        for each in [text.removeprefix("./").removesuffix("/")]
        if _PATH.fullmatch(text)
        and not text.startswith(NO_PATHS)
        and each not in known
        and each not in NOT_OF_OUR_CODE
    ]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_names_and_paths_between_backticks_exist(
    page: Path, names_in_code: set[str], paths: set[str]
) -> None:
    if name(page) in EXPLAINS_OLD_NAMES:
        return
    wrong: list[str] = []
    text = page.read_text("utf-8")
    if name(page) in PATHS_CHECKED_ELSEWHERE:
        hops = {word for _, hop in HOP.findall(text) for word in hop.split(".")}
        names_in_code = names_in_code | hops
    for code in _CODE.findall(_FENCED.sub("", text)):
        if _PATH.fullmatch(code):
            if name(page) not in PATHS_CHECKED_ELSEWHERE:
                wrong += missing_paths(code, paths)
        else:
            wrong += missing_names(code, names_in_code)
    assert not wrong


def test_names_between_backticks_in_the_code_exist() -> None:
    """A docstring or comment that mentions a name must change when the name changes."""
    texts = {
        each: each.read_text("utf-8")
        for each in committed(".py")
        if "tests" not in each.relative_to(ROOT).parts
    }
    known = NOT_OF_OUR_CODE | NAMES_OF_LIBRARIES
    for text in texts.values():
        known.update(_NAME.findall(_IN_BACKTICKS.sub("", text)))
    wrong = [
        f"{name(source)}: {word}"
        for source, text in texts.items()
        for code in _IN_BACKTICKS.findall(text)
        if not code.startswith("``")  # double backticks mark names that are not in our code
        for word in missing_names(code, known)
    ]
    assert not wrong


@pytest.mark.parametrize("room", ROOMS_WITH_LISTS, ids=name)
def test_files_that_a_rooms_docstring_lists_are_there(room: Path) -> None:
    assert [each for each in listed_files(room) if not (room.parent / each).exists()] == []


def test_paths_that_the_code_names_exist(paths: set[str]) -> None:
    wrong = [
        f"{name(source)}: {path}"
        for source in committed(".py", ".toml", ".sh", "Makefile")
        if not name(source).startswith(MAKES_UP_PATHS)
        for path in _OUR_FILE.findall(source.read_text("utf-8"))
        if path not in paths
    ]
    assert not wrong


def test_names_and_paths_that_do_not_exist_are_found() -> None:
    known = {"KeyedQueue", "settle_s", "delivery"}
    text = "`KeyedQueue.take_turn` of `NEKRO_DELIVERY__SETTLE_S`, `__SETTLE_S`, `SETTLE_S`"
    assert missing_names(text, known) == ["take_turn"]
    assert missing_names("NEKRO_DELIVERY__SETTLED_S", known) == ["NEKRO_DELIVERY__SETTLED_S"]
    assert missing_paths("tests/gone/", {"tests"}) == ["tests/gone"]
    assert missing_paths("data/gone", {"tests"}) == []


def test_a_listed_file_is_read_from_a_docstring(tmp_path: Path) -> None:
    room = tmp_path / "__init__.py"
    room.write_text('"""A room.\n\n::\n\n    a.py  b.py\n          two\n    c/    three\n"""\n')
    assert listed_files(room) == ["a.py", "b.py", "c/"]
