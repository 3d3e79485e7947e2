"""Writes the calls that show a typing state or a reaction. OneBot v11 does not define them; NapCat
and LLBot have them as extensions."""

from nekro_core.api.adapter import SignRefused
from nekro_core.api.chat import ChatKey

from .incoming import wire_id
from .outgoing import ActionCall

TYPING = "set_input_status"
REACTION = "set_msg_emoji_like"
TYPING_S = 5.0
"""Seconds after which the typing state is shown anew. Neither implementation says how long QQ shows
it."""
_IS_TYPING = 1
"""The ``event_type`` for a person who types."""
_VARIANT = "\ufe0f"
"""A character that some emoji end with. QQ's lists of emoji do not have it."""


def typing_call(key: ChatKey) -> ActionCall:
    """Write the call that shows a friend that the bot is typing."""
    return ActionCall(TYPING, {"user_id": key.native_id, "event_type": _IS_TYPING})


def reaction_call(message_id: str, emoji: str) -> ActionCall:
    """Write the call that reacts to a message. QQ names its own faces by numbers, and an emoji by
    the number of its character. Raises `SignRefused` for an emoji of several characters."""
    character = emoji.removesuffix(_VARIANT)
    is_face = emoji.isascii() and emoji.isdecimal()
    if not is_face and len(character) != 1:
        raise SignRefused(
            f"QQ has no reaction {emoji!r}: expected the number of a face, or one emoji of a "
            "single character"
        )
    emoji_id = emoji if is_face else str(ord(character))
    return ActionCall(
        REACTION, {"message_id": wire_id(message_id), "emoji_id": emoji_id, "set": True}
    )
