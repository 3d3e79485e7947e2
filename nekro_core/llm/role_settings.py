"""Defines the settings of the roles of models (``NEKRO_ROLES__*``)."""

import re

from pydantic import Field, field_validator

from nekro_core.llm.roles import ModelRole
from nekro_core.system.live_settings import AFTER_RESTART, LiveSettings

DEFAULT = "default"
"""The name of the bot's default model (``NEKRO_LLM__*``) in a chain."""
EMBEDDED = "embedded"
"""The name of the embedded model in a chain."""
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_MOST_MODELS = 16
"""Maximum number of models of a chain. A person who waits for an answer should not have to wait
until more than this many models have failed."""


def chain_names(text: str) -> tuple[str, ...]:
    """Read the names of a chain, such as ``fast,strong``. Raises `ValueError`."""
    return _checked(tuple(each.strip() for each in text.split(",") if each.strip()))


def _checked(names: tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        if not _NAME.fullmatch(name):
            raise ValueError(
                f"{name!r} is no name of a model: expected lower-case letters, digits, - and _"
            )
    if len(names) > _MOST_MODELS:
        raise ValueError(f"{len(names)} models in a chain: expected at most {_MOST_MODELS}")
    return tuple(dict.fromkeys(names))


class RoleSettings(LiveSettings):
    """Which models answer for each role, in the order in which they are asked.

    The names are those of ``NEKRO_MODELS__<name>__*``. ``default`` is the model of ``NEKRO_LLM``,
    ``embedded`` the one on this machine. The next model is asked if one fails before its first
    word. A role without models is not done; only ``chat`` then uses ``default``.
    """

    chat: tuple[str, ...] = ()
    """The models that answer in chats."""
    quick: tuple[str, ...] = ()
    """The models of background work: summaries, notes, decisions whether to answer."""
    vision: tuple[str, ...] = ()
    """The models that describe pictures for a chat model that does not see them."""
    embed: tuple[str, ...] = ()
    """The models that make vectors of texts for plugins; their groups have the type
    ``embedding``."""
    hear: tuple[str, ...] = Field(default=(), json_schema_extra=AFTER_RESTART)
    """The models that turn voice into text (``/audio/transcriptions``). After them comes the engine
    of ``NEKRO_SPEECH__TRANSCRIBER``."""
    speak: tuple[str, ...] = Field(default=(), json_schema_extra=AFTER_RESTART)
    """The models that turn text into voice (``/audio/speech``). After them comes the engine of
    ``NEKRO_SPEECH__ENGINE``."""
    draw: tuple[str, ...] = ()
    """The models that make pictures for plugins; their groups have the type ``draw``."""
    saving: tuple[str, ...] = ()
    """Cheaper models that answer instead when little is left of a daily budget. Without them, a
    budget is used to its end by the usual models."""
    saving_below: float = Field(default=0.2, ge=0, le=1)
    """The share of a daily budget below which the ``saving`` models answer."""
    allow_dearer: bool = False
    """Whether a model of a chain may be asked if it costs more than the first one of its chain, or
    if one of the two prices is not known."""
    max_price: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """Largest price of a million tokens, of which three quarters are of the prompt. A model that
    costs more is not asked. If it is set, a later model may cost more than the first one, up to
    this price."""
    quick_tokens_a_day: int = Field(default=1_000_000, ge=0)
    """Maximum number of tokens of background work in 24 hours. 0 means no limit."""
    quick_money_a_day: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """Maximum cost of background work in 24 hours. 0 means no limit."""
    cooldown_s: float = Field(default=30.0, gt=0, le=3600)
    """Seconds in which a model that failed is not asked while another one answers. After each
    further failure they double."""
    longest_cooldown_s: float = Field(default=600.0, gt=0, le=86_400)
    """Longest cool-down in seconds."""

    @field_validator(*(role.value for role in ModelRole), "saving")
    @classmethod
    def _check_names(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        return _checked(names)

    def of(self, role: ModelRole) -> tuple[str, ...]:
        """Return the names of the models of a role."""
        names: tuple[str, ...] = getattr(self, role.value)
        return names or ((DEFAULT,) if role is ModelRole.CHAT else ())
