"""A wrong setting is named with what was expected."""

import pytest
from pydantic import ValidationError

from nekro_core.agent import AgentSettings


@pytest.mark.parametrize("zone", ["", "UTC", "Asia/Tokyo"])
def test_time_zones(zone: str) -> None:
    assert AgentSettings(timezone=zone).timezone == zone


@pytest.mark.parametrize("zone", ["Mars/Olympus", "../etc/passwd", "\0"])
def test_no_time_zone(zone: str) -> None:
    with pytest.raises(ValidationError, match="expected a name such as Asia/Tokyo"):
        AgentSettings(timezone=zone)
