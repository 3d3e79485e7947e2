"""Defines the classes with which the modules of scenarios describe their conversations."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from tests.e2e.scenarios.scene import Scene

Place = Literal["web", "qq", "private"]
Bot = Literal["large", "hurried", "plugins", "alone"]
"""The bot of a conversation: ``large`` is the usual one, ``hurried`` has short time limits,
``plugins`` has many functions, and ``alone`` serves one conversation, which may restart it."""
Play = Callable[[Scene], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Conversation:
    """One or more scenarios that happen in one chat.

    Attributes:
        numbers: The numbers of the conversation's scenarios.
        play: The function that says what happens, and checks the result.
        place: The kind of the chat.
        bot: The bot that takes part in the conversation.
        modes: The mode of the chat in each of the three `WORDINGS`. If a mode is empty, the
            conversation is not played in this wording.
    """

    numbers: Sequence[int]
    play: Play
    place: Place = "web"
    bot: Bot = "large"
    modes: tuple[str, str, str] = ("code", "code", "tools")

    @property
    def name(self) -> str:
        return "-".join(map(str, self.numbers))


CODE = ("code", "code", "")
"""Modes of a conversation that makes no sense in tool mode."""
EACH_IN_CODE = ("code", "code", "code")
TOOLS = ("tools", "tools", "tools")
WORDINGS = "abc"
"""The replies of the model to a conversation are stored in up to three wordings. A letter names
each wording."""


@dataclass
class Subject:
    """The conversations of one module."""

    name: str
    conversations: list[Conversation] = field(default_factory=list)

    def scenario(
        self,
        *numbers: int,
        place: Place = "web",
        bot: Bot = "large",
        modes: tuple[str, str, str] = ("code", "code", "tools"),
    ) -> Callable[[Play], Play]:
        """Add a function as a conversation."""

        def add(play: Play) -> Play:
            self.conversations.append(Conversation(numbers, play, place, bot, modes))
            return play

        return add
