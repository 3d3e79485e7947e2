"""Plugins are installed, updated, restored and removed while their bot runs."""

import http.server
import subprocess
import threading
import zipfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import anyio
import pytest

from nekro_core.plugins.host.file_moves import NOTE_NAME
from nekro_core.plugins.host.listing import PluginState, PluginSuspended, UnknownPlugin
from nekro_core.plugins.host.registry import PluginRegistry
from nekro_core.plugins.host.tool_calls import call_tool
from nekro_core.plugins.installation.bot_follower import InstallRefused, InstallStage
from nekro_core.plugins.installation.check_order import CheckResult
from nekro_core.plugins.installation.files import FilesRefused
from nekro_core.plugins.installation.manager import InstallStep, PluginManager
from nekro_core.plugins.installation.sources import SourceRefused
from nekro_core.plugins.packages import PackageFolder, PackagesRefused
from nekro_core.tools.outcome import ToolReturn
from tests.plugins.packages.wheels import make_wheel, only_these
from tests.plugins.world import GROUP, World, plugin_source

pytestmark = pytest.mark.anyio

LOADS = CheckResult(status=0, report="", loaded=True)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "data")


@pytest.fixture
def cup(tmp_path: Path) -> Path:
    """The source folder of a plugin."""
    folder = tmp_path / "work" / "cup"
    write(folder, "shake")
    return folder


def write(folder: Path, *tools: str, more: str = "", version: str = "1") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    source = plugin_source("cup", *tools, more=more).replace('"1", "ann"', f'"{version}", "ann"')
    (folder / "__init__.py").write_text(source)


@asynccontextmanager
async def managed(
    world: World, *, confined: bool = False
) -> AsyncIterator[tuple[PluginRegistry, PluginManager]]:
    """A bot with its manager. If ``confined`` is false, every plugin passes its check at once."""
    async with world.bot(look_s=0.05) as registry:
        check = None if confined else lambda _: LOADS
        yield (
            registry,
            PluginManager(
                registry,
                world.data_dir,
                PackageFolder(world.data_dir),
                registry._settings,
                check=check,
            ),
        )


async def said(registry: PluginRegistry, tool: str = "shake") -> object:
    """The answer of the plugin's tool in a chat."""
    ctx = registry.context_for(GROUP)
    found = (await registry.tools_in(ctx)).resolve(tool)
    return await call_tool(found, ctx, ("it",)) if found else None


async def test_a_plugin_is_installed_and_removed_while_the_bot_runs(
    world: World, cup: Path
) -> None:
    write(cup, "shake", more="import httpx\n")
    world.write("other.py", plugin_source("other", "stay"))
    async with managed(world) as (registry, manager):
        other = registry.loaded("ann.other")
        found = await manager.look(str(cup))
        assert (found.item, found.looked.key, found.looked.tools) == (
            "local/cup",
            "ann.cup",
            ("shake",),
        )
        assert (found.looked.author, found.looked.version, found.installed) == ("ann", "1", "")
        assert "talks to the network (httpx)" in [each.text for each in found.looked.abilities]
        assert await said(registry) is None
        assert not (world.data_dir / "plugins" / "cup").exists()

        steps: list[InstallStep] = []
        change = await manager.install(str(cup), expected=found.digest, progress=steps.append)
        assert change.info
        assert change.info.state is PluginState.LOADED
        assert await said(registry) == ToolReturn("ann: it")
        assert [each.stage for each in steps if not each.text] == [*InstallStage]
        assert not steps[-1].can_be_cancelled
        listed = await manager.one("ann.cup")
        assert (listed.source, listed.versions, listed.builtin) == (str(cup), (), False)
        kept = world.data_dir / "plugin_data" / "ann.cup"
        kept.mkdir(parents=True)

        await manager.remove("ann.cup", data=False)
        assert await said(registry) is None
        assert kept.exists()
        with pytest.raises(UnknownPlugin, match=r"no plugin 'ann\.cup'; there are ann\.other"):
            await manager.one("ann.cup")
        await manager.install(str(cup))
        assert (await manager.remove("ann.cup", data=True)).before == "1"
        assert not kept.exists()
        assert registry.loaded("ann.other") is other, "another plugin was reloaded"


async def test_an_installation_is_refused_if_the_files_changed_since_they_were_shown(
    world: World, cup: Path
) -> None:
    async with managed(world) as (registry, manager):
        found = await manager.look(str(cup))
        write(cup, "shake", more="import subprocess\n")
        with pytest.raises(InstallRefused, match="other files now than those that were shown"):
            await manager.install(str(cup), expected=found.digest)
        assert await said(registry) is None


