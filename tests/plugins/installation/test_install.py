"""Plugins are installed from folders, zips and git, and removed. A bad plugin changes nothing."""

import json
import stat
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from nekro_core.plugins.host.file_moves import NOTE_NAME, PluginMove, move_files
from nekro_core.plugins.host.switches import read_list
from nekro_core.plugins.installation.bot_follower import InstallRefused
from nekro_core.plugins.installation.files import FilesRefused
from nekro_core.plugins.installation.inspection import inspect_plugin
from nekro_core.plugins.installation.install import Installer
from nekro_core.plugins.installation.installed import InstallRecords
from nekro_core.plugins.installation.own_writes import changes_of_others
from nekro_core.plugins.installation.sources import SourceRefused, parse
from nekro_core.plugins.installation.unpack import unpack
from nekro_core.plugins.packages import (
    InvalidRequirements,
    PackageFolder,
    PackagesRefused,
)
from nekro_core.plugins.packages.requirements import PluginRequirement, parse_requirement
from nekro_core.store import DataFolderLock
from tests.compat.maibot.plant import plant
from tests.plugins.packages.wheels import make_wheel, only_these
from tests.plugins.world import World, plugin_source

pytestmark = pytest.mark.long


class Operator:
    """Answers each question with yes, and stores what the installer printed."""

    def __init__(self, data: Path) -> None:
        self.answer = True
        self.lines: list[str] = []
        self.installer = Installer(
            data_dir=data,
            shelf=PackageFolder(data),
            ask=lambda question: self.lines.append(question) or self.answer,
            say=self.lines.append,
        )

    def install(self, source: Path | str) -> str:
        self.lines.clear()
        return self.installer.install(parse(str(source)))

    @property
    def heard(self) -> str:
        return "\n".join(self.lines)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def operator(data: Path) -> Operator:
    return Operator(data)


@pytest.fixture
def cup(tmp_path: Path) -> Path:
    """The source folder of a plugin."""
    folder = tmp_path / "work" / "dice-cup"
    (folder / "__pycache__").mkdir(parents=True)
    (folder / "__pycache__" / "old.pyc").write_bytes(b"")
    (folder / "__init__.py").write_text(plugin_source("cup", "shake"))
    (folder / "words.txt").write_text("six")
    return folder


def files_of(data: Path) -> set[str]:
    return {
        path.relative_to(data / "plugins").as_posix()
        for path in (data / "plugins").rglob("*")
        if path.is_file()
    }


def test_a_folder_is_installed_updated_and_removed(
    operator: Operator, cup: Path, data: Path
) -> None:
    assert operator.install(cup) == "local/cup"
    assert files_of(data) == {"cup/__init__.py", "cup/words.txt"}
    assert "ann.cup 1: cup" in operator.heard
    assert "tools for the AI: shake" in operator.heard
    assert "all that the bot's user may do" in operator.heard
    record = InstallRecords(data).all()["local/cup"]
    assert (record.key, record.version, record.kind) == ("ann.cup", "1", "folder")
    assert sorted(record.files) == ["__init__.py", "words.txt"]
    with pytest.raises(InstallRefused, match="nekro plugin update cup"):
        operator.install(cup)

    assert operator.installer.update("cup") == ""
    (cup / "words.txt").write_text("five")
    (cup / "__init__.py").write_text(plugin_source("cup", "shake", more="\nimport httpx\n"))
    (data / "plugins" / "cup" / "words.txt").write_text("mine")
    assert InstallRecords(data).changed_since("local/cup") == ["changed words.txt"]
    with pytest.raises(InstallRefused, match=r"changed here \(changed words\.txt\): --force"):
        operator.installer.update("ann.cup")
    operator.lines.clear()
    assert operator.installer.update("ann.cup", force=True) == "local/cup"
    assert "NEW: talks to the network (httpx)" in operator.heard
    assert (data / "plugins" / "cup" / "words.txt").read_text() == "five"
    assert InstallRecords(data).changed_since("local/cup") == []

    kept = data / "plugin_data" / "ann.cup"
    kept.mkdir(parents=True)
    assert operator.installer.remove("ann.cup") == "local/cup"
    assert (files_of(data), kept.exists(), InstallRecords(data).all()) == (set(), True, {})
    operator.install(cup)
    operator.installer.remove("local/cup", data=True)
    assert not kept.exists()
    with pytest.raises(InstallRefused, match="no plugin 'cup'"):
        operator.installer.remove("cup")


