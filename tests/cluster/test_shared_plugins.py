"""Processes of a cluster have the same plugins: what an operator does at one of them happens at all
of them. Each process has a data folder and loaded plugins of its own."""

import json
import zipfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from nekro_core.app.shared_plugins import PluginSharing
from nekro_core.cluster.local_objects import LocalObjects
from nekro_core.cluster.objects import OBJECT_BYTES
from nekro_core.cluster.plugin_objects import object_name
from nekro_core.cluster.shared_plugins import SharedPlugins
from nekro_core.cluster.unused_objects import UnusedObjects
from nekro_core.plugins.host.listing import PluginState
from nekro_core.plugins.host.registry import PluginRegistry
from nekro_core.plugins.host.settings import PluginSettings
from nekro_core.plugins.host.switches import switch_plugin
from nekro_core.plugins.host.tool_calls import call_tool
from nekro_core.plugins.installation.archives import FOLDER, PluginArchives, sha256_of
from nekro_core.plugins.installation.check_order import CheckResult
from nekro_core.plugins.installation.install import Installer
from nekro_core.plugins.installation.manager import PluginManager
from nekro_core.plugins.installation.received import UnloadedPlugins
from nekro_core.plugins.installation.sources import parse
from nekro_core.plugins.packages import PackageFolder
from nekro_core.store import SharedPluginRow, Store
from nekro_core.tools.outcome import ToolReturn
from tests.plugins.packages.wheels import make_wheel, only_these
from tests.plugins.world import GROUP, World, plugin_source

pytestmark = pytest.mark.anyio

LOADS = CheckResult(status=0, report="", loaded=True)
CUP = "local/cup"


@dataclass
class Clock:
    """A clock that stands still until it is moved."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Process:
    """A running process of the cluster."""

    name: str
    registry: PluginRegistry
    manager: PluginManager
    plugins: SharedPlugins
    data: Path

    async def settle(self) -> None:
        """Compare its folder with the database, as the process does every second."""
        assert await self.plugins.settle(self.manager)

    async def said(self, tool: str = "shake") -> object:
        """The answer of a plugin's tool in a chat; None if there is no such tool."""
        ctx = self.registry.context_for(GROUP)
        found = (await self.registry.tools_in(ctx)).resolve(tool)
        return await call_tool(found, ctx, ("it",)) if found else None

    def state(self, item: str = CUP) -> PluginState:
        """The state of a plugin."""
        return self.manager.info(item).state

    def archives(self) -> list[str]:
        """The names of the archives of plugins that this process keeps."""
        return sorted(each.stem for each in (self.data / FOLDER).glob("*.zip"))


