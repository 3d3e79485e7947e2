"""Two `App` objects can run in one process, and a closed one leaves nothing behind."""

from pathlib import Path

import anyio
import pytest
from loguru import logger

from nekro_core.app.app import App
from nekro_core.app.settings import Settings
from nekro_core.llm.scripted import ScriptedModel
from nekro_core.store import DataFolderInUse


async def test_two_bots_in_one_process_share_no_data(tmp_path: Path) -> None:
    first = Settings(nekro_data_dir=tmp_path / "first")
    second = Settings(nekro_data_dir=tmp_path / "second")
    async with (
        App.open(first, {}, model=ScriptedModel([])) as one,
        App.open(second, {}, model=ScriptedModel([])) as other,
    ):
        await one.start()
        await other.start()
        assert await one.host.instance_of("web", "bot") == "web"
        assert await other.host.instance_of("web", "another") == "web"
        assert one.plugins is not other.plugins
    assert (tmp_path / "first" / "nekro.sqlite3").exists()
    assert (tmp_path / "second" / "nekro.sqlite3").exists()


async def test_a_folder_is_free_again_once_its_app_has_closed(tmp_path: Path) -> None:
    settings = Settings(nekro_data_dir=tmp_path)
    before = {task.name for task in anyio.get_running_tasks()}
    for _ in range(2):
        async with App.open(settings, {}, model=ScriptedModel([])):
            with pytest.raises(DataFolderInUse):
                async with App.open(settings, {}):
                    pass
    assert {task.name for task in anyio.get_running_tasks()} == before


@pytest.mark.parametrize(
    ("entry", "named", "urls", "words"),
    [
        ("127.0.0.1", "onebot_v11_ws_urls", '["ws://127.0.0.1:3001"]', "80, 443, 3001 are open"),
        ("::1", "onebot_ws_urls", ["wss://[::1]:6700/x"], '["[::1]:3001"]'),
    ],
)
async def test_a_private_host_without_a_port_causes_a_warning_at_the_start(
    tmp_path: Path, entry: str, named: str, urls: object, words: str
) -> None:
    media = {"private_hosts": [entry, "files.lan:9000"]}
    settings = Settings(nekro_data_dir=tmp_path, nekro_delivery={"media": media})  # type: ignore[arg-type]
    said: list[str] = []
    sink = logger.add(lambda line: said.append(str(line)), level="WARNING")
    try:
        async with App.open(settings, {named: urls}, model=ScriptedModel([])):
            pass
    finally:
        logger.remove(sink)
    (warning,) = [line for line in said if "PRIVATE_HOSTS" in line]
    assert entry in warning
    assert words in warning
