"""Decides whether the author of a line goes on talking to the bot, and names the reasons."""

from dataclasses import dataclass
from enum import StrEnum

from nekro_core.agent.participation.addressee import Reading
from nekro_core.agent.participation.conversation import SpokenLine
from nekro_core.agent.participation.line_text import CUE_NAMES
from nekro_core.agent.participation.records import BOT

ANSWER_S = 3600.0
"""Seconds: an hour. If the bot has asked a person a question, the next line counts as the answer if
that person writes it within this time. If the bot last spoke longer ago than this, the line does
not go on talking to the bot. In the talk from which the trees were learnt, such a long pause hardly
ever occurs."""
_RECENT_S = 180.0
_THANKS, _AGREES, _HEARER = (CUE_NAMES.index(each) for each in ("thanks", "agrees", "hearer"))


class TalkSign(StrEnum):
    """A reason why a line goes on talking to the bot, or why not. The values are stored with the
    decisions, so they never change."""

    ANSWERS_QUESTION = "answers_question"
    """The bot asked this person something, and this is the person's next line."""
    JUST_SPOKE = "just_spoke"
    """The bot spoke to this person less than three minutes ago."""
    NOBODY_BETWEEN = "nobody_between"
    """Nobody else has spoken since the bot's last line."""
    SAME_TOPIC = "same_topic"
    """The line has a rare word of the bot's last lines."""
    THANKS = "thanks"
    AGREES = "agrees"
    SAYS_YOU = "says_you"
    """The line says "you"."""
    ASKS = "asks"
    NAMES_OTHER = "names_other"
    """The line names somebody who is not the bot."""
    TALKS_TO_OTHER = "talks_to_other"
    """It is more likely that the line goes to somebody else than to the bot."""
    LONG_AGO = "long_ago"
    """The bot has not spoken to this person in the last three minutes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowVerdict:
    """The decision whether a line goes on talking to the bot, with its probability and reasons."""

    goes_on: bool
    likely: float = 0.0
    signs: tuple[TalkSign, ...] = ()

    @property
    def detail(self) -> str:
        """The verdict as it is stored: the probability, then the signs, separated by spaces. Empty
        if there are no signs, for example because the bot did not speak lately."""
        return "" if not self.signs else " ".join((f"{self.likely:.2f}", *self.signs))


def verdict_of(reading: Reading, line: SpokenLine, threshold: float) -> FollowVerdict:
    """Decide from the estimate for a person's line whether the line goes on talking to the bot.
    ``threshold`` is the least probability at which it does."""
    if line.named - {BOT}:
        return FollowVerdict(goes_on=False, likely=reading.likely, signs=(TalkSign.NAMES_OTHER,))
    if BOT not in reading.facts.nearby:
        return FollowVerdict(goes_on=False)
    answers = _answers_question(reading)
    recent = reading.facts.people[BOT].seconds_ago <= ANSWER_S
    goes_on = answers or (recent and reading.likely >= threshold)
    signs = _signs_for(reading, line, answers) if goes_on else _signs_against(reading)
    return FollowVerdict(goes_on=goes_on, likely=max(reading.likely, float(answers)), signs=signs)


def _answers_question(reading: Reading) -> bool:
    """Return True if the bot's last line asked the speaker a question less than an hour ago, and
    nobody else has spoken since."""
    bot = reading.facts.people[BOT]
    if bot.last is None or bot.order or bot.seconds_ago > ANSWER_S:
        return False
    return bot.last.line.text.asks and (bot.named_speaker_ago == bot.ago)


def _signs_for(reading: Reading, line: SpokenLine, answers: bool) -> tuple[TalkSign, ...]:
    bot, cues = reading.facts.people[BOT], line.text.has
    shared = max((len(each.line.text.words & line.text.words) for each in bot.latest), default=0)
    signs = {
        TalkSign.ANSWERS_QUESTION: answers,
        TalkSign.JUST_SPOKE: min(bot.named_speaker_s, bot.aimed_s) <= _RECENT_S,
        TalkSign.NOBODY_BETWEEN: bot.order == 0,
        TalkSign.SAME_TOPIC: shared > 0,
        TalkSign.THANKS: _THANKS in cues,
        TalkSign.AGREES: _AGREES in line.text.begins,
        TalkSign.SAYS_YOU: _HEARER in cues,
        TalkSign.ASKS: line.text.asks,
    }
    return tuple(sign for sign, holds in signs.items() if holds)


def _signs_against(reading: Reading) -> tuple[TalkSign, ...]:
    bot, aims = reading.facts.people[BOT], reading.aims
    signs = {
        TalkSign.TALKS_TO_OTHER: max(aims.values(), default=0.0) > aims.get(BOT, 0.0),
        TalkSign.LONG_AGO: min(bot.named_speaker_s, bot.aimed_s) > _RECENT_S,
    }
    return tuple(sign for sign, holds in signs.items() if holds)
