"""Environment variables become settings of the adapters of enabled platforms."""

import pytest

from nekro_core.app.settings import Settings, adapter_settings


def test_json_lists_are_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TELEGRAM_BOTS", '[{"token": "123:abc"}]')
    monkeypatch.setenv("TELEGRAM_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("KAIHEILA_BOTS", '[{"token": "t"}]')
    monkeypatch.setenv("DISCORD_BOTS", "[]")
    monkeypatch.setenv("NEKRO_PLATFORMS", '["telegram", "kook"]')
    found = adapter_settings(Settings(_env_file=None))
    assert found["telegram_bots"] == [{"token": "123:abc"}]
    assert found["telegram_proxy"] == "http://127.0.0.1:1"
    assert found["kaiheila_bots"] == [{"token": "t"}]
    assert "discord_bots" not in found, "Discord is not enabled"


def test_settings_of_onebot_v11_are_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONEBOT_V11_WS_URLS", '["ws://127.0.0.1:1"]')
    assert (
        adapter_settings(Settings(_env_file=None))["onebot_v11_ws_urls"] == '["ws://127.0.0.1:1"]'
    )


def test_the_setting_of_platforms_is_decoded_to_a_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEKRO_PLATFORMS", '["telegram", "mail"]')
    assert Settings(_env_file=None).nekro_platforms == ("telegram", "mail")
