"""Only an owner may call operations with which a person could get every right. See `AccessRole`."""

import pytest

from nekro_core.operator.actions import Area
from nekro_core.operator.backups import Backups
from nekro_core.operator.embedded import Embedded
from nekro_core.operator.mcp import Mcp
from nekro_core.operator.platforms import Platforms
from nekro_core.operator.plugins import Plugins
from nekro_core.operator.roles import AccessRole
from nekro_core.operator.settings import SettingsArea

FOR_OWNERS: dict[type[Area], set[str]] = {
    Backups: {"make", "delete", "prepare_restore", "cancel_restore"},
    Embedded: {"copy"},
    Mcp: {"put", "remove", "test"},
    Platforms: {"connection_hint", "test_account", "change_account"},
    Plugins: {"index", "upload", "look", "install", "update", "configure"},
    SettingsArea: {"set", "unset", "move_from_env"},
}


@pytest.mark.parametrize("area", FOR_OWNERS, ids=lambda area: area.name)
def test_operations_that_could_give_every_right_need_an_owner(area: type[Area]) -> None:
    needed = {name for name, each in area.declared().items() if each.role is AccessRole.OWNER}
    assert needed == FOR_OWNERS[area]