@pytest.mark.slow
def test_files_that_a_plugin_writes_are_not_listed_as_changes_and_stay_after_an_update(
    operator: Operator, cup: Path, data: Path
) -> None:
    (cup / "config.json").write_text("{}")
    operator.install(cup)
    place = data / "plugins" / "cup"
    (place / "config.json").write_text('{"mine": 1}')
    (place / "kept" / "scores.db").parent.mkdir()
    (place / "kept" / "scores.db").write_text("9")
    (place / "words.txt").unlink()
    records = InstallRecords(data)
    assert changes_of_others(records.changed_since("local/cup")) == []
    assert operator.installer.update("cup") == ""  # the source has no new version

    (cup / "words.txt").write_text("seven")
    assert operator.installer.update("cup") == "local/cup"
    assert (place / "config.json").read_text() == '{"mine": 1}'
    assert (place / "kept" / "scores.db").read_text() == "9"
    assert (place / "words.txt").read_text() == "seven"
    assert changes_of_others(records.changed_since("local/cup")) == []

    (place / "__init__.py").write_text("changed")
    (place / "extra.py").write_text("")
    told = ["changed __init__.py", "new extra.py"]
    assert changes_of_others(records.changed_since("local/cup")) == told
    with pytest.raises(InstallRefused, match=r"changed here \(changed __init__.py, new extra.py"):
        operator.installer.update("cup")
    (cup / "config.json").write_text('{"theirs": 1}')
    with pytest.raises(InstallRefused, match=r"changed config\.json"):
        operator.installer.update("cup")
    assert operator.installer.update("cup", force=True) == "local/cup"
    assert (place / "config.json").read_text() == '{"theirs": 1}'
    assert (place / "kept" / "scores.db").read_text() == "9"


@pytest.mark.parametrize("key", ["..", "../../precious", "/precious", "a/b"])
def test_a_plugin_key_that_is_a_path_deletes_no_other_folder(
    operator: Operator, data: Path, key: str
) -> None:
    folder = data / "plugins" / "demo"
    folder.mkdir(parents=True)
    (folder / "_manifest.json").write_text(json.dumps({"id": key, "name": "Demo"}))
    (folder / "plugin.py").write_text("")
    (data / "plugin_data").mkdir()
    with pytest.raises(InstallRefused, match="no name of a folder"):
        operator.installer.remove("demo", data=True)
    assert folder.exists()
    assert (data / "plugin_data").exists()
    assert operator.installer.remove("demo") == "local/demo"


def test_the_answer_no_to_a_question_changes_nothing(
    operator: Operator, cup: Path, data: Path
) -> None:
    operator.answer = False
    assert operator.install(cup) == ""
    assert files_of(data) == set()
    assert [path.name for path in data.iterdir()] == []


