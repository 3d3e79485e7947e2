"""Applies NoneBot's settings for operators and prefixes: ``SUPERUSERS`` and ``COMMAND_START``."""

from collections.abc import Callable, Iterable

from loguru import logger

from nekro_core.policy.permissions import EVERYBODY, CommandSettings


def with_nonebot_settings(
    settings: CommandSettings,
    superusers: Iterable[str],
    starts: Iterable[str] | None,
    platforms: Callable[[str | None], Iterable[str]],
) -> CommandSettings:
    """Return the settings with NoneBot's operators and prefixes added.

    ``starts`` is None if ``COMMAND_START`` is not set. If ``NEKRO_COMMAND__PREFIXES`` is set,
    ``starts`` is ignored. ``platforms`` is called with the platform prefix of an operator's id, or
    with None for an id without a prefix. It returns the adapters for which the id counts.
    """
    people = {person for each in superusers for person in _people(each.strip(), platforms)}
    changed: dict[str, object] = {"super_users": settings.super_users | people}
    if starts is not None and "prefixes" not in settings.model_fields_set:
        usable = tuple(sorted(start for start in starts if start and start.strip() == start))
        if len(usable) < len([*starts]):
            logger.warning(
                "COMMAND_START: a prefix that is empty or has blanks is ignored: with it, every "
                "message that begins with a command's name would be a command"
            )
        wide = ("／",) if "/" in usable and "／" not in usable else ()
        changed["prefixes"] = (*usable, *wide) or settings.prefixes
    return settings.model_copy(update=changed)


def _people(written: str, platforms: Callable[[str | None], Iterable[str]]) -> Iterable[str]:
    place, colon, user_id = written.rpartition(":")
    if not user_id or user_id == EVERYBODY:
        return  # For NoneBot this text is an ordinary id. Here it would mean everybody.
    for adapter in platforms(place if colon else None):
        yield f"{adapter}:{user_id}"
