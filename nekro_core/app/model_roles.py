"""Checks that each role of models names models that exist and have the right type."""

from collections.abc import Mapping

from nekro_core.app.settings_sources import SettingsError
from nekro_core.llm.groups import ModelGroupSettings
from nekro_core.llm.role_settings import DEFAULT, EMBEDDED, RoleSettings
from nekro_core.llm.roles import ModelRole

_TYPES: Mapping[str, str] = {ModelRole.EMBED: "embedding", ModelRole.DRAW: "draw"}
"""The type that a model group must have for a role. Roles that are not in this table need
``chat``."""
_ANY_TYPE = (ModelRole.HEAR, ModelRole.SPEAK)


def check_roles(roles: RoleSettings, groups: Mapping[str, ModelGroupSettings]) -> None:
    """Raise `SettingsError` if a role names a model that does not exist or has another type."""
    for role in (*(each.value for each in ModelRole), "saving"):
        names: tuple[str, ...] = getattr(roles, role)
        for name in names:
            _check(role, name, groups)


def _check(role: str, name: str, groups: Mapping[str, ModelGroupSettings]) -> None:
    setting, wanted = f"NEKRO_ROLES__{role.upper()}", _TYPES.get(role, "chat")
    if name in (DEFAULT, EMBEDDED):
        if wanted == "chat" and role not in _ANY_TYPE:
            return
        raise SettingsError(
            f"{setting}: {name!r} answers chats, which this role cannot use: name a group of "
            "NEKRO_MODELS"
        )
    group = groups.get(name)
    if group is None or not group.configured:
        known = ", ".join(sorted([DEFAULT, EMBEDDED, *groups]))
        raise SettingsError(
            f"{setting}: there is no model {name!r}; known are {known}. Add it as "
            f"NEKRO_MODELS__{name.upper()}__BASE_URL and __MODEL, or remove the name"
        )
    if role not in _ANY_TYPE and group.type != wanted:
        raise SettingsError(
            f"{setting}: the model {name!r} has the type {group.type}, and this role needs {wanted}"
        )
