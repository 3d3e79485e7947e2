"""Invalid requests and forbidden files are refused, each with a clear answer."""

import base64
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import event, given
from hypothesis import strategies as some

from adapters.web.rooms import room_key, room_name
from adapters.web.texts import texts
from nekro_core.api.chat import Author, ChatKey, ChatKind, Image, Media
from nekro_core.api.console import MAX_BODY_BYTES, WebApiError
from nekro_core.api.i18n import LANGUAGES, preferred
from nekro_core.console.web_site import WebSettingWrong
from tests.adapters.web.fake_host import card
from tests.adapters.web.running import Web, web

LOBBY = ChatKey("web", ChatKind.GROUP, "lobby")


def code_of(answer: httpx.Response) -> str:
    return str(answer.json()["error"]["code"])


BODIES: list[tuple[Any, int, str]] = [
    (b"", 400, "body"),
    (b"{", 400, "body"),
    (b"[]", 422, "body"),
    (b'{"text": "hi"}', 422, "body"),
    (b'{"speaker": 7, "text": "hi"}', 422, "body"),
    (b'{"speaker": "lin", "text": "hi", "chat_key": "web-group_other"}', 422, "body"),
    (b'{"speaker": "lin"}', 422, "empty"),
    (b'{"speaker": "lin", "text": " \\n "}', 422, "empty"),
    (b'{"speaker": "lin", "text": "\\ud800"}', 400, "body"),
    (b'{"speaker": "bot", "text": "hi"}', 422, "speaker"),
    (b'{"speaker": "BOT ", "text": "hi"}', 422, "speaker"),
    (b'{"speaker": "all", "text": "hi"}', 422, "speaker"),
    (b'{"speaker": "", "text": "hi"}', 422, "name"),
    (b'{"speaker": "a\\u202eb", "text": "hi"}', 422, "name"),
    (b'{"speaker": "a\\u200bb", "text": "hi"}', 422, "name"),
    (b'{"speaker": "<b>", "text": "hi"}', 422, "name"),
    (b'{"speaker": "lin", "text": "hi", "reply_to": "nobody"}', 422, "reply_to"),
    (b'{"speaker": "lin", "attachments": [{"data": "%%%"}]}', 422, "attachment"),
    (b'{"speaker": "lin", "attachments": [{"data": ""}]}', 422, "attachment"),
    (json.dumps({"speaker": "lin", "text": "x" * 20_001}).encode(), 422, "body"),
    (json.dumps({"speaker": "lin", "attachments": [{"data": "aGk="}] * 9}).encode(), 422, "body"),
]


