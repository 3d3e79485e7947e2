"""Defines which messages of a group the bot answers (`Participation`), and the settings for
that."""

import re
from enum import StrEnum

from pydantic import Field, field_validator

from nekro_core.system.live_settings import LiveSettings

_TIME_OF_DAY = re.compile(r"(?:[01]\d|2[0-3]):[0-5]\d\Z")


class Participation(StrEnum):
    """Which messages of a group the bot answers."""

    MENTIONED = "mentioned"
    """Messages that mention the bot, reply to it or call it by a name."""
    FOLLOWS = "follows"
    """Also messages of people who go on talking to the bot, and answers to its questions."""
    LIVELY = "lively"
    """Also other messages, unasked, within an hourly budget."""


class ParticipationSettings(LiveSettings):
    """How far the bot takes part in groups. Times are seconds unless a name says otherwise."""

    mode: Participation = Participation.FOLLOWS
    """Which messages of a group are answered. ``/participation`` and the console set it for one
    chat."""
    judged_an_hour: int = Field(default=30, ge=0, le=3600)
    """How many times an hour the model of the role ``quick`` is asked in one chat whether the bot
    should speak unasked (only in ``lively``)."""
    unasked_an_hour: int = Field(default=6, ge=0, le=3600)
    """How many times an hour the bot speaks unasked in one chat."""
    share: float = Field(default=0.25, ge=0, le=1)
    """The bot does not speak unasked if more than this part of the last messages are its own."""
    share_of: int = Field(default=20, ge=1, le=100)
    """Of how many of the last messages that part is computed."""
    ignored_s: float = Field(default=900.0, ge=0)
    """If nobody reacts to what the bot said unasked, it is silent for so long, and twice as long
    after each further time, up to a day."""
    pause_s: float = Field(default=8.0, ge=0, le=600)
    """The bot speaks unasked only after nobody has written for so long."""
    quiet_from: str = ""
    """From this time of day, for example ``23:00``, the bot does not speak unasked; it still
    answers. If empty, there are no quiet hours."""
    quiet_until: str = ""
    """The end of the quiet hours, for example ``08:00``."""

    @field_validator("quiet_from", "quiet_until")
    @classmethod
    def _check_time(cls, value: str) -> str:
        if value and not _TIME_OF_DAY.match(value):
            raise ValueError("expected a time of day such as 23:00, or nothing")
        return value
