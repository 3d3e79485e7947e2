"""Sends text, pictures and files to the chat, and reads its messages and pictures."""

from pathlib import Path
from typing import Literal

from nekro_core.api.chat import (
    EVERYONE,
    Author,
    DeliveryState,
    Receipt,
    Record,
    Reply,
    Segment,
    Text,
    plain_text,
)
from nekro_core.api.plugin import NekroPlugin, SandboxMethodType, ToolFailure
from nekro_core.api.schemas import AgentCtx, FoundMessage

from .quotes import MAX_QUOTED, about, author_of, quoted

plugin = NekroPlugin(
    name="Chat",
    module_name="chat",
    description="Send text, pictures and files to the chat; look at pictures and at what was said.",
    version="0.1.0",
    author="nekro",
    is_builtin=True,
)

_EXAMPLES = Path(__file__).with_name("examples")
_MAX_MENTIONS = 20
_MAX_TEXT = 20_000
_MAX_PICTURES = 6
_MAX_FOUND = 50
_MAX_FOUND_TEXT = 1000


@plugin.mount_sandbox_method(
    SandboxMethodType.TOOL,
    "send_channel_message",
    "Send a text message to the chat.",
    examples=_EXAMPLES / "send_channel_message",
)
async def send_channel_message(
    _ctx: AgentCtx,
    text: str,
    mention: str | list[str] | None = None,
    reply_to: str | None = None,
) -> str:
    """Say something: answer, chat, tell a joke.

    Args:
        text: What to say.
        mention: Id or name of whom to mention first.
        reply_to: The number of the message to answer.

    Example:
        # User: Hello!
        send_channel_message("Hello! What can I do for you?")

        # User: tell me something funny
        send_channel_message("Why did the scarecrow win a prize? He was outstanding in his field.")

        # User: who painted the Mona Lisa?
        send_channel_message("Leonardo da Vinci painted it.")

        # User: what's 12 plus 30?
        send_channel_message(f"12 + 30 = {12 + 30}")

        # User: I passed my exam!
        send_channel_message("Congratulations! You worked hard for it.")

        # User: how do I remove a coffee stain?
        send_channel_message("Dab it with cold water and a little soap, then rinse.")

        # User: write a haiku about rain
        send_channel_message("Soft rain on the roof,\\nthe garden drinks and listens.")

        # User: who are you?
        send_channel_message("I am the bot of this chat. I can talk, speak, draw and roll dice.")

        # User: Thanks a lot!
        send_channel_message("You are welcome!")

        # User: 你是谁？
        send_channel_message("我是这个群里的机器人，可以聊天、说话、画图、掷骰子。")

        # User: 说点好玩的
        send_channel_message("为什么数学书总是很忧郁？因为它的问题太多了。")

        # User: 最高的山是哪座？
        send_channel_message("世界上最高的山是珠穆朗玛峰。")

        # User: 15乘以4等于多少
        send_channel_message(f"15 × 4 = {15 * 4}")

        # User: 写一首关于雨的短诗
        send_channel_message("细雨敲窗，\\n花草低声唱，\\n清晨一片绿光。")

        # User: 谢谢你
        send_channel_message("不客气！")

        # User: 我考试通过了！
        send_channel_message("恭喜你！你的努力没有白费。")

        # User: あなたは誰？
        send_channel_message("このグループのボットです。お話もお絵かきもできますよ。")

        # User: 何かおもしろいことを言って
        send_channel_message("布団が吹っ飛んだ！")

        # User: 空はなぜ青いの？
        send_channel_message("青い光のほうが空気で散らばりやすいからです。")

        # User: 雨の俳句を作って
        send_channel_message("春雨や\\n庭の緑が\\n目を覚ます")

        # User: ありがとうございます
        send_channel_message("どういたしまして！")

        # User: 9たす8はいくつ？
        send_channel_message(f"9 + 8 = {9 + 8}です。")

        # User: 一番高い山は何ですか？
        send_channel_message("世界で一番高い山はエベレストです。")
    """
    if not text.strip():
        raise ToolFailure("text is empty: say something")
    if len(text) > _MAX_TEXT:
        raise ToolFailure(f"text of {len(text)} characters: at most {_MAX_TEXT}")
    people = [mention] if isinstance(mention, str) else list(dict.fromkeys(mention or ()))
    if len(people) > _MAX_MENTIONS:
        raise ToolFailure(f"{len(people)} mentions: at most {_MAX_MENTIONS}")
    if EVERYONE in people:
        raise ToolFailure("you cannot mention everybody: give the user ids of those you mean")
    segments: list[Segment] = [Reply(await _ctx.known_message(reply_to))] if reply_to else []
    segments += [await _ctx.known_person(each) for each in people]
    segments.append(Text(f" {text}" if people else text, markdown=True))
    return _told(await _ctx.send(segments))