class NotedObjects(LocalObjects):
    """An object store that notes how many bytes each reader accepts."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.most_asked: list[int] = []

    async def fetch(self, name: str, target: Path, *, most_bytes: int = OBJECT_BYTES) -> int:
        self.most_asked.append(most_bytes)
        return await super().fetch(name, target, most_bytes=most_bytes)


class Processes:
    """The processes of a cluster: a database, an object store, and a folder for each process."""

    def __init__(self, store: Store, folder: Path) -> None:
        self.store = store
        self.folder = folder
        self.objects = NotedObjects(folder / "objects")
        self.clock = Clock()

    def of_folder(self, name: str) -> SharedPlugins:
        """The plugins of a process that has not loaded them."""
        data = self.folder / name
        data.mkdir(exist_ok=True)
        shelf = PackageFolder(data)
        return SharedPlugins(self.store, self.objects, data, shelf, name, clock=self.clock)

    async def settle_at_start(self, name: str) -> SharedPlugins:
        """Do what a process does before it loads its plugins."""
        plugins = self.of_folder(name)
        receiver = UnloadedPlugins(self.folder / name, PluginSettings(), lambda _: None)
        assert await plugins.settle(receiver, publish=False)
        return plugins

    @asynccontextmanager
    async def running(self, *names: str) -> AsyncIterator[list[Process]]:
        """Start processes."""
        async with AsyncExitStack() as stack:
            found = []
            for name in names:
                plugins = await self.settle_at_start(name)
                world = World(self.folder / name)
                registry = await stack.enter_async_context(world.bot(look_s=0.05))
                manager = PluginManager(
                    registry,
                    world.data_dir,
                    PackageFolder(world.data_dir),
                    PluginSettings(),
                    check=lambda _: LOADS,
                )
                manager.changed = plugins.note_operator
                found.append(Process(name, registry, manager, plugins, world.data_dir))
            yield found

    async def row(self, item: str = CUP) -> SharedPluginRow:
        """The row of a plugin in the database."""
        return (await self.store.shared_plugins.all())[item]

    def command(self, name: str) -> Installer:
        """The command ``nekro plugin`` in the folder of a process."""
        data = self.folder / name
        return Installer(
            data_dir=data,
            shelf=PackageFolder(data),
            ask=lambda _: True,
            say=lambda _: None,
            check=lambda _: LOADS,
        )


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Processes]:
    async with Store.open(f"sqlite://{tmp_path}/nekro.sqlite3") as store:
        yield Processes(store, tmp_path)


@pytest.fixture
def cup(tmp_path: Path) -> Path:
    """The source of a plugin with a tool and a data file."""
    folder = tmp_path / "work" / "cup"
    write(folder, "shake")
    return folder


def write(folder: Path, *tools: str, more: str = "") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "__init__.py").write_text(plugin_source("cup", *tools, more=more))
    (folder / "scores.txt").write_text("0")


async def test_a_plugin_is_installed_switched_updated_and_removed_at_all_processes(
    cluster: Processes, cup: Path
) -> None:
    async with cluster.running("gateway", "worker") as (gateway, worker):
        await gateway.manager.install(str(cup), by="lin")
        await gateway.settle()
        row = await cluster.row()
        assert (row.key, row.version, row.node, row.changed_by) == (
            "ann.cup",
            "1",
            "gateway",
            "lin",
        )
        assert await worker.said() is None
        await worker.settle()
        assert await worker.said() == ToolReturn("ann: it")
        assert (await worker.manager.one("ann.cup")).source == str(cup)

        await worker.manager.disable("ann.cup", by="bob")
        await worker.settle()
        assert (await cluster.row()).changed_by == "bob"
        await gateway.settle()
        assert (gateway.state(), worker.state()) == (PluginState.DISABLED, PluginState.DISABLED)
        await gateway.manager.enable("ann.cup")
        await gateway.settle()
        await worker.settle()
        assert await worker.said() == ToolReturn("ann: it")

        (worker.data / "plugins" / "cup" / "scores.txt").write_text("9")
        write(cup, "shake", "roll")
        await gateway.manager.update("ann.cup")
        await gateway.settle()
        await worker.settle()
        assert await worker.said("roll") == ToolReturn("ann: it")
        assert (worker.data / "plugins" / "cup" / "scores.txt").read_text() == "9"

        await worker.manager.roll_back("ann.cup")
        await worker.settle()
        await gateway.settle()
        assert await gateway.said("roll") is None
        assert await gateway.said() == ToolReturn("ann: it")
        assert (gateway.data / "plugins" / "cup" / "scores.txt").read_text() == "0"

        for process in (gateway, worker):
            (process.data / "plugin_data" / "ann.cup").mkdir(parents=True, exist_ok=True)
        await gateway.manager.remove("ann.cup", data=True)
        await gateway.settle()
        await worker.settle()
        for process in (gateway, worker):
            assert await process.said() is None
            assert not (process.data / "plugins" / "cup").exists()
            assert not (process.data / "plugin_data" / "ann.cup").exists()
            assert process.archives() == []
        await gateway.manager.install(str(cup))
        await gateway.settle()
        await worker.settle()
        (worker.data / "plugin_data" / "ann.cup").mkdir(parents=True, exist_ok=True)
        await gateway.manager.remove("ann.cup", data=False)
        await gateway.settle()
        await worker.settle()
        assert await worker.said() is None
        assert (worker.data / "plugin_data" / "ann.cup").exists()


async def test_a_process_that_was_away_gets_and_loses_plugins_before_it_loads_any(
    cluster: Processes, cup: Path, tmp_path: Path
) -> None:
    single = tmp_path / "work" / "pot.py"
    single.write_text(plugin_source("pot", "boil"))
    async with cluster.running("gateway", "worker") as (gateway, worker):
        await gateway.manager.install(str(cup))
        await gateway.settle()
        await worker.settle()
    async with cluster.running("gateway") as (gateway,):
        await gateway.manager.install(str(single))
        await gateway.manager.remove("ann.cup", data=False)
        await gateway.settle()
    ready = await cluster.settle_at_start("worker")
    assert ready.problems == {}
    assert sorted(each.name for each in (tmp_path / "worker" / "plugins").iterdir()) == ["pot.py"]
    async with cluster.running("worker", "newcomer") as processes:
        for process in processes:
            assert await process.said("boil") == ToolReturn("ann: it")
            assert await process.said() is None


async def test_a_plugin_command_in_the_folder_of_one_process_changes_the_plugins_of_all(
    cluster: Processes, cup: Path, tmp_path: Path
) -> None:
    async with cluster.running("gateway", "worker") as (gateway, worker):
        cluster.command("worker").install(parse(str(cup)))
        await worker.settle()
        await gateway.settle()
        assert await gateway.said() == ToolReturn("ann: it")
        switch_plugin(tmp_path / "gateway", CUP, wanted=False)
        await gateway.settle()
        await worker.settle()
        assert worker.state() is PluginState.DISABLED
        (worker.data / "plugin_data" / "ann.cup").mkdir(parents=True, exist_ok=True)
        cluster.command("gateway").remove("cup", data=True)
        await gateway.settle()
        await worker.settle()
        assert not (worker.data / "plugins" / "cup").exists()
        assert not (worker.data / "plugin_data" / "ann.cup").exists()


async def test_a_built_in_plugin_is_switched_off_at_all_processes(
    cluster: Processes, tmp_path: Path
) -> None:
    async with cluster.running("gateway", "worker") as (gateway, worker):
        await gateway.registry.switch("builtin/chat", "nekro.chat", wanted=False)
        await gateway.settle()
        await worker.settle()
        disabled = json.loads((tmp_path / "worker" / "plugins.json").read_text())["disabled"]
        assert disabled == {"builtin/chat": "nekro.chat"}
        await worker.registry.switch("builtin/chat", "nekro.chat", wanted=True)
        await worker.settle()
        await gateway.settle()
        assert json.loads((tmp_path / "gateway" / "plugins.json").read_text())["disabled"] == {}


async def test_a_plugin_put_into_the_folder_by_hand_stays_in_its_process(
    cluster: Processes, cup: Path
) -> None:
    by_hand = plugin_source("cup", "spill", author="bob")
    async with cluster.running("gateway", "worker") as (gateway, worker):
        (worker.data / "plugins").mkdir(exist_ok=True)
        (worker.data / "plugins" / "cup.py").write_text(by_hand)
        (worker.data / "plugins" / "lid.py").write_text(plugin_source("lid", "close"))
        await worker.registry.load_all()
        switch_plugin(worker.data, "local/lid", wanted=False)
        await worker.settle()
        assert await cluster.store.shared_plugins.all() == {}
        assert worker.plugins.local is not None
        assert sorted(worker.plugins.local.by_hand) == [CUP, "local/lid"]

        await gateway.manager.install(str(cup))
        await gateway.settle()
        await worker.settle()
        assert "by hand" in worker.plugins.problems[CUP]
        assert await worker.said("spill") == ToolReturn("bob: it")
        assert (worker.data / "plugins" / "cup.py").read_text() == by_hand

        (worker.data / "plugins" / "cup.py").unlink()
        await worker.registry.load_all()
        await worker.settle()
        assert worker.plugins.problems, "it is tried again only after a pause"
        cluster.clock.now += 5
        await worker.settle()
        assert worker.plugins.problems == {}
        assert await worker.said() == ToolReturn("ann: it")


async def test_a_replaced_object_is_never_unpacked_and_is_stored_again_by_who_has_the_files(
    cluster: Processes, cup: Path, tmp_path: Path
) -> None:
    """Whoever stole a worker's password can write objects, but not the rows of the database."""
    ran = tmp_path / "ran"
    hostile = tmp_path / "hostile.zip"
    code = f"open({str(ran)!r}, 'w').close()\n"
    with zipfile.ZipFile(hostile, "w") as archive:
        archive.writestr("__init__.py", plugin_source("cup", "shake", more=code))
        archive.writestr("scores.txt", "0")
    async with cluster.running("gateway", "worker") as (gateway, worker):
        await gateway.manager.install(str(cup))
        await gateway.settle()
        name = object_name((await cluster.row()).archive)
        await cluster.objects.put(name, hostile)

        await worker.settle()
        assert "somebody has replaced it" in worker.plugins.problems[CUP]
        assert await worker.said() is None
        assert not (worker.data / "plugins" / "cup").exists()
        assert not ran.exists()
        assert await cluster.objects.names("plugins/") == []

        gateway.plugins.ask_to_give(CUP)
        await gateway.settle()
        cluster.clock.now += 5
        await worker.settle()
        assert worker.plugins.problems == {}
        assert await worker.said() == ToolReturn("ann: it")
        assert not ran.exists()


