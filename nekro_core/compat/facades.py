"""Which module names existing plugins import, and what of ours stands behind each.

To offer another one, add a line. A façade re-exports everything of the modules behind it.
"""

from collections.abc import Mapping
from types import MappingProxyType

FACADES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "nekro_agent": (),
        "nekro_agent.api": (),
        "nekro_agent.api.core": ("nekro_core.api.core",),
        "nekro_agent.api.i18n": ("nekro_core.api.i18n",),
        "nekro_agent.api.message": ("nekro_core.api.message",),
        "nekro_agent.api.plugin": ("nekro_core.api.plugin",),
        "nekro_agent.api.schemas": ("nekro_core.api.schemas",),
        "nekro_agent.api.signal": ("nekro_core.api.signal",),
    }
)
