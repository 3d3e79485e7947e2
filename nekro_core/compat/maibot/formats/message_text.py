"""Writes the text of a message as MaiBot does: a mention is ``@`` and the name, or the id if no
name is known."""

from collections.abc import Iterable, Sequence

from nekro_core.chat import Mention, Reply, Segment, Text, plain_text


def message_text(segments: Iterable[Segment]) -> str:
    """The text of a message. A mention is separated from the words beside it."""
    text = ""
    after_mention = False
    for each in segments:
        mention = isinstance(each, Mention)
        piece = mention_text(each) if isinstance(each, Mention) else plain_text([each])
        if not piece:
            continue
        if (mention or after_mention) and text and not (text[-1].isspace() or piece[0].isspace()):
            text += " "
        text += piece
        after_mention = mention
    return text


def mention_text(mention: Mention) -> str:
    """The text of a mention, for example ``@Lin``, ``@12345`` or ``@all``."""
    name = mention.name or mention.user_id
    return f"@{name}" if name else ""


def leading_call(segments: Sequence[Segment], account: str) -> str:
    """Return the text at the beginning of a message that only says whom the message is for. This
    text has mentions of the bot's account. It may also mention the person to whose message this
    message replies (QQ adds this mention automatically). A command may follow this text."""
    meant = {account}
    lead = []
    for each in segments:
        if isinstance(each, Reply):
            meant.add(each.sender_id)
        elif isinstance(each, Mention) and each.user_id and each.user_id in meant:
            lead.append(each)
        elif not (isinstance(each, Text) and not each.text.strip()):
            break
    return message_text(lead)