async def test_an_update_can_be_rolled_back_and_made_again(world: World, cup: Path) -> None:
    async with managed(world) as (registry, manager):
        await manager.install(str(cup))
        assert not (await manager.update("ann.cup")).changed
        (world.data_dir / "plugins" / "cup" / "scores.txt").write_text("9")
        write(cup, "shake", "roll", version="2", more="import os\nos.getenv('HOME')\n")
        found = await manager.look(str(cup))
        assert (found.installed, found.changes) == ("1", ("changed __init__.py",))
        assert ["environment" in each.text for each in found.new_abilities] == [True]
        change = await manager.update("ann.cup")
        assert change.info
        assert (change.before, change.info.version) == ("1", "2")
        assert await said(registry, "roll") == ToolReturn("ann: it")

        (old,) = (await manager.one("ann.cup")).versions
        assert (old.number, old.record.version) == (1, "1")
        change = await manager.roll_back("ann.cup")
        assert change.info
        assert (change.before, change.info.version) == ("2", "1")
        assert await said(registry, "roll") is None
        assert await said(registry) == ToolReturn("ann: it")
        (newer,) = [
            each for each in (await manager.one("ann.cup")).versions if each.record.version == "2"
        ]
        change = await manager.roll_back("ann.cup", newer.number)
        assert change.info
        assert change.info.version == "2"
        kept = world.data_dir / "plugins" / "cup" / "scores.txt"
        assert kept.read_text() == "9", "the file that the plugin wrote is lost"
        for number in range(3, 9):
            write(cup, "shake", version=str(number))
            await manager.update("ann.cup")
        versions = (await manager.one("ann.cup")).versions
        assert [each.record.version for each in versions] == ["7", "6", "5"]
        with pytest.raises(InstallRefused, match=r"no old version 99 of local/cup; there are \d+"):
            await manager.roll_back("ann.cup", 99)
        await manager.remove("ann.cup", data=False)
        assert not (world.data_dir / "plugin_versions" / "cup").exists()


@pytest.mark.parametrize(
    "fault",
    [
        "raise RuntimeError('no luck')",
        "@plugin.mount_init_method()\nasync def begin() -> None:\n    raise OSError('no luck')",
    ],
)
async def test_if_the_new_version_cannot_be_loaded_the_old_one_stays_loaded(
    world: World, cup: Path, fault: str
) -> None:
    async with managed(world) as (registry, manager):
        with pytest.raises(UnknownPlugin):
            await manager.update("ann.cup")
        await manager.install(str(cup))
        write(cup, "shake", version="2", more=f"\n{fault}\n")
        with pytest.raises(InstallRefused, match=r"as it was before: .*__init__.py:\d+: .*no luck"):
            await manager.update("ann.cup")
        listed = await manager.one("ann.cup")
        assert (listed.info.state, listed.info.version) == (PluginState.LOADED, "1")
        assert (listed.versions, listed.changed) == ((), ())
        assert await said(registry) == ToolReturn("ann: it")
        assert not (world.data_dir / NOTE_NAME).exists()

        change = await manager.update("ann.cup", force=True)
        assert change.info
        assert change.info.state is PluginState.BROKEN
        change = await manager.roll_back("ann.cup")
        assert change.info
        assert change.info.state is PluginState.LOADED
        await manager.remove("ann.cup", data=True)
        with pytest.raises(InstallRefused, match="could not be loaded"):
            await manager.install(str(cup))
        assert not (world.data_dir / "plugins" / "cup").exists()
        with pytest.raises(UnknownPlugin):
            await manager.one("ann.cup")


async def test_a_disabled_plugin_is_updated_and_stays_disabled(world: World, cup: Path) -> None:
    async with managed(world) as (registry, manager):
        await manager.install(str(cup))
        assert (await manager.disable("ann.cup")).state is PluginState.DISABLED
        with pytest.raises(InstallRefused, match="disabled, so it is not loaded: enable it"):
            await manager.reload("ann.cup")
        write(cup, "roll", version="2")
        change = await manager.update("local/cup")
        assert change.info
        assert change.info.state is PluginState.DISABLED
        assert (await manager.enable("ann.cup")).version == "2"
        assert await said(registry, "roll") == ToolReturn("ann: it")
        (world.data_dir / "plugins" / "cup" / "__init__.py").write_text(plugin_source("cup", "hop"))
        assert [each.name for each in (await manager.reload("ann.cup")).tools] == ["hop"]
        assert (await manager.one("ann.cup")).changed == ("changed __init__.py",)