@pytest.mark.slow
def test_a_single_file_is_installed_even_if_it_is_already_in_the_plugins_folder(
    operator: Operator, tmp_path: Path, data: Path
) -> None:
    (tmp_path / "solo.py").write_text(plugin_source("solo", "f"))
    assert operator.install(tmp_path / "solo.py") == "local/solo"
    by_hand = data / "plugins" / "hand.py"
    by_hand.write_text(plugin_source("hand", "g"))
    shown = operator.installer.propose(parse(str(by_hand)))
    by_hand.write_text(plugin_source("hand", "h"))
    with pytest.raises(InstallRefused, match="other files now than those that were shown"):
        operator.installer.install(parse(str(by_hand)), expected=shown.digest)
    assert sorted(InstallRecords(data).all()) == ["local/solo"]
    shown = operator.installer.propose(parse(str(by_hand)))
    assert operator.installer.install(parse(str(by_hand)), expected=shown.digest) == "local/hand"
    assert files_of(data) == {"solo.py", "hand.py"}
    assert sorted(InstallRecords(data).all()) == ["local/hand", "local/solo"]
    (tmp_path / "twin.py").write_text(plugin_source("solo", "f"))
    with pytest.raises(InstallRefused, match="local/solo is installed"):
        operator.install(tmp_path / "twin.py")


def test_a_plugin_is_installed_from_git(operator: Operator, cup: Path, data: Path) -> None:
    git(cup, "init", "--quiet", "--initial-branch=main")
    git(cup, "add", "__init__.py", "words.txt")
    git(cup, "commit", "--quiet", "-m", "one")
    address = f"git+file://{cup}#main"
    assert operator.install(address) == "local/cup"
    first = InstallRecords(data).all()["local/cup"].commit
    assert first == git(cup, "rev-parse", "HEAD").strip()
    assert f"commit {first[:12]}" in operator.heard
    assert files_of(data) == {"cup/__init__.py", "cup/words.txt"}
    (cup / "words.txt").write_text("new")
    git(cup, "commit", "--quiet", "-am", "two")
    assert operator.installer.update("cup") == "local/cup"
    assert InstallRecords(data).all()["local/cup"].commit != first
    for wrong in ("git+file:///nowhere/at/all", f"git+file://{cup}#gone"):
        with pytest.raises(SourceRefused, match="git failed"):
            operator.install(wrong)
    with pytest.raises(SourceRefused, match="not a branch"):
        operator.install(f"git+file://{cup}#--upload-pack=touch")