class TestInvalidRequests:
    @pytest.mark.parametrize(("body", "status", "code"), BODIES)
    async def test_an_invalid_body_is_refused(
        self, table: Web, body: bytes, status: int, code: str
    ) -> None:
        answer = await table.client.post(
            "/api/v1/rooms/lobby/messages",
            content=body,
            headers={"Content-Type": "application/json"},
        )
        assert (answer.status_code, code_of(answer)) == (status, code)
        assert answer.json()["error"]["message"]
        assert not table.host.accepted

    async def test_another_content_type_is_refused(self, table: Web) -> None:
        answer = await table.client.post("/api/v1/rooms/lobby/messages", content=b"speaker=lin")
        assert (answer.status_code, code_of(answer)) == (415, "content_type")
        answer = await table.client.post(
            "/api/v1/rooms/lobby/messages", files={"files": ("a.txt", b"hi")}
        )
        assert (answer.status_code, code_of(answer)) == (400, "body")
        answer = await table.client.post(
            "/api/v1/rooms/lobby/messages",
            content=b"no form",
            headers={"Content-Type": "multipart/form-data"},
        )
        assert (answer.status_code, code_of(answer)) == (400, "body")

    async def test_an_enormous_body_is_refused(self, chat: Web) -> None:
        async def chunks() -> AsyncIterator[bytes]:
            for _ in range(MAX_BODY_BYTES // len(chunk) + 1):
                yield chunk

        chunk = b" " * (4 * 1024 * 1024)
        answer = await chat.client.post(
            "/api/v1/rooms/lobby/messages",
            content=chunks(),
            headers={"Content-Type": "application/json"},
        )
        assert (answer.status_code, code_of(answer)) == (413, "body")

    @pytest.mark.parametrize(
        "room", ["%20", "..", "group_", "a%2Fb", "a%5Cb", "a%23b", "a%00b", "a%E2%80%AEb", "x" * 65]
    )
    async def test_an_invalid_room_name_is_refused(self, table: Web, room: str) -> None:
        answer = await table.post(room, {"speaker": "lin", "text": "hi"})
        assert answer.status_code in {404, 405, 422}
        assert not table.host.accepted

    @pytest.mark.parametrize("number", ["-1", "x", "1e3", "1_0", "٣", "", "9" * 25, "0x10"])
    async def test_an_invalid_limit_position_or_media_number_in_an_address_is_refused(
        self, table: Web, number: str
    ) -> None:
        for path in (f"messages?limit={number}", f"messages?after={number}", f"media/{number}/0"):
            answer = await table.client.get(f"/api/v1/rooms/lobby/{path}")
            assert answer.status_code in {400, 404}, path

    async def test_an_invalid_idempotency_key_is_refused(self, table: Web) -> None:
        for key in ("a b", "x" * 201):
            answer = await table.post(
                "lobby", {"speaker": "lin", "text": "hi"}, **{"Idempotency-Key": key}
            )
            assert (answer.status_code, code_of(answer)) == (400, "idempotency_key")

    async def test_an_invalid_setting_stops_the_start(self, tmp_path: Path) -> None:
        with pytest.raises(WebSettingWrong, match=r"WEB_ALLOWED_HOSTS: .*expected host names"):
            async with web(tmp_path, web_allowed_hosts="[broken"):
                pass


class TestMedia:
    async def test_only_stored_media_of_the_room_are_served(self, chat: Web) -> None:
        data = base64.b64encode(card()).decode()
        sent = await chat.say("", attachments=[{"name": "a.png", "data": data}])
        url = sent["segments"][0]["url"]
        assert (await chat.client.get(url)).status_code == 200
        for other in (
            url.replace("group_lobby", "group_cellar"),
            url[:-1] + "1",
            url.replace("/media/1/", "/media/2/"),
            "/api/v1/rooms/group_lobby/media/1/..%2F..%2Fsecrets%2Fweb_access_token",
        ):
            assert (await chat.client.get(other)).status_code in {400, 404}, other

    async def test_files_outside_the_media_folder_are_not_served(self, chat: Web) -> None:
        secret = chat.host.data_dir / "secrets" / "web_access_token"
        for path in (str(secret), "/etc/passwd", f"{chat.host.media.folder}/../secrets/x"):
            record = chat.host.add(
                LOBBY, Author.BOT, (Image(Media(path=path, mime="image/png")),), time=0.0
            )
            answer = await chat.client.get(f"/api/v1/rooms/lobby/media/{record.seq}/0")
            assert answer.status_code == 404

    @pytest.mark.parametrize(
        ("name", "data"),
        [
            ("page.html", b"<!doctype html><script>alert(1)</script>"),
            ("picture.svg", b"<svg onload='alert(1)'/>"),
            ("unknown.bin", b"\x00\x01"),
        ],
    )
    async def test_files_that_a_browser_could_run_are_served_as_downloads(
        self, chat: Web, name: str, data: bytes
    ) -> None:
        sent = await chat.say(
            "", attachments=[{"name": name, "data": base64.b64encode(data).decode()}]
        )
        (part,) = sent["segments"]
        assert part["type"] == "file"
        answer = await chat.client.get(part["url"])
        assert answer.content == data
        assert answer.headers["content-type"] == "application/octet-stream"
        assert answer.headers["content-disposition"].startswith("attachment;")
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "sandbox" in answer.headers["content-security-policy"]

    async def test_a_file_name_cannot_add_a_header(self, chat: Web) -> None:
        sent = await chat.say(
            "", attachments=[{"name": 'a"; x="\r\nSet-Cookie: a=b 你.bin', "data": "aGk="}]
        )
        answer = await chat.client.get(sent["segments"][0]["url"])
        assert "set-cookie" not in answer.headers
        assert "%22" in answer.headers["content-disposition"]


class TestTexts:
    def test_every_language_has_the_same_texts_and_fields(self) -> None:
        first = texts(LANGUAGES[0])
        for language in LANGUAGES[1:]:
            table = texts(language)
            assert table.keys() == first.keys()
            for key, sentence in table.items():
                assert sentence, key
                fields = set(re.findall(r"\{\w+\}", sentence))
                assert fields == set(re.findall(r"\{\w+\}", first[key])), key

    @pytest.mark.parametrize(
        ("header", "language"),
        [
            ("", "en"),
            ("zh-CN,zh;q=0.9,en;q=0.8", "zh"),
            ("fr-FR,ja;q=0.5,en;q=0.4", "ja"),
            ("en;q=0.1,zh;q=0.2", "zh"),
            ("de", "en"),
            ("ja;q=x,zh;q=0", "en"),
            ("," * 1000, "en"),
        ],
    )
    def test_the_browsers_language_is_chosen(self, header: str, language: str) -> None:
        assert preferred(header) == language


@given(some.text(max_size=80))
def test_a_room_name_gives_back_its_chat_key(text: str) -> None:
    try:
        key = room_key("web", text)
    except WebApiError as refused:
        event(refused.code)
        return
    assert room_key("web", room_name(key)) == key
    assert ChatKey.parse(str(key)) == key