async def test_no_more_bytes_of_a_replaced_object_are_fetched_than_its_row_says(
    cluster: Processes, cup: Path, tmp_path: Path
) -> None:
    """Otherwise a thief of a worker's password could fill the disks of all processes."""
    large = tmp_path / "large"
    async with cluster.running("gateway", "worker") as (gateway, worker):
        await gateway.manager.install(str(cup))
        await gateway.settle()
        row = await cluster.row()
        name = object_name(row.archive)
        large.write_bytes(b"x" * (row.size + 1))
        await cluster.objects.put(name, large)
        await worker.settle()
        assert cluster.objects.most_asked == [row.size]
        assert "somebody has replaced it" in worker.plugins.problems[CUP]
        assert await cluster.objects.names("plugins/") == []


async def test_an_archive_that_leads_out_of_its_folder_is_refused_even_if_a_row_names_it(
    cluster: Processes, cup: Path, tmp_path: Path
) -> None:
    async with cluster.running("gateway", "worker") as (gateway, worker):
        await gateway.manager.install(str(cup))
        await gateway.settle()
        row = await cluster.row()
        outside = tmp_path / "outside.zip"
        with zipfile.ZipFile(outside, "w") as archive:
            archive.writestr("../../stolen.py", "")
        place = PluginArchives(worker.data).path(row.mark)
        place.parent.mkdir(exist_ok=True)
        for bad, told in (
            ({"record": "{}"}, "cannot be read"),
            ({"mark": "0" * 64}, "lists other files"),
            ({"needs": '["no requirement !"]'}, "whose name cannot be read"),
            ({"record": row.record.replace('"path":"cup"', '"path":"../cup"')}, "its row is wrong"),
        ):
            now = await cluster.row()
            kept = ("mark", "record", "needs", "archive", "size")
            values = {name: getattr(row, name) for name in kept}
            changed = {**values, **bad}
            assert await cluster.store.shared_plugins.put(
                SharedPluginRow(item=CUP, key=row.key, revision=now.revision, **changed)
            )
            await worker.settle()
            assert told in worker.plugins.problems[CUP]
        await cluster.objects.put(object_name(sha256_of(outside)), outside)
        now = await cluster.row()
        assert await cluster.store.shared_plugins.put(
            SharedPluginRow(
                item=CUP,
                mark=row.mark,
                archive=sha256_of(outside),
                size=outside.stat().st_size,
                record=row.record,
                revision=now.revision,
            )
        )
        await worker.settle()
        assert "leads out of its folder" in worker.plugins.problems[CUP]
        assert list(tmp_path.rglob("stolen.py")) == []
        assert not (worker.data / "plugins" / "cup").exists()