def test_a_command_that_is_killed_leaves_every_plugin_whole(tmp_path: Path) -> None:
    """The command (update, rollback, remove with and without data, install) is killed with SIGKILL
    at each of its file operations."""
    command = [sys.executable, "-m", "tests.plugins.installation.killed", str(tmp_path)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert [(line[0], line[2]) for line in lines] == [
        ("update", "old>new"),
        ("rollback", "new>old"),
        ("remove", "old>gone"),
        ("erase", "old>gone"),
        ("install", "gone>new"),
    ]
    for line in lines:
        assert int(line[1]) > 15, "steps"
        assert len(line) == 5, "only the states before and after the command may be found"


def test_a_second_command_is_refused_while_the_first_one_runs(
    operator: Operator, cup: Path, data: Path
) -> None:
    operator.install(cup)
    plan = PluginMove(
        item="local/other", key="", place="plugins/other", aside="x/y", replaces=False, wanted=True
    )
    with move_files(data, plan), pytest.raises(InstallRefused, match="wait for it"):
        operator.installer.remove("cup")
    assert files_of(data) == {"cup/__init__.py", "cup/words.txt"}
    (data / NOTE_NAME).write_text("{")
    assert operator.installer.remove("cup") == "local/cup"


def git(folder: Path, *arguments: str) -> str:
    who = ("-c", "user.name=ann", "-c", "user.email=ann@example.invalid")
    command = ["git", "-C", str(folder), *who, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def zipped(path: Path, *entries: tuple[str | zipfile.ZipInfo, str]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in entries:
            archive.writestr(name, text)
    return path


def link(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.create_system = 3
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    return info


def packed(name: str, way: int) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name)
    entry.compress_type = way
    return entry


@pytest.mark.slow
def test_a_zip_in_the_layout_of_code_hosts_is_installed(
    operator: Operator, tmp_path: Path, data: Path
) -> None:
    source = plugin_source("cup", "shake")
    whole = zipped(
        tmp_path / "cup-main.zip",
        ("cup-main/__init__.py", source),
        ("cup-main/inner/more.py", ""),
    )
    assert operator.install(whole) == "local/cup"
    assert files_of(data) == {"cup/__init__.py", "cup/inner/more.py"}
    operator.installer.remove("cup")
    around = zipped(tmp_path / "x.zip", ("README.md", ""), ("cup/__init__.py", source))
    assert operator.install(around) == "local/cup"


MAIBOT = """
from maibot_sdk import MaiBotPlugin, Tool

class Demo(MaiBotPlugin):
    @Tool("hello", description="Say hello.")
    async def hello(self, **kwargs): ...

    async def on_load(self): ...

    async def on_unload(self): ...

    async def on_config_update(self, *args): ...

def create_plugin():
    return Demo()
"""


def test_a_maibot_plugin_is_installed(operator: Operator, tmp_path: Path, data: Path) -> None:
    dependency = {"type": "python_package", "name": "httpx", "version_spec": ">=0.20"}
    planted = plant(
        tmp_path,
        MAIBOT,
        plugin_id="ann.mai-demo",
        name="Demo",
        version="1.0.0",
        capabilities=["send.text"],
        dependencies=[dependency],
    )
    files = [(f"mai-main/{each.name}", each.read_text()) for each in planted.iterdir()]
    packed = zipped(tmp_path / "mai.zip", *files)
    assert operator.install(packed) == "local/mai_demo"
    assert files_of(data) == {"mai_demo/_manifest.json", "mai_demo/plugin.py"}
    assert operator.heard.startswith("ann.mai-demo 1.0.0: Demo")
    assert "tools for the AI: hello" in operator.heard
    assert "may use send.text, at _manifest.json" in operator.heard
    assert "needs packages: httpx>=0.20 (all there)" in operator.heard


@pytest.mark.slow
def test_a_plugin_is_checked_with_the_plugins_that_it_needs(
    operator: Operator, tmp_path: Path, data: Path
) -> None:
    needs = [{"type": "plugin", "id": "ann.rates", "version_spec": ">=1.0.0"}]
    rates = plant(tmp_path, MAIBOT, plugin_id="ann.rates")
    talk = plant(tmp_path, MAIBOT, plugin_id="ann.talk", dependencies=needs)
    with pytest.raises(InstallRefused, match=r"it needs the plugin ann\.rates"):
        operator.install(talk)
    assert operator.install(rates) == "local/rates"
    assert operator.install(talk) == "local/talk"
    assert operator.installer.update("talk") == ""


@pytest.mark.slow
def test_a_plugin_is_checked_with_the_configuration_that_it_has(
    operator: Operator, cup: Path, data: Path
) -> None:
    strict = """
from nekro_core.api.plugin import ConfigBase

@plugin.mount_config()
class Config(ConfigBase):
    \"\"\"Settings.\"\"\"
    KEY: str = ""

@plugin.mount_init_method()
async def init():
    assert plugin.get_config(Config).KEY, "set KEY"
"""
    (cup / "__init__.py").write_text(plugin_source("cup", "shake", more=strict))
    with pytest.raises(InstallRefused, match="set KEY"):
        operator.install(cup)
    (data / "plugin_data" / "ann.cup").mkdir(parents=True)
    (data / "plugin_data" / "ann.cup" / "config.yaml").write_text("KEY: abc")
    assert operator.install(cup) == "local/cup"


SOURCE = ("__init__.py", plugin_source("cup", "shake"))


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ([SOURCE, ("../out.py", "")], "leads out"),
        ([SOURCE, ("a/../../out.py", "")], "leads out"),
        ([SOURCE, ("/etc/out.py", "")], "leads out"),
        ([SOURCE, ("..\\out.py", "")], "leads out"),
        ([SOURCE, ("C:\\out.py", "")], "leads out"),
        ([SOURCE, ("a\x01b.py", "")], "leads out"),
        ([SOURCE, (link("link"), "/etc/passwd")], "is a link"),
        ([SOURCE, ("a.py", ""), ("A.py", "")], "two files are called"),
        ([SOURCE, ("a", ""), ("a/b.py", "")], "two files have the path|cannot be unpacked"),
        ([SOURCE, (packed("a.txt", zipfile.ZIP_BZIP2), "")], "unsupported compression method"),
        ([SOURCE, (packed("a.txt", zipfile.ZIP_LZMA), "")], "unsupported compression method"),
        ([("folder/", "")], "there is no file in it"),
        ([("readme.txt", "")], "no plugin in it"),
        ([SOURCE, *((f"{n}.txt", "") for n in range(6000))], "over 5000 files"),
    ],
)
def test_a_hostile_zip_is_refused_with_a_reason(
    operator: Operator,
    tmp_path: Path,
    data: Path,
    entries: list[tuple[str | zipfile.ZipInfo, str]],
    words: str,
) -> None:
    with pytest.raises((FilesRefused, SourceRefused), match=words):
        operator.install(zipped(tmp_path / "bad.zip", *entries))
    assert [path.name for path in tmp_path.rglob("*out.py")] == []
    assert list(data.iterdir()) == []


def test_a_zip_with_a_false_size_is_refused(tmp_path: Path) -> None:
    bomb, place = tmp_path / "bomb.zip", tmp_path / "place"
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("__init__.py", "#" * 50_000)
    with pytest.raises(FilesRefused, match="over 5000 files or 10000 bytes"):
        unpack(bomb, place, most_bytes=10_000)
    size, smaller = (50_000).to_bytes(4, "little"), (100).to_bytes(4, "little")
    bomb.write_bytes(bomb.read_bytes().replace(size, smaller))
    with pytest.raises(FilesRefused, match=r"unpacks to over|no readable zip"):
        unpack(bomb, place, most_bytes=10_000)
    bomb.write_bytes(b"PK\x03\x04 nothing of the kind")
    with pytest.raises(FilesRefused, match="no readable zip"):
        unpack(bomb, place)


def test_control_characters_in_a_plugin_name_are_escaped(
    operator: Operator, cup: Path, data: Path
) -> None:
    """Without escaping, a name could erase the lines above the question, which say what the plugin
    does."""
    hiding = "Cup\x1b[2J\x1b[1;1H\nonly a cup\u202e"
    (cup / "__init__.py").write_text(
        plugin_source("cup", "shake") + f"\nimport subprocess\nNekroPlugin(name={hiding!r})\n"
    )
    (cup / "sly\x1b[8m.py").write_text("import socket\n")
    operator.answer = False
    operator.install(cup)
    assert "starts programs on this machine" in operator.heard
    assert "sly\\x1b[8m.py:1" in operator.heard
    assert "Cup\\x1b[2J\\x1b[1;1H\\x0aonly a cup\\x202e" in operator.heard
    assert not {"\x1b", "\u202e"} & set(operator.heard)


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("https://ann:sesame@host/x.git#main", "https://***@host/x.git#main"),
        ("git+https://sesame@host/x.git", "https://***@host/x.git"),
        ("ssh://git:sesame@host/x.git", "ssh://git:***@host/x.git"),
        ("ssh://git@host:22/x.git", "ssh://git@host:22/x.git"),
        ("git@host:ann/x.git", "git@host:ann/x.git"),
        ("https://host/a@b.git", "https://host/a@b.git"),
    ],
)
def test_credentials_of_a_repository_are_not_shown(address: str, shown: str) -> None:
    source = parse(address)
    assert str(source) == shown
    assert source.address == address.removeprefix("git+").partition("#")[0]


