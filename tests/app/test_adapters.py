"""Adapters are found by their manifests. A broken one is reported, and the others still run."""

import importlib
import json
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import anyio
import pytest

from nekro_core.app.adapters import (
    AdapterBroken,
    AdapterDirectory,
    adapter_makers,
    erase_from_adapters,
    load_adapter,
)
from nekro_core.app.app import App
from nekro_core.app.settings import Settings
from nekro_core.chat.redact import RedactionTarget
from nekro_core.cli.plugin_kit.run import _environment
from nekro_core.delivery.adapter_manifest import AdapterManifest, ManifestError, read_manifests
from nekro_core.llm.scripted import ScriptedModel
from nekro_core.store import Person, PersonTraces
from nekro_core.testing import TestPlatform

PERSON = Person(adapter="quiltpost", user_id="10001", instances=("quiltpost",))
CODE = """
class Adapter:
    name = "{name}"

def create(host, driver):
    return Adapter()

async def forget(data_dir, person, traces):
    (data_dir / (person.user_id + ".txt")).unlink()
    return 1
"""


@pytest.fixture(autouse=True)
def _modules() -> Iterator[None]:
    before = {*sys.modules}
    yield
    for name in {*sys.modules} - before:
        if name.startswith(("nekro_adapters", "quilt_for_nekro")):
            del sys.modules[name]


def write(folder: Path, manifest: str, code: str = "") -> Path:
    folder.mkdir(parents=True)
    (folder / "adapter.toml").write_text(manifest)
    (folder / "__init__.py").write_text(code)
    return folder


def install(site: Path, name: str, package: str, manifest: str, code: str) -> None:
    """Write what pip would install: a package, and a distribution whose entry point names the
    adapter."""
    write(site / package, manifest, code)
    info = site / f"{package}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[nekro_core.adapters]\n{name} = {package}\n")


def test_a_working_directory_with_its_own_adapters_folder_does_not_hide_the_built_in_adapters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "adapters", "[onebot_v11]", "raise SystemExit")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    found = AdapterDirectory.find(tmp_path)
    assert [each.name for each in found.enabled(())] == ["onebot_v11", "web"]
    maker = load_adapter(found.manifests["onebot_v11"], {})
    assert callable(maker.create)
    assert sys.modules["nekro_builtin.adapters.onebot_v11"].create is not None
    assert maker.options["ws_max_size"] > 2**24


def test_an_adapter_in_the_data_folder_runs_when_it_is_enabled(tmp_path: Path) -> None:
    write(tmp_path / "adapters" / "quiltpost", "[quiltpost]", CODE.format(name="quiltpost"))
    found = AdapterDirectory.find(tmp_path)
    assert found.problems == ()
    assert "quiltpost" not in {each.name for each in found.enabled(())}
    (manifest,) = [each for each in found.enabled(("quiltpost",)) if not each.always]
    assert (manifest.title, manifest.settings) == ("quiltpost", ("quiltpost_",))
    assert load_adapter(manifest, {}).create(None, None, None).name == "quiltpost"


def test_an_installed_package_is_found_by_its_entry_point_without_importing_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(
        tmp_path / "site",
        "quiltpost",
        "quilt_for_nekro",
        "[quiltpost]",
        CODE.format(name="quiltpost"),
    )
    monkeypatch.syspath_prepend(tmp_path / "site")
    importlib.invalidate_caches()
    assert "quiltpost" not in AdapterDirectory.find(tmp_path).manifests, (
        "the folder search must not list an installed package"
    )
    assert "quiltpost" in AdapterDirectory.find(tmp_path, installed=True).manifests
    found = AdapterDirectory.find(tmp_path, ("quiltpost",))
    assert found.problems == ()
    assert "quilt_for_nekro" not in sys.modules
    assert (
        load_adapter(found.manifests["quiltpost"], {}).create(None, None, None).name == "quiltpost"
    )
    assert sys.modules["quilt_for_nekro"].__file__ == str(
        tmp_path / "site" / "quilt_for_nekro" / "__init__.py"
    )


