"""Writes the text of a message as MaiBot does: a mention is ``@`` and the name, or the id if no
name is known."""

from collections.abc import Iterable, Sequence

from nekro_core.chat import Mention, Reply, Segment, plain_text


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
    """The text at the beginning of a message that only calls the bot: mentions of its account, and
    the reply. A command may follow it."""
    lead = []
    for each in segments:
        if isinstance(each, Reply):
            continue
        if not (isinstance(each, Mention) and account and each.user_id == account):
            break
        lead.append(each)
    return message_text(lead)