async def test_a_call_that_runs_during_an_update_uses_the_old_code_until_it_ends(
    world: World, cup: Path
) -> None:
    slow = '''
import anyio
from nekro_core.api.plugin import SandboxMethodType as Kind
@plugin.mount_sandbox_method(Kind.TOOL, "slow", "Slow.")
async def slow(_ctx, text: str = "") -> str:
    """Wait."""
    await anyio.sleep(0.5)
    return "old " + text
'''
    write(cup, "shake", more=slow)
    async with managed(world) as (registry, manager):
        await manager.install(str(cup))
        ctx = registry.context_for(GROUP)
        tools = await registry.tools_in(ctx)  # a turn holds its tools in this way
        before, waiting = tools.resolve("shake"), tools.resolve("slow")
        assert before
        assert waiting
        results: list[object] = []

        async def call() -> None:
            results.append(await call_tool(waiting, ctx, ("it",)))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            await anyio.sleep(0.1)
            write(cup, "shake", version="2", more=slow.replace("old ", "new "))
            await manager.update("ann.cup")
        assert results == [ToolReturn("old it")]
        assert await call_tool(before, ctx, ("it",)) == ToolReturn("ann: it")
        assert await said(registry, "slow") == ToolReturn("new it")


async def test_a_suspended_plugin_is_loaded_only_when_it_is_resumed(
    world: World, cup: Path
) -> None:
    async with managed(world) as (registry, manager):
        await manager.install(str(cup))
        await registry.suspend("local/cup")
        await registry.load_all()
        await registry.reload("local/cup")
        assert await said(registry) is None
        with pytest.raises(PluginSuspended, match="is being replaced now"):
            await manager.enable("local/cup")
        await registry.resume("local/cup")
        assert await said(registry) == ToolReturn("ann: it")


async def test_a_cancelled_installation_leaves_nothing(world: World, tmp_path: Path) -> None:
    """git waits for a server that does not answer."""
    silent = await anyio.create_tcp_listener(local_host="127.0.0.1")
    (listener,) = silent.listeners
    port = listener.extra(anyio.abc.SocketAttribute.local_port)
    async with silent, managed(world) as (registry, manager):
        with anyio.fail_after(30), anyio.move_on_after(0.5) as scope:
            await manager.install(f"git+git://127.0.0.1:{port}/cup.git")
        assert scope.cancelled_caught
        assert registry.plugins() == ()
        left = {path.name for path in world.data_dir.iterdir()}
        assert not any(name.startswith(".installing") for name in left), left


async def test_a_cancelled_check_ends_its_process(world: World, cup: Path) -> None:
    write(cup, "shake", more="import time\ntime.sleep(60)\n")
    reached: list[InstallStage] = []
    async with managed(world, confined=True) as (registry, manager):
        with anyio.fail_after(30), anyio.CancelScope() as scope:

            def follow(step: InstallStep) -> None:
                reached.append(step.stage)
                if step.stage is InstallStage.CHECK:
                    scope.cancel()

            await manager.install(str(cup), progress=follow)
        assert scope.cancelled_caught
        assert InstallStage.REPLACE not in reached
        assert registry.plugins() == ()


@pytest.mark.long
async def test_inspecting_a_plugin_loads_it_in_a_confined_process(
    world: World, cup: Path, tmp_path: Path
) -> None:
    evil = tmp_path / "evil.txt"
    write(cup, "shake", more=f"open({str(evil)!r}, 'w')\n")
    async with managed(world, confined=True) as (registry, manager):
        found = await manager.look(str(cup))
        assert found.check
        assert not found.check.loaded
        assert [each.text for each in found.check.attempts] == [f"opens for writing {evil}"]
        write(cup, "shake", more="1 / 0\n")
        with pytest.raises(InstallRefused, match="ZeroDivisionError"):
            await manager.install(str(cup))
        write(cup, "shake")
        found = await manager.look(str(cup))
        assert found.check
        assert found.check.loaded
        assert "\nshake(" in found.check.report
        assert not evil.exists()
        assert registry.plugins() == ()


async def test_a_plugin_is_installed_and_updated_from_git(world: World, cup: Path) -> None:
    git = partial(
        subprocess.run, cwd=cup, check=True, capture_output=True, env={"HOME": str(cup.parent)}
    )
    who = ("-c", "user.name=ann", "-c", "user.email=ann@example.org")
    await anyio.to_thread.run_sync(lambda: git(["git", "init", "-q"]))
    await anyio.to_thread.run_sync(lambda: git(["git", "add", "."]))
    await anyio.to_thread.run_sync(lambda: git(["git", *who, "commit", "-qm", "one"]))
    async with managed(world) as (registry, manager):
        await manager.install(f"git+file://{cup}")
        first = await manager.one("ann.cup")
        assert len(first.commit) == 40
        write(cup, "shake", "roll", version="2")
        assert not (await manager.update("ann.cup")).changed
        await anyio.to_thread.run_sync(lambda: git(["git", *who, "commit", "-qam", "two"]))
        assert (await manager.update("ann.cup")).changed
        assert (await manager.one("ann.cup")).commit != first.commit
        assert await said(registry, "roll") == ToolReturn("ann: it")


