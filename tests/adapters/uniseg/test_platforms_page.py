"""``docs/platforms.md`` agrees with the code. ``WRITE_DOCS=1`` writes its tables."""

import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from adapters.mail.adapter import MailAdapter
from adapters.mail.composer import CAPABILITIES as MAIL
from adapters.matrix.settings import create as create_matrix
from adapters.onebot_v11 import OneBotV11Adapter
from adapters.onebot_v11 import create as create_onebot
from adapters.onebot_v11.outgoing import CAPABILITIES as ONEBOT_V11
from adapters.uniseg import factories
from nekro_core.api.adapter import Capabilities, SupportsConfirmation
from nekro_core.api.chat import (
    ChatKey,
    ChatKind,
    File,
    Forward,
    Image,
    Mention,
    Reply,
    Text,
    Video,
    Voice,
)
from nekro_core.testing.memory_host import MemoryHost
from tests.adapters.uniseg.stock import Recorder, as_nonebots
from tests.adapters.uniseg.test_enabled import BY_NAME, PLATFORMS

DOCS = Path(__file__).parents[3] / "docs"
PAGE = DOCS / "platforms.md"
TYPES = {
    Text: "text", Mention: "mention", Reply: "reply", Image: "picture",
    Voice: "voice", Video: "video", File: "file", Forward: "bundle",
}  # fmt: skip
FORMS = {"Text": "text", "At": "mention", "Reply": "reply", "Image": "picture", "Voice": "voice",
         "Video": "video", "File": "file", "Reference": "bundle"}  # fmt: skip
OURS = {"onebot11": "onebot_v11", "onebot12": "onebot_v12"}
PYTHONS = ("3.11", "3.12")


def become(kind: type, can: Capabilities, nearest: dict[type, type]) -> str:
    """Say how a segment of this kind is sent: natively, as another kind, as text, or not at all."""
    if kind in can.inline | can.alone:
        turned = nearest.get(kind)
        alone = ", alone" if kind in can.alone else ""
        return f"{TYPES[turned]}" if turned else f"native{alone}"
    words = {Mention: "its name", Reply: "left out", Forward: "quoted words"}
    return words.get(kind, "refused")


def row(title: str, can: Capabilities, nearest: dict[type, type], *, asked: bool) -> str:
    cells = [become(kind, can, nearest) for kind in TYPES]
    size = f"{can.file_bytes // 1024 // 1024} MiB" if can.file_bytes else ""
    long = "a file" if File in can.inline | can.alone else "messages"
    cells += [str(can.text_length), long, size, "can be asked" if asked else "shown"]
    return "| " + " | ".join([title, *cells]) + " |"


def carried(folder: Path) -> Iterator[str]:
    heads = ["platform", *TYPES.values()]
    heads += ["characters", "a longer text", "largest file", "unknown outcome"]
    yield "| " + " | ".join(heads) + " |"
    yield "|---" * len(heads) + "|"
    yield row("OneBot v11", ONEBOT_V11, {}, asked=hasattr(OneBotV11Adapter, "confirm"))
    settings = {"telegram_bots": [], "console_headless_mode": True}
    for name in PLATFORMS:
        driver = Recorder(**settings)
        with as_nonebots(driver):
            host = MemoryHost(folder, {"nekro_platforms": (name,), **settings})
            adapter: Any = factories(host.settings)[name](host, driver)
        platform = adapter._platform
        found: dict[Capabilities, list[str]] = {}
        for kind in ChatKind:
            found.setdefault(adapter.capabilities(ChatKey(name, kind, "1")), []).append(kind.value)
        for can, kinds in found.items():
            which = f" ({', '.join(kinds)})" if len(found) > 1 else ""
            asked = isinstance(adapter, SupportsConfirmation)
            yield row(platform.title + which, can, dict(platform.nearest), asked=asked)
    yield row("E-mail", MAIL, {}, asked=hasattr(MailAdapter, "confirm"))


SIGN_WORDS = {
    "": ["platform", "typing state", "reaction", "growing message"],
    ".zh": ["平台", "正在输入", "表情回应", "增长的消息"],
    ".ja": ["プラットフォーム", "入力中", "リアクション", "伸びるメッセージ"],
}
PLACE_WORDS = {
    "": ["private chats", "groups", "yes", "Chat page"],
    ".zh": ["私聊", "群", "有", "聊天页面"],
    ".ja": ["個人", "グループ", "あり", "チャットのページ"],
}


