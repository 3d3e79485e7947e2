"""The mail server of the tests works: a mail sent by SMTP can be read by IMAP."""

import pytest

from tests.peers.mail import MailServer, missing

pytestmark = [pytest.mark.long, pytest.mark.skipif(bool(missing()), reason=missing())]
ANN, BEN = "ann@example.test", "ben@example.test"


async def test_a_mail_sent_by_smtp_can_be_read_by_imap() -> None:
    async with MailServer(ANN, BEN) as server:
        message_id = await server.send(f"Ann <{ANN}>", BEN, "Tea at four?", subject="Tea")
        (mail,) = await server.received(BEN)
        assert mail["Message-ID"] == message_id
        assert mail.get_content().strip() == "Tea at four?"
        assert await server.imap(BEN, lambda client: client.search(None, "UNSEEN")) == (
            "OK",
            [b"1"],
        )
        server.stop_imap()
        server.start_imap()
        assert (await server.imap(BEN, lambda client: client.noop()))[0] == "OK"