def test_two_data_folders_in_one_process_each_load_their_own_code(tmp_path: Path) -> None:
    for each in ("one", "two"):
        code = f"{CODE.format(name='quiltpost')}\nADDRESS = {each!r}"
        write(tmp_path / each / "adapters" / "quiltpost", "[quiltpost]", code)
        found = AdapterDirectory.find(tmp_path / each)
        load_adapter(found.manifests["quiltpost"], {})
        assert each == sys.modules["nekro_adapters.quiltpost"].ADDRESS


@pytest.mark.parametrize(
    ("manifest", "words"),
    [
        ("", "names no adapter: expected a table, for example [quiltpost]"),
        ('name = "quiltpost"', "name = 'quiltpost' stands outside of a table"),
        ("[quiltpost", "is not TOML"),
        (
            "[Quiltpost]",
            "'Quiltpost' cannot stand in a chat key: expected at most 32 lower-case letters",
        ),
        ("[quiltpost]\nsetings = []", "setings is not known; did you mean settings?"),
        ("[quiltpost]\nxyz = 1", "xyz is not known; there are title, always, settings"),
        (
            '[quiltpost]\nsettings = "quiltpost_"',
            "settings = 'quiltpost_': expected a list of beginnings",
        ),
        ("[quiltpost]\nsettings = [1]", "settings = [1]: expected a list of beginnings"),
        ('[quiltpost]\nsettings = [""]', "settings = ['']: expected a list of beginnings"),
        ('[quiltpost]\nsettings = ["nekro_"]', "settings = ['nekro_']: expected"),
        ("[quiltpost]\nalways = 1", "always = 1: expected true or false"),
        (
            "[quiltpost]\ntitle = ['Quiltpost']",
            "title = ['Quiltpost']: expected the platform's name",
        ),
        ('[quiltpost]\neraser = "forget"', "expected a function in a module, for example"),
        (
            '[quiltpost]\ncapabilities = ["fly"]',
            "expected a list of some of accounts",
        ),
        ("#" * 70_000, "over 65536 bytes"),
        ("[web]", "the name web is taken by"),
    ],
)
def test_a_bad_manifest_is_reported_and_the_other_adapters_load(
    tmp_path: Path, manifest: str, words: str
) -> None:
    folder = write(tmp_path / "adapters" / "quiltpost", manifest)
    found = AdapterDirectory.find(tmp_path)
    (problem,) = found.problems
    assert words in problem
    assert str(folder) in problem
    assert {"onebot_v11", "web", "mail"} <= found.manifests.keys()


def test_a_folder_without_a_manifest_is_reported(tmp_path: Path) -> None:
    (tmp_path / "adapters" / "quiltpost").mkdir(parents=True)
    (tmp_path / "adapters" / "_shared").mkdir()
    (tmp_path / "adapters" / "notes.txt").touch()
    (problem,) = AdapterDirectory.find(tmp_path).problems
    assert "quiltpost has no adapter.toml: `nekro adapter new` writes one" in problem
    with pytest.raises(ManifestError):
        read_manifests(tmp_path / "nowhere", "nowhere")


@pytest.mark.parametrize(
    ("package", "words"),
    [
        ("gone_for_nekro", "names 'gone_for_nekro', and that is no package"),
        ("quilt_for_nekro", "its entry point is quiltpost, its manifest has no [quiltpost]"),
    ],
)
def test_a_bad_entry_point_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str, words: str
) -> None:
    site = tmp_path / "site"
    install(site, "quiltpost", "quilt_for_nekro", "[other]", "")
    (site / "quilt_for_nekro-1.0.dist-info" / "entry_points.txt").write_text(
        f"[nekro_core.adapters]\nquiltpost = {package}\n"
    )
    monkeypatch.syspath_prepend(site)
    importlib.invalidate_caches()
    (problem,) = AdapterDirectory.find(tmp_path, ("quiltpost",)).problems
    assert words in problem


