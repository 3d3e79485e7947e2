"""The tests check which values the settings of the agent accept."""

import pytest
from pydantic import ValidationError

from nekro_core.agent.settings import AgentSettings
from nekro_core.chat import ChatKey


@pytest.mark.parametrize("zone", ["", "UTC", "Asia/Tokyo"])
def test_a_valid_time_zone_is_accepted(zone: str) -> None:
    assert AgentSettings(timezone=zone).timezone == zone


@pytest.mark.parametrize("zone", ["Mars/Olympus", "../etc/passwd", "\0"])
def test_an_unknown_time_zone_is_refused(zone: str) -> None:
    with pytest.raises(ValidationError, match="expected a name such as Asia/Tokyo"):
        AgentSettings(timezone=zone)


def test_a_chat_may_have_another_mode() -> None:
    settings = AgentSettings(modes={"web-private_lin": "tools"})
    assert settings.mode_of(ChatKey.parse("web-private_lin")) == "tools"
    assert settings.mode_of(ChatKey.parse("web-private_mei")) == "code"


def test_a_mode_for_an_invalid_chat_key_is_refused() -> None:
    with pytest.raises(ValidationError, match="modes"):
        AgentSettings(modes={"lin": "tools"})