@pytest.mark.parametrize("manifest", ["[" * 200_000, '{"capabilities": 5}', '{"name": [1]}', "1"])
def test_a_malformed_maibot_manifest_in_a_nekro_core_plugin_is_ignored(
    cup: Path, manifest: str
) -> None:
    (cup / "_manifest.json").write_text(manifest)
    assert inspect_plugin(cup).tools == ("shake",)


def test_a_source_that_is_not_one_plugin_is_refused_with_a_reason(
    operator: Operator, tmp_path: Path, cup: Path
) -> None:
    with pytest.raises(SourceRefused, match="or a git address"):
        operator.install(tmp_path / "missing")
    (tmp_path / "two" / "a").mkdir(parents=True)
    (tmp_path / "two" / "b").mkdir()
    for name in "ab":
        (tmp_path / "two" / name / "__init__.py").write_text(plugin_source(name, "f"))
    with pytest.raises(SourceRefused, match=r"several plugins in it \(a, b\)"):
        operator.install(tmp_path / "two")
    (cup / "link").symlink_to("/etc/passwd")
    with pytest.raises(FilesRefused, match="a link; a plugin must contain the file itself"):
        operator.install(cup)


@pytest.mark.long
def test_a_plugin_is_installed_with_its_packages_or_not_at_all(
    operator: Operator, cup: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    only_these(tmp_path / "index", monkeypatch)
    make_wheel(tmp_path / "index", "nk_cup", "1.0")
    for text, error, words in (
        ("pydantic<2", PackagesRefused, "local/cup needs pydantic<2, and the bot itself has"),
        ("-r other.txt", InvalidRequirements, r"requirements\.txt:1: .* is an option of pip"),
        ("x @ https://example.invalid/x.whl", InvalidRequirements, "is an address"),
        ("not a requirement", InvalidRequirements, "is no requirement"),
    ):
        (cup / "requirements.txt").write_text(text)
        with pytest.raises(error, match=words):
            operator.install(cup)
        assert files_of(data) == set()
    (cup / "requirements.txt").write_text("nk_cup>=1  # for cups\n\nhttpx\n")
    operator.installer.shelf.ensure(
        "local/gone", [PluginRequirement(parse_requirement("httpx"), "local/gone")]
    )
    other = PluginMove(
        item="local/other", key="", place="plugins/other", aside="x/y", replaces=False, wanted=True
    )
    with move_files(data, other), pytest.raises(InstallRefused, match="wait for it"):
        operator.install(cup)
    assert operator.installer.shelf.needs == {}
    operator.install(cup)
    assert "needs packages: nk_cup>=1, httpx" in operator.heard
    assert "got nk-cup 1.0" in operator.heard
    assert operator.installer.shelf.needs == {"local/cup": ["nk_cup>=1", "httpx"]}
    operator.installer.remove("cup")
    assert operator.installer.shelf.held == {}


async def test_a_running_bot_loads_installed_plugins_and_unloads_removed_ones(
    tmp_path: Path, cup: Path
) -> None:
    world = World(tmp_path / "data")
    operator = Operator(world.data_dir)

    def state() -> str:
        return {each.item: each.state for each in read_list(world.data_dir)}.get("local/cup", "")

    async def until(condition: Callable[[], bool]) -> None:
        with anyio.fail_after(30):
            while not condition():
                await anyio.sleep(0.02)

    world.data_dir.mkdir()
    with DataFolderLock(world.data_dir):
        async with world.bot(look_s=0.05) as registry:
            await anyio.to_thread.run_sync(operator.install, cup)
            await until(lambda: state() == "loaded")
            (cup / "__init__.py").write_text(plugin_source("cup", "shake", "spill"))
            await anyio.to_thread.run_sync(operator.installer.update, "cup")
            await until(lambda: len(registry.plugins()[0].tools) == 2)
            await anyio.to_thread.run_sync(operator.installer.remove, "cup")
            await until(lambda: registry.plugins() == () and state() == "")
