"""Mail conversations with real Postfix and Dovecot: threads, attachments, automatic mail."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import anyio
import pytest
from loguru import logger

from adapters.mail import create
from nekro_core.api.chat import (
    ChatKey,
    ChatMessage,
    Delivery,
    DeliveryState,
    File,
    Image,
    Media,
    Mention,
    Notice,
    Reply,
    Text,
    Voice,
)
from nekro_core.testing.memory_host import MemoryHost
from tests.adapters.mail.running import Bot, Wire, mailbox, running
from tests.adapters.onebot_v11.running import new_driver
from tests.peers.mail import DOMAIN, MailServer
from tests.peers.telegram import PNG

pytestmark = pytest.mark.long


class Office:
    """A running bot, and two people: Ann and Bo."""

    def __init__(self, bot: Bot, server: MailServer, people: tuple[str, str, str]) -> None:
        self.bot, self.server = bot, server
        self.us, self.ann, self.bo = people

    async def write(self, text: str = "hello", **more: Any) -> str:
        return await self.server.send(f"Ann Lee <{self.ann}>", self.us, text, **more)

    async def heard(self, count: int) -> list[ChatMessage]:
        return await self.bot.host.received(count, limit_s=30)

    async def answers(self, count: int = 1) -> list[EmailMessage]:
        return await self.server.received(self.ann, count)


@asynccontextmanager
async def opened(
    folder: Path, server: MailServer, people: tuple[str, str, str], **more: Any
) -> AsyncIterator[Office]:
    async with running(folder, mailbox(server, people[0], **more)) as bot:
        yield Office(bot, server, people)


@pytest.fixture
async def office(
    tmp_path: Path, server: MailServer, people: tuple[str, str, str]
) -> AsyncIterator[Office]:
    async with opened(tmp_path, server, people) as office:
        yield office


async def test_a_mail_thread_is_a_conversation(office: Office) -> None:
    first = await office.write("Tea at four?", subject="Tea")
    (asked,) = await office.heard(1)
    assert asked.chat_key.instance == "mail"
    assert asked.chat_key.native_id == office.ann
    assert asked.segments == (Text("Subject: Tea\n\nTea at four?"),)
    assert (asked.sender.user_id, asked.sender.name) == (office.ann, "Ann Lee")
    assert asked.to_bot
    assert asked.message_id == first

    sent = await office.bot.send(asked.chat_key, Reply(first), Mention("x", "Ann"), "at five, <b>")
    (answer,) = await office.answers()
    assert answer["Subject"] == "Re: Tea"
    assert answer["In-Reply-To"] == answer["References"] == first
    assert answer["Message-ID"] == sent.message_id
    assert answer["Auto-Submitted"] == "auto-replied"
    assert str(answer["From"]) == f"Nekro <{office.us}>"
    assert answer.get_content().strip() == "@Ann at five, <b>"

    # The reply names only one id of the thread. The bot finds the thread by this id, and drops the
    # quotation from the text.
    await office.write(
        "Fine.\n\nOn Monday, Nekro wrote:\n> at five\n",
        subject="RE: Tea",
        In_Reply_To=sent.message_id,
    )
    _, again = await office.heard(2)
    assert again.chat_key == asked.chat_key
    assert again.segments == (Text("Fine."),)
    assert (await office.bot.send(again.chat_key, "See you")).ok
    second = (await office.answers(2))[1]
    assert second["References"].split() == [first, sent.message_id, again.message_id]

    # A mail with another subject belongs to another chat with the same person.
    await office.write("Cake?", subject="Cake")
    other = (await office.heard(3))[2]
    assert other.chat_key != asked.chat_key
    assert other.chat_key.native_id == office.ann


async def test_a_mail_of_the_bot_can_begin_a_conversation(office: Office) -> None:
    key = ChatKey.parse(f"mail-private_{office.ann}")
    sent = await office.bot.send(key, "Good morning")
    (mail,) = await office.answers()
    assert mail["Subject"] == "A message for you"
    await office.write("Morning!", subject="Re: A message for you", In_Reply_To=sent.message_id)
    (heard,) = await office.heard(1)
    assert heard.chat_key == key


async def test_attachments_are_received_and_sent(office: Office, tmp_path: Path) -> None:
    def attach(mail: EmailMessage) -> None:
        mail.add_attachment(PNG, maintype="image", subtype="png", filename="../../etc/cat.png")
        mail.add_attachment(b"RIFF", maintype="audio", subtype="wav", filename="voice.wav")
        mail.add_attachment(b"a,b\n", maintype="text", subtype="csv", filename="list.csv")

    await office.write("look", change=attach)
    (heard,) = await office.heard(1)
    words, image, voice, file = heard.segments
    assert words == Text("Subject: Hello\n\nlook")
    assert isinstance(image, Image)
    assert Path(image.media.path).read_bytes() == PNG
    assert isinstance(voice, Voice)
    assert isinstance(file, File)

    name = 'evil"\r\nBcc: bo@example.test\r\n.txt'
    (tmp_path / "a").write_bytes(b"line\nline\r\n\x00")
    (tmp_path / "b").write_bytes(PNG)
    receipt = await office.bot.send(
        heard.chat_key,
        "two things",
        File(Media(path=str(tmp_path / "a"), name=name, mime="text/plain")),
        Image(Media(path=str(tmp_path / "b"), name="kätzchen.png", mime="image/png")),
    )
    assert receipt.ok
    (answer,) = await office.answers()
    file_part, image_part = answer.iter_attachments()
    assert file_part.get_payload(decode=True) == b"line\nline\r\n\x00"
    assert image_part.get_payload(decode=True) == PNG
    assert image_part.get_filename() == "kätzchen.png"
    assert "Bcc" not in answer
    assert not office.server.mails(office.bo)


async def test_a_long_mail_is_cut_and_attached_as_a_file(office: Office) -> None:
    await office.write("word " * 10_000, subject="")
    (heard,) = await office.heard(1)
    text, file = heard.segments
    assert isinstance(text, Text)
    assert len(text.text) < 21_000
    assert isinstance(file, File)
    assert Path(file.media.path).read_text().count("word") == 10_000


@pytest.mark.parametrize(
    "headers",
    [{"Auto_Submitted": "auto-replied"}, {"List_Id": "<x>"}, {"Precedence": "bulk"}],
)
async def test_automatic_mails_are_ignored(office: Office, headers: dict[str, str]) -> None:
    await office.write("I am on holiday", **headers)
    await office.write("I am here")
    (heard,) = await office.heard(1)
    assert "I am here" in heard.text


async def test_two_bots_do_not_write_to_each_other(
    tmp_path: Path, server: MailServer, people: tuple[str, str, str]
) -> None:
    """The adapter marks its mails as automatic, and it does not answer automatic mails."""
    us, other, person = people
    (tmp_path / "us").mkdir()
    (tmp_path / "other").mkdir()
    async with (
        running(tmp_path / "us", mailbox(server, us)) as bot,
        running(tmp_path / "other", mailbox(server, other)) as second,
    ):
        assert (await bot.send(ChatKey.parse(f"mail-private_{other}"), "hello, you")).ok
        await server.received(other, 1)
        await server.send(person, other, "a person")
        (heard,) = await second.host.received(1, limit_s=30)
        assert "a person" in heard.text


async def test_an_undelivered_mail_becomes_a_notice_that_is_not_answered(office: Office) -> None:
    nobody = f"nobody-{office.ann}"
    key = ChatKey.parse(f"mail-private_{nobody}")
    receipt = await office.bot.send(key, "hello?")
    assert receipt.state is DeliveryState.REJECTED, (
        "this mail server reports an unknown recipient at once"
    )
    # Another server accepts the mail and later sends a report that it could not be delivered.
    sent = await office.bot.send(ChatKey.parse(f"mail-private_{office.ann}"), "hello?")
    report = (
        f"From: MAILER-DAEMON@{DOMAIN}\r\nTo: {office.us}\r\nSubject: Undelivered\r\n"
        "Content-Type: multipart/report; report-type=delivery-status; boundary=b\r\n\r\n"
        "--b\r\n\r\nSorry.\r\n--b\r\nContent-Type: message/delivery-status\r\n\r\n"
        f"Reporting-MTA: dns; {DOMAIN}\r\n\r\nFinal-Recipient: rfc822; {office.ann}\r\n"
        "Status: 5.2.2\r\nDiagnostic-Code: smtp; 552 5.2.2 Mailbox full\r\n\r\n"
        f"--b\r\nContent-Type: text/rfc822-headers\r\n\r\nMessage-ID: {sent.message_id}\r\n\r\n"
        "--b--\r\n"
    )
    await office.server.post(report.encode(), "", office.us)
    (told,) = await office.heard(1)
    assert told.notice == Notice("undelivered", detail="smtp; 552 5.2.2 Mailbox full")
    assert str(told.chat_key) == f"mail-private_{office.ann}"
    assert not told.to_bot
    forged = report.replace(sent.message_id, "<nekro.0.0123456789abcdef@example.test>")
    await office.server.post(forged.encode(), "", office.us)
    await office.write("next")
    assert (await office.heard(2))[1].notice is None


async def test_only_senders_that_the_settings_allow_are_received(
    tmp_path: Path, server: MailServer, people: tuple[str, str, str]
) -> None:
    async with opened(tmp_path, server, people, senders=[people[2]]) as office:
        await office.write("from Ann")
        await server.send(office.bo, office.us, "from Bo")
        (heard,) = await office.heard(1)
        assert "from Bo" in heard.text


async def test_only_senders_that_the_mail_provider_verified_are_received(
    tmp_path: Path, server: MailServer, people: tuple[str, str, str]
) -> None:
    async with opened(tmp_path, server, people, verified_by="mx.example.test") as office:
        forged = {"Authentication_Results": "mx.evil.test; dmarc=pass header.from=example.test"}
        await office.write("in Ann's name", **forged)
        genuine = {"Authentication_Results": "mx.example.test; dkim=pass header.d=example.test"}
        await office.write("by Ann", **genuine)
        (heard,) = await office.heard(1)
        assert "by Ann" in heard.text


async def test_answers_go_only_to_the_author(office: Office) -> None:
    """The headers Reply-To and Cc of a mail cannot make the bot answer somebody else."""
    await office.write("secrets, please", Reply_To=office.bo, Cc=office.bo)
    (heard,) = await office.heard(1)
    assert (await office.bot.send(heard.chat_key, "here they are")).ok
    await office.answers(1)
    assert not office.server.mails(office.bo)


# -- no mail is lost or received twice -------------------------------------------------------


async def test_mails_from_before_the_first_start_are_ignored(
    tmp_path: Path, server: MailServer, people: tuple[str, str, str]
) -> None:
    us, ann, _ = people
    await server.send(ann, us, "old")
    await server.received(us, 1)
    async with opened(tmp_path, server, people) as office:
        await office.write("new")
        (heard,) = await office.heard(1)
        assert "new" in heard.text


async def test_mails_that_arrive_while_the_bot_is_stopped_are_received_at_its_start(
    tmp_path: Path, server: MailServer, people: tuple[str, str, str]
) -> None:
    host = MemoryHost(tmp_path)
    us, ann, _ = people
    async with running(tmp_path, mailbox(server, us), host) as bot:
        await server.send(ann, us, "one")
        await bot.host.received(1, limit_s=30)
    await server.send(ann, us, "two")
    await server.received(us, 2)
    async with running(tmp_path, mailbox(server, us), host) as bot:
        await bot.host.until(lambda: "two" in host.accepted[-1].text, limit_s=30)
    # If the bot ends just after it read a mail, it reads this mail again at its next start. The
    # inbox ignores the repetition.
    assert len({message.message_id for message in host.accepted}) == 2


async def test_a_mail_that_could_not_be_stored_is_read_again(office: Office) -> None:
    office.bot.host.failures = 1
    await office.write("kept")
    (heard,) = await office.heard(1)
    assert "kept" in heard.text
    read = await office.server.imap(office.us, lambda client: client.search(None, "SEEN"))
    with anyio.fail_after(30):
        while read != ("OK", [b"1"]):
            await anyio.sleep(0.02)
            read = await office.server.imap(office.us, lambda client: client.search(None, "SEEN"))


@pytest.mark.parametrize(
    ("manner", "state"),
    [
        ("refuse", DeliveryState.REJECTED),
        ("full", DeliveryState.PENDING),
        ("cut", DeliveryState.PENDING),
        ("silent", DeliveryState.UNKNOWN),
    ],
)
async def test_the_servers_answer_decides_the_state_of_a_send(
    tmp_path: Path,
    server: MailServer,
    people: tuple[str, str, str],
    manner: str,
    state: DeliveryState,
) -> None:
    async with Wire(server.ports.smtp) as wire:
        smtp = {"host": "127.0.0.1", "port": wire.port, "tls": False}
        async with running(tmp_path, mailbox(server, people[0], smtp=smtp), send_s=1.0) as bot:
            key = ChatKey.parse(f"mail-private_{people[1]}")
            wire.manner = manner
            receipt = await bot.send(key, "hello")
            assert receipt.state is state
            assert receipt.reason
            wire.manner = "fair"
            assert (await bot.send(key, "hello again")).ok


async def test_mail_is_received_after_the_imap_server_restarts(
    tmp_path: Path, people: tuple[str, str, str]
) -> None:
    us, ann, _ = people
    async with MailServer(us, ann) as server, running(tmp_path, mailbox(server, us)) as bot:
        await server.send(ann, us, "before")
        await bot.host.received(1, limit_s=30)
        await anyio.to_thread.run_sync(server.stop_imap)
        await anyio.to_thread.run_sync(server.start_imap)
        await server.send(ann, us, "after")
        heard = await bot.host.received(2, limit_s=30)
        assert "after" in heard[1].text


async def test_a_wrong_password_is_reported_without_the_password(
    tmp_path: Path, server: MailServer, people: tuple[str, str, str]
) -> None:
    told: list[str] = []
    sink = logger.add(lambda line: told.append(str(line)))
    driver = new_driver()
    box = mailbox(server, people[0], password="the wrong password")
    host = MemoryHost(tmp_path, {"mail_bots": [box]})
    adapter = create(host, driver)
    async with driver._lifespan:
        await adapter.start()
        with anyio.fail_after(30):
            while not any("cannot be read" in line for line in told):
                await anyio.sleep(0.02)
        receipt = await adapter.send(
            Delivery(
                delivery_id="d",
                chat_key=ChatKey.parse(f"mail-private_{people[1]}"),
                segments=(Text("hello"),),
            )
        )
        await adapter.aclose()
    logger.remove(sink)
    assert receipt.state is DeliveryState.REJECTED, "the account was never bound"
    assert "the wrong password" not in "".join(told)