@pytest.mark.parametrize(
    ("code", "extra", "words"),
    [
        ("import no_such_package", "quilt-for-nekro", "pip install 'quilt-for-nekro'"),
        ("import no_such_package", "", "cannot be imported"),
        ("1 / 0", "", "ZeroDivisionError"),
        ("", "", "makes no adapter quiltpost: expected a function create(host, driver)"),
        ("def factories(settings): return {}", "", "makes no adapter quiltpost"),
    ],
)
def test_broken_adapter_code_is_reported_and_the_other_adapters_load(
    tmp_path: Path, code: str, extra: str, words: str
) -> None:
    write(tmp_path / "adapters" / "quiltpost", f"[quiltpost]\nextra = {extra!r}", code)
    found = AdapterDirectory.find(tmp_path)
    with pytest.raises(AdapterBroken) as broken:
        load_adapter(found.manifests["quiltpost"], {})
    assert words in str(broken.value)
    makers = adapter_makers(found, {}, ("quiltpost",))
    assert [each.name for each in makers] == ["onebot_v11", "web"]


def test_an_adapter_whose_name_differs_from_its_manifest_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "adapters" / "quiltpost", "[quiltpost]", CODE.format(name="quiltpots"))
    maker = load_adapter(AdapterDirectory.find(tmp_path).manifests["quiltpost"], {})
    with pytest.raises(RuntimeError, match="it calls itself 'quiltpots'"):
        maker.create(None, None, None)


async def test_a_disabled_adapter_still_erases_people_from_its_files(
    tmp_path: Path,
) -> None:
    manifest = '[quiltpost]\neraser = "erasing:forget"'
    folder = write(tmp_path / "adapters" / "quiltpost", manifest, "")
    (folder / "erasing.py").write_text(CODE.format(name="quiltpost"))
    (tmp_path / "10001.txt").touch()
    forgotten = RedactionTarget(frozenset())
    assert await erase_from_adapters(tmp_path, PERSON, PersonTraces(), forgotten) == 1
    assert not (tmp_path / "10001.txt").exists()


async def test_an_eraser_that_fails_is_reported_and_the_other_erasers_run(tmp_path: Path) -> None:
    for name, code in (("a_first", "1 / 0"), ("quiltpost", CODE.format(name="quiltpost"))):
        write(tmp_path / "adapters" / name, f'[{name}]\neraser = "erasing:forget"', "")
        (tmp_path / "adapters" / name / "erasing.py").write_text(code)
    (tmp_path / "10001.txt").touch()
    with pytest.raises(OSError, match="adapter a_first: ZeroDivisionError"):
        await erase_from_adapters(tmp_path, PERSON, PersonTraces(), RedactionTarget(frozenset()))
    assert not (tmp_path / "10001.txt").exists()


def test_settings_are_assigned_to_the_adapter_that_declares_their_prefix(tmp_path: Path) -> None:
    write(tmp_path / "adapters" / "quiltpost", '[quiltpost]\nsettings = ["quiltpost_", "qp_"]', "")
    found = AdapterDirectory.find(tmp_path)
    names = ("quiltpost_bots", "qp_x", "web_port", "onebot_access_token", "telegram_bots", "home")
    assert found.own_settings((), names) == {"web_port": True, "onebot_access_token": True}
    assert found.own_settings(("quiltpost", "onebot_v12"), names) == {
        "quiltpost_bots": False,
        "qp_x": False,
        "web_port": True,
        "onebot_access_token": False,
    }


def test_nonebots_platform_names_are_mapped_to_adapters(tmp_path: Path) -> None:
    write(tmp_path / "adapters" / "quiltpost", '[quiltpost]\nnonebot_name = "qlt"', "")
    found = AdapterDirectory.find(tmp_path)
    assert found.superuser_platforms(None) == ("onebot_v11", "onebot_v12")
    assert found.superuser_platforms("onebot") == ("onebot_v11", "onebot_v12")
    assert found.superuser_platforms("kaiheila") == ("kook",)
    assert found.superuser_platforms("qlt") == ("quiltpost",)
    assert found.superuser_platforms("telegram") == ("telegram",)
    assert found.superuser_platforms("") == ("",), "an empty name must match no platform"


class Faulty:
    """A third-party adapter whose start fails or (with ``hangs``) never ends. Its stop fails
    too."""

    def __init__(self, name: str, *, hangs: bool = False) -> None:
        self.name = name
        self._hangs = hangs
        self.ended = False

    async def start(self) -> None:
        if self._hangs:
            await anyio.sleep_forever()
        raise ValueError("no address")

    async def aclose(self) -> None:
        self.ended = True
        raise ValueError("never started")