async def test_packages_are_installed_at_all_processes_and_a_missing_one_is_told(
    cluster: Processes, cup: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = tmp_path / "index"
    only_these(index, monkeypatch)
    wheel = make_wheel(index, "heron_words", "1.0")
    write(cup, "shake", more="import heron_words\n")
    (cup / "requirements.txt").write_text("heron-words\n")
    async with cluster.running("gateway", "worker") as (gateway, worker):
        await gateway.manager.install(str(cup), force=True)
        await gateway.settle()
        assert json.loads((await cluster.row()).needs) == ["heron-words"]
        wheel.rename(tmp_path / "away.whl")
        await worker.settle()
        assert "heron-words" in worker.plugins.problems[CUP]
        assert not (worker.data / "plugins" / "cup").exists()
        (tmp_path / "away.whl").rename(wheel)
        assert not worker.plugins.is_due
        cluster.clock.now += 5
        assert worker.plugins.is_due
        await worker.settle()
        assert worker.plugins.problems == {}
        assert PackageFolder(worker.data).needs == {CUP: ["heron-words"]}
        assert worker.state() is not PluginState.DISABLED


async def test_the_change_that_is_stored_first_wins_if_two_processes_change_a_plugin_at_once(
    cluster: Processes, cup: Path
) -> None:
    async with cluster.running("gateway", "worker") as (gateway, worker):
        await gateway.manager.install(str(cup))
        await gateway.settle()
        await worker.settle()
        write(cup, "shake", "roll")
        await worker.manager.update("ann.cup")
        write(cup, "shake", "spin")
        await gateway.manager.update("ann.cup")
        await gateway.settle()
        await worker.settle()
        for process in (gateway, worker):
            assert await process.said("spin") == ToolReturn("ann: it")
            assert await process.said("roll") is None
        (old, *_) = (await worker.manager.one("ann.cup")).versions
        assert "roll" in (old.files / "__init__.py").read_text()


async def test_an_empty_database_gets_the_plugins_of_the_folder_and_removes_none(
    cluster: Processes, cup: Path, tmp_path: Path
) -> None:
    async with cluster.running("gateway") as (gateway,):
        await gateway.manager.install(str(cup))
        await gateway.settle()
    async with Store.open(f"sqlite://{tmp_path}/other.sqlite3") as store:
        other = Processes(store, tmp_path)
        async with other.running("gateway", "worker") as (gateway, worker):
            assert await gateway.said() == ToolReturn("ann: it")
            await gateway.settle()
            await worker.settle()
            assert await worker.said() == ToolReturn("ann: it")


async def test_files_that_were_edited_before_the_first_start_are_not_given_to_others(
    cluster: Processes, cup: Path, tmp_path: Path
) -> None:
    """The folder belonged to a bot in one process, so there is no archive."""
    (tmp_path / "gateway").mkdir()
    cluster.command("gateway").install(parse(str(cup)))
    code = tmp_path / "gateway" / "plugins" / "cup" / "__init__.py"
    written = code.read_text()
    code.write_text(f"{written}\n# edited\n")
    async with cluster.running("gateway", "worker") as (gateway, worker):
        await gateway.settle()
        assert "__init__.py was changed since it was installed" in gateway.plugins.problems[CUP]
        await worker.settle()
        assert await worker.said() is None
        code.write_text(written)
        cluster.clock.now += 5
        await gateway.settle()
        await worker.settle()
        assert await worker.said() == ToolReturn("ann: it")


async def test_the_object_of_a_removed_plugin_is_deleted_and_that_of_another_stays(
    cluster: Processes, cup: Path, tmp_path: Path
) -> None:
    single = tmp_path / "work" / "pot.py"
    single.write_text(plugin_source("pot", "boil"))
    unused = UnusedObjects(cluster.store, cluster.objects)
    async with cluster.running("gateway") as (gateway,):
        await gateway.manager.install(str(cup))
        await gateway.manager.install(str(single))
        await gateway.settle()
        assert len(await cluster.objects.names("plugins/")) == 2
        await gateway.manager.remove("ann.cup", data=False)
        await gateway.settle()
        assert [await unused.run_once(), await unused.run_once()] == [0, 1]
        kept = object_name((await cluster.row("local/pot")).archive)
        assert await cluster.objects.names("plugins/") == [kept]


async def test_a_plugin_is_given_to_others_with_the_configuration_that_they_share(
    cluster: Processes, cup: Path
) -> None:
    """The configuration in a plugin's folder is a document, which the process stores a moment after
    the installation."""
    (cup / "config.toml").write_text("size = 1")
    async with cluster.running("gateway", "worker") as (gateway, worker):
        await gateway.manager.install(str(cup))
        await gateway.settle()
        assert await cluster.store.shared_plugins.all() == {}
        assert gateway.plugins.is_due
        name = Path("plugins", "cup", "config.toml").as_posix()
        await cluster.store.documents.write(name, "size = 2", expected=None)
        await gateway.settle()
        assert not gateway.plugins.is_due
        await worker.settle()
        assert (worker.data / name).read_text() == "size = 2"

        write(cup, "shake", "roll")
        await gateway.manager.update("ann.cup")
        await cluster.store.documents.write(name, "size = 3", expected="1")
        await gateway.settle()
        await worker.settle()
        assert await worker.said("roll") == ToolReturn("ann: it")
        assert (worker.data / name).read_text() == "size = 3"


async def test_a_plugin_whose_configuration_cannot_be_a_document_is_given_to_others_after_a_while(
    cluster: Processes, cup: Path
) -> None:
    (cup / "config.toml").write_text("size = ")
    async with cluster.running("gateway", "worker") as (gateway, worker):
        await gateway.manager.install(str(cup))
        await gateway.settle()
        assert await cluster.store.shared_plugins.all() == {}
        cluster.clock.now += 5
        await gateway.settle()
        await worker.settle()
        assert await worker.said() == ToolReturn("ann: it")


async def test_an_unexpected_error_over_one_plugin_is_shown_as_its_problem_and_ends_no_process(
    cluster: Processes, cup: Path
) -> None:
    """The row of the plugin has a list of abilities that no version of the bot writes. All
    processes read this row."""
    async with cluster.running("gateway", "worker") as (gateway, worker):
        await gateway.manager.install(str(cup))
        await gateway.settle()
        row = await cluster.row()
        assert await cluster.store.shared_plugins.put(replace(row, abilities="no JSON"))
        await worker.settle()
        assert "JSON is malformed" in worker.plugins.problems[CUP]
    plugins = await cluster.settle_at_start("late")
    assert "JSON is malformed" in plugins.problems[CUP]


class FailingComparison:
    """Stands in for `SharedPlugins`. Each comparison meets an error that nobody expects."""

    is_due = True
    tries = 0

    async def settle(self, receiver: object, *, publish: bool) -> bool:
        self.tries += 1
        raise ValueError("the length of an answer is no number")


async def test_an_unexpected_error_of_a_comparison_ends_no_process(cluster: Processes) -> None:
    failing: Any = FailingComparison()
    async with cluster.running("gateway") as (gateway,):
        sharing = PluginSharing(cluster.store, failing, gateway.data, "gateway")
        await sharing.settle_at_start(PluginSettings())
        assert failing.tries == 1
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(sharing.live, gateway.manager, gateway.registry)
            with anyio.fail_after(20):
                while failing.tries < 3:
                    await anyio.sleep(0.05)
            tasks.cancel_scope.cancel()