def signs(folder: Path, language: str) -> Iterator[str]:
    """The table of the guides for operators: what people see while the bot writes. The row of the
    chat page is written here by hand: the page learns from the event ``working`` of its stream that
    the bot works, not from calls to its adapter."""
    private, groups, yes, page = PLACE_WORDS[language]
    yield "| " + " | ".join(SIGN_WORDS[language]) + " |"
    yield "|---|---|---|---|"
    yield f"| {page} | {yes} |  | {yes} |"
    for title, able in _able(folder):
        both = [able(ChatKind.PRIVATE), able(ChatKind.GROUP)]
        cells = []
        for each in zip(*both, strict=True):
            names = {(True, True): yes, (True, False): private, (False, True): groups}
            cells.append(names.get(each, ""))
        if any(cells):
            yield f"| {title} | " + " | ".join(cells) + " |"


def _able(folder: Path) -> Iterator[tuple[str, Callable[[ChatKind], tuple[bool, ...]]]]:
    def of(adapter: Any) -> Callable[[ChatKind], tuple[bool, ...]]:
        def able(kind: ChatKind) -> tuple[bool, ...]:
            can = adapter.capabilities(ChatKey(adapter.name, kind, "1"))
            return can.typing_s is not None, can.reactions, can.edit_every_s is not None

        return able

    driver = Recorder(matrix_bots=[], onebot_access_token="a token for tests")
    host = MemoryHost(folder, {"matrix_bots": "[]", "onebot_access_token": "a token for tests"})
    with as_nonebots(driver):
        yield "OneBot v11 (QQ)", of(create_onebot(host, driver))
        yield "Matrix", of(create_matrix(host, driver))
    settings = {"telegram_bots": [], "console_headless_mode": True}
    for name in PLATFORMS:
        driver = Recorder(**settings)
        with as_nonebots(driver):
            host = MemoryHost(folder, {"nekro_platforms": (name,), **settings})
            adapter: Any = factories(host.settings)[name](host, driver)
        yield adapter._platform.title, of(adapter)


def known(data: dict[str, Any]) -> Iterator[str]:
    yield "| uniseg's name | distribution | 3.11 | 3.12 | native | here |"
    yield "|---|---|---|---|---|---|"
    for name, found in sorted(data.items()):
        loads = [found.get(python, {}) for python in PYTHONS]
        cells = ["loads" if "name" in one else f"no: {one.get('failed')}" for one in loads]
        seen = next((one for one in loads if "name" in one), {})
        native = [FORMS[form] for form in FORMS if form in seen.get("sends", ())]
        version = f" {seen['version']}" if seen else ""
        ours = OURS.get(name, name)
        here = f"`{ours}`" if ours in (*BY_NAME, "onebot_v11") else ""
        cells = [cell.replace("|", "/") for cell in cells]
        cells = [name, found["distribution"] + version, *cells, ", ".join(native), here]
        yield "| " + " | ".join(cells) + " |"


def with_table(page: str, name: str, lines: Iterator[str]) -> str:
    table = "\n".join(lines)
    pattern = rf"(?<=<!-- {name} -->\n).*?(?=<!-- end -->)"
    return re.sub(pattern, lambda _: f"{table}\n", page, count=1, flags=re.DOTALL)


@pytest.mark.long  # This test takes long, because it loads every platform.
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_tables_of_the_page_agree_with_the_code(tmp_path: Path) -> None:
    page = PAGE.read_text()
    data = json.loads((DOCS / "platforms.json").read_text())
    wanted = with_table(page, "carried", carried(tmp_path))
    wanted = with_table(wanted, "known", known(data))
    if os.environ.get("WRITE_DOCS"):
        PAGE.write_text(wanted)
        page = wanted
    assert page == wanted, "write it again: WRITE_DOCS=1 pytest tests/adapters/uniseg"


@pytest.mark.long  # it loads every platform
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("language", SIGN_WORDS)
def test_the_guides_say_what_people_see_while_the_bot_writes(tmp_path: Path, language: str) -> None:
    path = DOCS / f"operating{language}.md"
    page = path.read_text()
    wanted = with_table(page, "signs", signs(tmp_path, language))
    if os.environ.get("WRITE_DOCS"):
        path.write_text(wanted)
        page = wanted
    assert page == wanted, "write it again: WRITE_DOCS=1 pytest tests/adapters/uniseg"


def test_the_page_lists_every_platform() -> None:
    page = PAGE.read_text()
    for name in BY_NAME:
        assert f"| `{name}` | `{name.replace('_', '-')}` |" in page


def test_every_adapter_of_uniseg_was_tried_on_both_pythons() -> None:
    data = json.loads((DOCS / "platforms.json").read_text())
    assert len(data) == 26
    for name, found in data.items():
        for python in PYTHONS:
            assert "name" in found[python] or found[python]["failed"], name
    for name in PLATFORMS:
        theirs = {ours: theirs for theirs, ours in OURS.items()}.get(name, name)
        assert all("name" in data[theirs][python] for python in PYTHONS), name
