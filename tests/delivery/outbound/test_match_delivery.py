"""The history of a platform tells whether it contains a delivery of the bot."""

import pytest

from nekro_core.chat import (
    Delivery,
    DeliveryState,
    Forward,
    ForwardedMessage,
    Image,
    Media,
    Mention,
    Reply,
    Segments,
    Text,
    Unknown,
)
from nekro_core.delivery.adapter import PlatformMessage, UncertainDelivery
from nekro_core.delivery.outbound.match_delivery import match_delivery
from tests.delivery.conftest import GROUP

SENT, ABSENT, UNSURE = DeliveryState.SENT, DeliveryState.REJECTED, DeliveryState.UNKNOWN


def shown(name: str, *segments: object, own: bool = True, time: float = 1000.0) -> PlatformMessage:
    said: Segments = tuple(Text(each) if isinstance(each, str) else each for each in segments)  # type: ignore[misc]
    return PlatformMessage(message_id=name, own=own, segments=said, time=time)


ASKED = shown("q", "what?", own=False)
OURS = shown("mine", "earlier")
PICTURE = Image(Media(path="/a.png", sha256="1"))
BUNDLE = Forward((ForwardedMessage("7", "Bo", (Text("hi"),)),))
HERS = Image(Media(url="http://x/b.jpg"))


@pytest.mark.parametrize(
    ("wanted", "history", "state", "message_id"),
    [
        ((Text("hi"),), [ASKED, shown("a", "hi")], SENT, "a"),
        ((Text("hi"),), [OURS, ASKED], ABSENT, ""),
        ((Text("hi"),), [ASKED], UNSURE, ""),
        ((Text("hi"),), [], UNSURE, ""),
        ((Text("hi"),), [shown("x", "unheard", own=False)], UNSURE, ""),
        ((Text("hi"),), [OURS, ASKED, shown("a", "hi", own=False)], ABSENT, ""),
        ((Text("hi"),), [OURS, shown("a", "hi"), ASKED], ABSENT, ""),
        ((Text("hi"),), [ASKED, shown("other", "hi"), shown("a", "hi")], SENT, "a"),
        ((Text("hi"),), [ASKED, shown("other", "hi")], ABSENT, ""),
        ((Text("hi"),), [shown("a", "hi")], SENT, "a"),
        ((Text("hi"),), [shown("a", "hi", time=800.0)], UNSURE, ""),
        ((Text("hi"),), [ASKED, shown("a", "hi", time=1.0)], SENT, "a"),
        ((Text(" h\ni "),), [ASKED, shown("a", "h i")], SENT, "a"),
        ((Text("e\u0301"),), [ASKED, shown("a", "\u00e9")], SENT, "a"),
        (
            (Reply("q"), Mention("7"), Text("yes")),
            [ASKED, shown("a", Mention("7"), "yes")],
            SENT,
            "a",
        ),
        ((Mention("7"), Text("yes")), [OURS, ASKED, shown("a", Mention("8"), "yes")], ABSENT, ""),
        ((Text("see"), PICTURE), [ASKED, shown("a", "see", HERS)], SENT, "a"),
        ((Text("see"), PICTURE), [OURS, ASKED, shown("a", "see")], ABSENT, ""),
        ((PICTURE,), [OURS, ASKED, shown("a", HERS, HERS)], ABSENT, ""),
        ((BUNDLE,), [OURS, ASKED, shown("a", Unknown("forward", "r1"))], SENT, "a"),
        ((BUNDLE,), [OURS, ASKED, shown("a", Unknown("json", "a card"))], SENT, "a"),
        ((BUNDLE,), [OURS, ASKED, shown("a", "hi")], ABSENT, ""),
    ],
)
def test_a_platforms_history_tells_whether_a_delivery_arrived(
    wanted: Segments, history: list[PlatformMessage], state: DeliveryState, message_id: str
) -> None:
    doubt = UncertainDelivery(
        delivery=Delivery(delivery_id="d", chat_key=GROUP, segments=wanted),
        since=1000.0,
        before=frozenset({"q", "mine"}),
        taken=frozenset({"q", "mine", "other"}),
    )
    receipt = match_delivery(doubt, history)
    assert (receipt.state, receipt.message_id) == (state, message_id)
    assert receipt.ok or receipt.reason
    changing = match_delivery(doubt, history, faithful=False)
    strange = [each for each in history[1:] if each.own and each.message_id == "a"]
    assert changing.state is (UNSURE if state is ABSENT and strange[-1:] == history[-1:] else state)