@plugin.mount_sandbox_method(SandboxMethodType.TOOL, "send_image", "Send a picture to the chat.")
async def send_image(_ctx: AgentCtx, path: str, reply_to: str | None = None) -> str:
    """Send a picture that your code made, or one from the web.

    Args:
        path: A file of the sandbox, or an http(s) address.
        reply_to: The number of the message to answer.

    Example:
        send_image("chart.png")
    """
    answered = await _ctx.known_message(reply_to) if reply_to else ""
    return _told(await _ctx.send_image(path, reply_to=answered))


@plugin.mount_sandbox_method(SandboxMethodType.TOOL, "send_file", "Send a file to the chat.")
async def send_file(_ctx: AgentCtx, path: str, name: str | None = None) -> str:
    """Send a file for people to keep.

    Args:
        path: A file of the sandbox, or an http(s) address.
        name: What people see instead of the file's name.

    Example:
        send_file("report.csv")
    """
    return _told(await _ctx.send_file(path, name=name or ""))


@plugin.mount_sandbox_method(
    SandboxMethodType.MULTIMODAL_AGENT, "view_image", "Look at pictures.", needs_chat=False
)
async def view_image(_ctx: AgentCtx, path: str | list[str]) -> list[dict[str, object]]:
    """Look at pictures yourself. You see them in the next step.

    Args:
        path: A file of the sandbox, an http(s) address, or a list of them.

    Example:
        view_image("chart.png")
    """
    paths = [path] if isinstance(path, str) else path
    if not 0 < len(paths) <= _MAX_PICTURES:
        raise ToolFailure(f"{len(paths)} pictures: give 1 to {_MAX_PICTURES}")
    parts: list[dict[str, object]] = []
    for each in paths:
        picture = await _ctx.fs.fetch(each)
        try:
            part = await _ctx.picture_part(picture)
        except ToolFailure as error:
            raise ToolFailure(f"{each!r}: {error}") from None
        parts += [{"type": "text", "text": f"{each}:"}, part]
    return parts


@plugin.mount_sandbox_method(
    SandboxMethodType.TOOL, "recent_messages", "Read what was said in the chat."
)
async def recent_messages(_ctx: AgentCtx, count: int = 20) -> list[dict[str, object]]:
    """Read the newest messages of this chat since the conversation began, oldest first.

    Args:
        count: At most 500.

    Returns:
        Dicts with message_id, author ("person", "bot" is you, "system"), user_id, name, time and
        text.

    Example:
        for message in recent_messages(50):
            print(message["name"], message["text"])
    """
    return [_line(record) for record in await _ctx.recent_records(count)]


