"""The context class that new plugins get has only the names of nekro_core.

The contexts of a running bot also have the names of nekro-agent (the legacy names).
"""

import pytest

from nekro_core.api.schemas import AgentCtx
from nekro_core.compat.nekro_agent.context import LegacyAgentCtx
from nekro_core.plugins.authoring.binding import PluginBinding, loading
from tests.plugins.world import GROUP, World

LEGACY = ("from_chat_key", "from_platform_userid", "container_key", "db_user", "ms", "set_preset")


def test_the_class_of_new_plugins_has_no_legacy_names() -> None:
    assert not [name for name in LEGACY if hasattr(AgentCtx, name)]
    assert all(hasattr(LegacyAgentCtx, name) for name in LEGACY)


def test_the_copy_of_a_context_for_a_call_keeps_the_legacy_names(world: World) -> None:
    own = world.ctx().called_for("ann.weather")
    assert (own.owner, own.from_chat_key) == ("ann.weather", str(GROUP))


@pytest.mark.parametrize("name", [AgentCtx, LegacyAgentCtx])
async def test_both_context_classes_make_contexts_with_the_legacy_names(
    world: World, name: type[AgentCtx]
) -> None:
    binding = PluginBinding(
        data_dir=world.data_dir,
        plugin_data=world.plugin_data,
        changed=lambda: None,
        services=world.services,
        make_context=LegacyAgentCtx,
    )
    with loading(binding):
        made = await name.create_by_chat_key(str(GROUP))
    assert isinstance(made, LegacyAgentCtx)
    assert made.from_chat_key == str(GROUP)