@pytest.mark.slow
@pytest.mark.long
async def test_packages_are_installed_and_removed_with_their_plugin(
    world: World, cup: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    only_these(tmp_path / "wheels", monkeypatch)
    make_wheel(tmp_path / "wheels", "nk_dice", "1.5", source="def throw():\n    return 6\n")
    write(cup, "shake", more="import nk_dice\nassert nk_dice.throw() == 6\n")
    (cup / "requirements.txt").write_text("nk-dice>=1\n")
    shelf = PackageFolder(world.data_dir)
    world.services = replace(world.services, packages=shelf)
    with shelf.on_path():
        async with managed(world, confined=True) as (registry, manager):
            found = await manager.look(str(cup))
            (package,) = found.packages
            assert (package.requirement, package.named, package.there) == (
                "nk-dice>=1",
                True,
                False,
            )
            assert found.check
            assert found.check.loaded, found.check.report
            assert shelf.held == {}, "the inspection must not install a package"
            steps: list[InstallStep] = []
            change = await manager.install(str(cup), progress=steps.append)
            assert "  got nk-dice 1.5" in [each.text for each in steps]
            assert change.info
            assert change.info.state is PluginState.LOADED
            assert await said(registry) == ToolReturn("ann: it")
            (cup / "requirements.txt").write_text("nk-dice>=2\n")
            with pytest.raises(PackagesRefused, match="nk-dice>=2"):
                await manager.update("ann.cup")
            assert shelf.held == {"nk-dice": "1.5"}
            assert await said(registry) == ToolReturn("ann: it")
            # The next version lacks the package and cannot be loaded. So the old version stays,
            # which needs the package.
            (cup / "requirements.txt").unlink()
            fails = (
                "\n@plugin.mount_init_method()\nasync def begin():\n    raise OSError('no luck')\n"
            )
            write(cup, "shake", version="2", more=fails)
            with pytest.raises(InstallRefused, match="no luck"):
                await manager.update("ann.cup")
            assert shelf.held == {"nk-dice": "1.5"}
            write(cup, "shake", version="2", more="import time\ntime.sleep(60)\n")
            with anyio.CancelScope() as scope:

                def follow(step: InstallStep) -> None:
                    if step.stage is InstallStage.CHECK:
                        scope.cancel()

                await manager.update("ann.cup", progress=follow)
            assert scope.cancelled_caught
            assert shelf.held == {"nk-dice": "1.5"}, "the packages of the cancelled version stay"
            assert await said(registry) == ToolReturn("ann: it")
            await manager.remove("ann.cup", data=True)
            assert shelf.held == {}


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder on loopback; the value is its address."""
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    handler.log_message = lambda *_: None  # type: ignore[attr-defined]
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


async def test_a_plugin_of_an_index_is_installed_from_its_zip(
    world: World, cup: Path, tmp_path: Path
) -> None:
    shop = tmp_path / "shop"
    shop.mkdir()
    with zipfile.ZipFile(shop / "cup.zip", "w") as archive:
        archive.write(cup / "__init__.py", "cup/__init__.py")
    with zipfile.ZipFile(shop / "evil.zip", "w") as archive:
        archive.writestr("../evil.py", "")
    with zipfile.ZipFile(shop / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("cup/__init__.py", plugin_source("cup", "shake"))
        archive.writestr("cup/zeros", bytes(201_000_000))
    (shop / "index.toml").write_text(
        '[[plugins]]\nname = "cup"\nsource = "cup.zip"\nversion = "1"\nauthor = "ann"\n'
        '[[plugins]]\nname = "evil"\nsource = "/etc/passwd"\n'
        '[[plugins]]\nname = 5\nsource = "x"\n'
    )
    async with managed(world) as (registry, manager):
        with served(shop) as address:
            good, evil, wrong = await manager.index(f"{address}/index.toml")
            assert (good.source, good.version) == (f"{address}/cup.zip", "1")
            assert "names a file of this machine" in evil.problem
            assert wrong.problem.startswith("entry 3: name: ")
            await manager.install(good.source)
            assert await said(registry) == ToolReturn("ann: it")
            with pytest.raises(FilesRefused, match="leads out of its folder"):
                await manager.look(f"{address}/evil.zip")
            with pytest.raises(FilesRefused, match="over 5000 files or 200000000 bytes"):
                await manager.look(f"{address}/bomb.zip")
            with pytest.raises(SourceRefused, match="the server answers 404"):
                await manager.look(f"{address}/none.zip")
        with pytest.raises(SourceRefused, match="ConnectError"):
            await manager.look(f"{address}/cup.zip")
