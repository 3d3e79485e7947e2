"""Writes the lines of a prompt about the bot's place: the chat, what the platform can show, and
what the sandbox has.

These lines seldom change, so they are near the beginning of a prompt, which providers cache.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo

from nekro_core.agent.prompt.transcript import identifier, json_quoted
from nekro_core.chat import ChatKey, ChatKind, File, Forward, Image, Mention, Reply, Video, Voice
from nekro_core.delivery.adapter import Capabilities

_SHOWN: Sequence[tuple[type, str]] = (
    (Image, "pictures"),
    (Voice, "voice messages"),
    (Video, "videos"),
    (File, "files"),
    (Mention, "mentions"),
    (Reply, "replies"),
    (Forward, "bundles of messages"),
)
_MOST_PACKAGES = 16
"""Maximum number of packages that are named: the best known ones come first."""
_MOST_OWN = 3
"""Maximum number of the bot's own ids that are named. A chat usually has one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxFacts:
    """What a model must know about the box that runs its code.

    Attributes:
        python: The version of Python, for example ``3.11``; empty if not known.
        packages: The packages besides the standard library, the best known first; None if not
            known.
        seconds: The time limit of the code of one reply, in seconds.
        network: Whether the box may reach any address.
    """

    python: str = ""
    packages: Sequence[str] | None = None
    seconds: float = 60.0
    network: bool = False

    def text(self) -> str:
        """Return the facts as words that continue a sentence of the prompt."""
        python = f"Python {self.python}".strip()
        if self.packages:
            python += f" with {', '.join([*self.packages][:_MOST_PACKAGES])}"
        elif self.packages is not None:
            python += " (standard library only)"
        return f"{python}; {self.reach}; {self.seconds:g} s a reply"

    @property
    def reach(self) -> str:
        """Which network addresses the box can reach, as words that continue a sentence."""
        return "network to some addresses" if self.network else "no network"


UNKNOWN_SANDBOX = SandboxFacts()
"""A box of which only the defaults are known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatPlace:
    """Where a turn happens.

    Attributes:
        chat_key: The chat.
        platform: The adapter's name.
        name: What the platform calls the group or channel; empty if not known. People choose it.
        own: The platform's ids of the bot's accounts.
        zone: The time zone of all times in the prompt.
        now: The present time in seconds since 1970, which decides the zone's offset from UTC.
        shows: What messages to the chat can carry; None if not known.
        vision: Whether the model sees pictures.
    """

    chat_key: ChatKey
    platform: str
    name: str = ""
    own: Collection[str] = ()
    zone: tzinfo | None = None
    now: float = 0.0
    shows: Capabilities | None = None
    vision: bool = True

    def text(self) -> str:
        """Return the prompt's lines about the place."""
        return "\n".join([f"[chat] {self._where()}.", *self._about()])

    def _where(self) -> str:
        named = f" {json_quoted(self.name, 80)}" if self.name else ""
        match self.chat_key.kind:
            case ChatKind.PRIVATE:
                what = "a private chat with one person"
            case ChatKind.GROUP:
                what = f"the group{named}" if named else "a group"
            case _:
                what = f"the channel{named}" if named else "a channel"
        on = f" on {identifier(self.platform)}" if self.platform else ""
        ids = sorted(self.own)[:_MOST_OWN]
        you = f"; your id there is {' or '.join(map(identifier, ids))}" if ids else ""
        return f"{self.chat_key}: {what}{on}{you}"

    def _about(self) -> Iterator[str]:
        sentences = [f"Times are {_zone_text(self.zone, self.now)}."]
        if self.shows is not None:
            sentences.insert(0, _shown_text(self.shows))
        if not self.vision:
            sentences.append("You cannot see pictures.")
        yield f"[chat] {' '.join(sentences)}"


def _shown_text(shows: Capabilities) -> str:
    known = shows.inline | shows.alone
    named = [word for kind, word in _SHOWN if kind in known]
    missing = [word for kind, word in _SHOWN[:4] if kind not in known]
    can = ", ".join(["Markdown" if shows.markdown else "plain text", *named])
    cannot = f"; no {', '.join(missing)}" if missing else ""
    return f"It shows {can}{cannot}."


def _zone_text(zone: tzinfo | None, now: float) -> str:
    moment = datetime.fromtimestamp(now, UTC).astimezone(zone)
    offset = moment.utcoffset() or timedelta()
    minutes = round(offset.total_seconds() / 60)
    sign = "-" if minutes < 0 else "+"
    name = getattr(zone, "key", "") or "the machine's"
    return f"{name} (UTC{sign}{abs(minutes) // 60:02d}:{abs(minutes) % 60:02d})"
