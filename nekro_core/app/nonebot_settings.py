"""NoneBot's own names for operators and prefixes, ``SUPERUSERS`` and ``COMMAND_START``."""

from collections.abc import Iterable

from loguru import logger

from nekro_core.policy.permissions import EVERYBODY, CommandSettings

_ADAPTERS = {"onebot": ("onebot_v11", "onebot_v12"), "kaiheila": ("kook",)}
"""What NoneBot's prefix of an id (the first word of an adapter's name) is called here, where it is
another name."""
_BARE = _ADAPTERS["onebot"]
"""Where an id without a platform counts: such ones are QQ numbers. On every platform, as NoneBot
has it, a stranger who has the same id elsewhere would be an operator."""


def with_nonebot_settings(
    settings: CommandSettings, superusers: Iterable[str], starts: Iterable[str] | None
) -> CommandSettings:
    """The settings with what NoneBot's names say as well. ``starts`` is None where nobody set it;
    it gives way to prefixes of our own setting."""
    people = {person for each in superusers for person in _people(each.strip())}
    changed: dict[str, object] = {"super_users": settings.super_users | people}
    if starts is not None and "prefixes" not in settings.model_fields_set:
        usable = tuple(sorted(start for start in starts if start and start.strip() == start))
        if len(usable) < len([*starts]):
            logger.warning(
                "COMMAND_START: an empty prefix, or one with blanks, is left out: every message "
                "that begins with a command's name would be one"
            )
        wide = ("／",) if "/" in usable and "／" not in usable else ()
        changed["prefixes"] = (*usable, *wide) or settings.prefixes
    return settings.model_copy(update=changed)


def _people(written: str) -> Iterable[str]:
    place, colon, user_id = written.rpartition(":")
    if not user_id or user_id == EVERYBODY:
        return  # There it is an id like any other, here it would be everybody.
    for adapter in _ADAPTERS.get(place, (place,)) if colon else _BARE:
        yield f"{adapter}:{user_id}"