@plugin.mount_sandbox_method(
    SandboxMethodType.TOOL, "find_messages", "Search all that was ever said in the chat."
)
async def find_messages(
    _ctx: AgentCtx,
    words: str = "",
    who: str | None = None,
    since: str | None = None,
    until: str | None = None,
    kind: Literal["image", "voice", "video", "file", "link", "forward"] | None = None,
    limit: int = 10,
) -> list[dict[str, object]]:
    """Find earlier messages of this chat by what they are about, best first.

    Args:
        words: A question or words; empty for the newest.
        who: Id or name of the author; "you" for your own.
        since: Such as "2025-03-08" or "2025-03-08T21:14".
        until: As since; that day included.
        limit: At most 50.

    Returns:
        Dicts with number, message_id, who, user_id, time, text, answers (a number) and files
        (paths).

    Example:
        # User: What did Mei say about the kiln last month?
        for message in find_messages("kiln", who="Mei"):
            print(message["time"], message["who"], message["text"])

        # User: 我们上次说好几点集合？
        print(find_messages("集合 时间"))
    """
    if not 1 <= limit <= _MAX_FOUND:
        raise ToolFailure(f"limit={limit}: expected 1 to {_MAX_FOUND}")
    found = await _ctx.find_messages(
        words, who=who or "", since=since or "", until=until or "", kind=kind or "", limit=limit
    )
    lines = [_found_line(each) for each in found.messages]
    if found.weak:
        note = "nothing fits well: the messages below are the nearest, and may be something else"
        lines.insert(0, {"note": note})
    if found.incomplete:
        note = "older messages are not indexed yet, so they were not searched: try again later"
        lines.append({"note": note})
    return lines


@plugin.mount_sandbox_method(
    SandboxMethodType.TOOL,
    "quote_messages",
    "Post earlier messages of the chat.",
    # A model that reads the results of calls does better with find_messages.
    visibility="unlisted",
    examples=_EXAMPLES / "quote_messages.txt",
)
async def quote_messages(_ctx: AgentCtx, words: str = "", who: str = "", limit: int = 5) -> str:
    """Look up what was said earlier in this chat, and post the real messages.

    Args:
        words: What it was about; empty for the newest messages.
        who: Id or name of the author, "me" for the asker, "you" for the bot.
        limit: How many messages.

    Returns:
        What was posted.

    Example:
        quote_messages("kiln", who="Mei", limit=3)
    """
    limit = max(1, min(limit, MAX_QUOTED))
    asked = await _ctx.recent_records(1)
    author = author_of(who, _ctx.from_user_id)
    wanted = words
    try:
        # The newest message is usually the question, which must not answer itself.
        found = await _ctx.find_messages(words, who=author, limit=limit + 1)
    except ToolFailure:
        if not author:
            raise
        # Nobody has this name. It may be what the messages are about.
        wanted = f"{words} {who}".strip()
        found = await _ctx.find_messages(wanted, limit=limit + 1)
    questions = {record.seq for record in asked}
    answers = [each for each in found.messages if each.number not in questions]
    messages = about(wanted, answers)[:limit]
    last = plain_text(asked[-1].segments) if asked else words
    text = quoted(messages, last)
    await _ctx.send_text(text)
    return f"posted: {text}"


def _found_line(message: FoundMessage) -> dict[str, object]:
    record = message.record
    names = {Author.BOT: "you", Author.SYSTEM: "system"}
    text = plain_text(record.segments)
    if len(text) > _MAX_FOUND_TEXT:
        text = f"{text[:_MAX_FOUND_TEXT]}… ({len(text)} characters)"
    return {
        "number": message.number,
        "message_id": record.message_id,
        "who": names.get(record.author) or record.sender.name,
        "user_id": record.sender.user_id,
        "time": f"{message.written:%Y-%m-%d %H:%M}",
        "text": text,
        "answers": message.answers or None,
        "files": list(message.files),
    }


def _line(record: Record) -> dict[str, object]:
    names = {Author.BOT: "you", Author.SYSTEM: "system"}
    return {
        "message_id": record.message_id,
        "author": record.author.value,
        "user_id": record.sender.user_id,
        "name": names.get(record.author) or record.sender.name,
        "time": record.time,
        "text": plain_text(record.segments),
    }


def _told(receipts: tuple[Receipt, ...]) -> str:
    states = {receipt.state for receipt in receipts}
    if DeliveryState.UNKNOWN in states:
        return "nobody knows whether it arrived: do not send it again"
    if DeliveryState.PENDING in states:
        return (
            "the account is offline: the message is sent when the account is back, "
            "do not send it again"
        )
    return "sent"
