"""The model's script for the conversation on the stages. It reads three things in the prompt: who
wrote, the number of the message, and the paths of the sent files in the box."""

import base64
import io
import json
import re

from PIL import Image

from tests.peers.scripted_model import Asked

_NAME = r'(?P<name>"(?:[^"\\\n]|\\.)*"|\S+)'
_HEADER = re.compile(rf"^(?P<number>#\d+)(?: \d\d:\d\d)? {_NAME}.* NEW(?: [a-z ]+)?$", re.MULTILINE)
_INTRODUCED = re.compile(
    rf'^#\d+(?: \d\d:\d\d)? {_NAME} \((?P<user>"[^"\n]*"|[^,)\s]+)', re.MULTILINE
)
_ATTACHED = re.compile(r"\n\+ (?P<kind>image|voice|file)\b.*?(?P<path>/app/uploads/\S+)")

GREETING, HEARD, THERE, LONG_IN = "good evening", "I heard you", "what did I send", "so much to say"
LONG = "\n\n".join(
    f"Verse {verse}. " + " ".join(f"word-{verse}-{number}" for number in range(60))
    for verse in range(12)
)
"""About 9,000 characters. Only the bot's own page and Matrix take them in one message."""
NOTES = "one\ntwo\nthree\n"


def _picture() -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (320, 240), (200, 60, 40)).save(buffer, "PNG")
    return buffer.getvalue()


PICTURE = _picture()


def model(asked: Asked) -> str:
    """A reply to the newest message marked NEW."""
    prompt = "\n".join(_text(message) for message in asked.messages if message["role"] == "user")
    *_, newest = _HEADER.finditer(prompt)
    said = prompt[newest.end() :]
    if GREETING in said:
        code = (
            f"send_channel_message('Good evening!', mention={_user_id(prompt, newest['name'])!r}, "
            f"reply_to={newest['number']!r})"
        )
    elif THERE in said:
        paths = {found["kind"]: found["path"] for found in _ATTACHED.finditer(prompt)}
        code = (
            "import hashlib\n"
            f"for kind, path in {paths!r}.items():\n"
            "    digest = hashlib.sha256(open(path, 'rb').read()).hexdigest()\n"
            "    send_channel_message(f'{kind} {digest}')"
        )
    elif "show me" in said:
        code = (
            "import base64, pathlib\n"
            f"pathlib.Path('red.png').write_bytes(base64.b64decode({_encoded(PICTURE)!r}))\n"
            "send_image('red.png')\n"
            "send_tts_voice('Good night!')\n"
            f"pathlib.Path('notes.txt').write_text({NOTES!r})\n"
            "send_file('notes.txt')"
        )
    elif LONG_IN in said:
        code = f"send_channel_message({LONG!r})"
    else:
        code = f"send_channel_message({HEARD!r})"
    return f"```python\n{code}\n```"


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _user_id(prompt: str, name: str) -> str:
    """The id of a person. The prompt shows it at the person's first message."""
    ids = {each["name"]: each["user"] for each in _INTRODUCED.finditer(prompt)}
    user = ids[name]
    return str(json.loads(user)) if user.startswith('"') else user


def _text(message: dict) -> str:
    content = message["content"]
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content if part["type"] == "text")