async def test_an_adapter_whose_start_or_stop_fails_does_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nekro_core.app.app._START_S", 0.2)
    settings = Settings(_env_file=None, nekro_data_dir=tmp_path)
    model, faulty = ScriptedModel(lambda _: ""), [Faulty("a"), Faulty("b", hangs=True)]
    started: list[str] = []
    platform = TestPlatform()

    async def start() -> None:
        started.append("test")

    platform.start = start
    async with App.open(settings, {}, model=model) as app:
        for adapter in (*faulty, platform):
            app.add_adapter(adapter)
        await app.start()
        assert started == ["test"]
    assert all(each.ended for each in faulty), "an adapter that failed to start must be stopped too"


async def test_a_builtin_adapter_that_refuses_to_start_ends_the_bot(tmp_path: Path) -> None:
    """OneBot refuses to start if strangers could send events without a token. The web page refuses
    to start if its instance belongs to another account."""
    settings = Settings(_env_file=None, nekro_data_dir=tmp_path)
    async with App.open(settings, {}, model=ScriptedModel(lambda _: "")) as app:
        app.add_adapter(Faulty("a"), builtin=True)
        with pytest.raises(ValueError, match="no address"):
            await app.start()


def test_the_bots_own_adapters_are_builtin_and_others_are_not(tmp_path: Path) -> None:
    write(tmp_path / "adapters" / "quiltpost", "[quiltpost]", CODE.format(name="quiltpost"))
    found = AdapterDirectory.find(tmp_path)
    assert load_adapter(found.manifests["onebot_v11"], {}).builtin
    assert not load_adapter(found.manifests["quiltpost"], {}).builtin


async def test_a_faulty_adapter_that_is_added_during_the_start_does_not_stop_the_start(
    tmp_path: Path,
) -> None:
    settings = Settings(_env_file=None, nekro_data_dir=tmp_path)
    async with App.open(settings, {}, model=ScriptedModel(lambda _: "")) as app:
        platform = TestPlatform()

        async def start() -> None:
            app.add_adapter(Faulty("brought"))

        platform.start = start
        app.add_adapter(platform)
        await app.start()
        assert "brought" in app.adapters


def test_the_bot_of_nekro_plugin_run_gets_no_platform_settings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("TELEGRAM_BOTS", "KAIHEILA_BOTS", "WEB_ACCESS_TOKEN", "NEKRO_PLATFORMS"):
        monkeypatch.setenv(name, "[]")
    monkeypatch.setenv("NEKRO_AGENT__PERSONA", "a cat")
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    given = _environment(Settings(_env_file=None))
    assert {"NEKRO_AGENT__PERSONA", "HTTPS_PROXY"} <= given.keys()
    assert not [n for n in given if n.startswith(("TELEGRAM_", "KAIHEILA_", "WEB_"))]
    assert "NEKRO_PLATFORMS" not in given


def test_the_bot_of_nekro_plugin_run_gets_the_settings_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "settings.toml").write_text(
        'platforms = ["telegram"]\n[llm]\nbase_url = "http://x/v1"\nmodel = "m"\n'
        "[adapters]\ntelegram_bots = []\n"
    )
    (tmp_path / "data" / "secrets.toml").write_text('[llm]\napi_key = "sk-1"\n')
    given = _environment(Settings.load(tmp_path))
    assert json.loads(given["NEKRO_LLM"]) == {
        "base_url": "http://x/v1",
        "model": "m",
        "api_key": "sk-1",
    }
    assert not [n for n in given if n.startswith(("TELEGRAM_", "NEKRO_PLATFORMS"))]
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("NEKRO_DATA_DIR", str(tmp_path / "own"))
    assert Settings.load(tmp_path).nekro_llm.model == "m"


def test_the_guide_lists_every_key_of_a_manifest() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "adapters.md").read_text()
    table = guide.partition("## The manifest")[2].partition("## The code")[0]
    listed = [line.split("`")[1] for line in table.splitlines() if line.startswith("| `")]
    assert listed == [each.name for each in fields(AdapterManifest)][3:]
