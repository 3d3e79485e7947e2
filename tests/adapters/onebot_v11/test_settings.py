"""The adapter's settings, and the errors for settings that cannot be read."""

from pathlib import Path
from typing import Any

import pytest
from nonebot.config import Config, Env
from nonebot.drivers.none import Driver as NoServer

from adapters.onebot_v11 import create
from adapters.onebot_v11.settings import read_config
from nekro_core.testing.memory_host import MemoryHost
from tests.adapters.onebot_v11.running import new_driver


@pytest.mark.parametrize(
    ("settings", "urls"),
    [
        ({}, set()),
        ({"onebot_ws_urls": ["ws://127.0.0.1:3001"]}, {"ws://127.0.0.1:3001/"}),
        ({"onebot_v11_ws_urls": '["ws://a:1", "wss://b/x"]'}, {"ws://a:1/", "wss://b/x"}),
        ({"onebot_v11_ws_urls": "", "onebot_ws_urls": {"ws://a:1"}}, {"ws://a:1/"}),
    ],
)
def test_addresses_to_connect_to_are_read(settings: dict[str, Any], urls: set[str]) -> None:
    assert {str(url) for url in read_config(settings).onebot_ws_urls} == urls


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"onebot_v11_ws_urls": "ws://127.0.0.1:3001"}, "expected JSON, for example"),
        ({"onebot_ws_urls": ["http://127.0.0.1:3001"]}, "the OneBot v11 settings"),
        ({"onebot_ws_urls": 5}, "the OneBot v11 settings"),
    ],
)
def test_a_setting_that_cannot_be_read_is_named(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read_config(settings)


@pytest.mark.parametrize("token", ["a secret", 12345])
def test_a_token_in_the_settings_is_used(tmp_path: Path, token: Any) -> None:
    assert read_config({"onebot_v11_access_token": token}).onebot_access_token == str(token)
    create(MemoryHost(tmp_path, {"onebot_access_token": token}), new_driver())
    assert not (tmp_path / "secrets").exists()


def test_a_driver_without_a_server_is_refused(tmp_path: Path) -> None:
    driver = NoServer(Env(environment="test"), Config(_env_file=None))
    with pytest.raises(TypeError, match="serves no web application"):
        create(MemoryHost(tmp_path), driver)
