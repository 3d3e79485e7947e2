"""A collector of traces gets the spans of a turn, each with its parent. The collector gets no word
of what was said, unless the operator allows that."""

from pathlib import Path

from tests.e2e.whole_bot import WholeBot, fence, until, whole_bot
from tests.peers.otlp import CLIENT, ReceivedSpan, TraceCollector

ASKED, ANSWERED = "marzipan", "xylophone"


def settings(collector: TraceCollector, **more: str) -> dict[str, str]:
    return {
        "NEKRO_TRACES__ENABLED": "true",
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint,
        "OTEL_BSP_SCHEDULE_DELAY": "100",
        **more,
    }


async def spans_of_a_turn(
    collector: TraceCollector, whole: WholeBot
) -> tuple[int, dict[str, ReceivedSpan]]:
    """Ask the bot once. Return the number of the group in which it was asked, and the spans by the
    first word of their names."""
    group = whole.group(fence(f"send_channel_message('the word is {ANSWERED}')"))
    await whole.ask(group, f"what goes with {ASKED}?")
    await until(lambda: whole.stops(group) == ["finished"])
    spans = await collector.until(
        lambda found: any(each.name.startswith("invoke_agent") for each in found)
    )
    assert len(spans) == 5, [each.name for each in spans]
    return group, {each.name.partition(" ")[0]: each for each in spans}


async def test_a_turn_is_traced_without_content(tmp_path: Path) -> None:
    async with (
        TraceCollector() as collector,
        whole_bot(tmp_path, **settings(collector)) as whole,
    ):
        group, spans = await spans_of_a_turn(collector, whole)
        turn, model, run = spans["invoke_agent"], spans["chat"], spans["run_code"]
        tool, send = spans["execute_tool"], spans["send"]
        assert {each.trace for each in spans.values()} == {turn.trace}
        assert {each.service for each in spans.values()} == {"nekro-core"}
        assert turn.parent == b""
        assert model.parent == run.parent == turn.span_id
        assert (tool.parent, send.parent) == (run.span_id, tool.span_id)
        assert model.kind == send.kind == CLIENT
        assert not any(each.failed for each in spans.values())
        assert turn.seconds >= run.seconds >= tool.seconds >= send.seconds > 0

        assert turn.attributes["gen_ai.operation.name"] == "invoke_agent"
        assert turn.attributes["nekro.turn.end"] == "finished"
        (numbers,) = whole.rows("SELECT id FROM turns")
        assert turn.attributes["nekro.turn.id"] == numbers[0]
        assert model.name == "chat scripted"
        assert model.attributes["gen_ai.operation.name"] == "chat"
        assert model.attributes["gen_ai.provider.name"] == "openai"
        assert model.attributes["gen_ai.request.model"] == "scripted"
        assert model.attributes["gen_ai.usage.input_tokens"] > 100
        assert model.attributes["gen_ai.usage.output_tokens"] > 0
        assert model.attributes["gen_ai.response.finish_reasons"] == ["stop"]
        assert tool.name == "execute_tool send_channel_message"
        assert tool.attributes["gen_ai.tool.name"] == "send_channel_message"
        assert send.name == "send onebot_v11"
        assert send.attributes["nekro.delivery.state"] == "sent"
        assert {each.path for each in collector.requests} == {"/v1/traces"}
        everything = b"".join(each.body for each in collector.requests)
        for word in (ASKED, ANSWERED, str(group), "10001"):
            assert word.encode() not in everything


async def test_the_operator_says_which_content_is_traced(tmp_path: Path) -> None:
    async with TraceCollector() as collector:
        more = settings(
            collector,
            NEKRO_TRACES__CONTENT='["prompts", "replies", "tools", "chats"]',
            OTEL_SERVICE_NAME="my-bot",
        )
        async with whole_bot(tmp_path, **more) as whole:
            group, spans = await spans_of_a_turn(collector, whole)
        assert ASKED in spans["chat"].attributes["gen_ai.input.messages"]
        assert ANSWERED in spans["chat"].attributes["gen_ai.output.messages"]
        assert ANSWERED in spans["execute_tool"].attributes["gen_ai.tool.call.arguments"]
        chat = spans["invoke_agent"].attributes["gen_ai.conversation.id"]
        assert chat == f"onebot_v11-group_{group}"
        assert spans["chat"].service == "my-bot"


async def test_a_collector_that_does_not_answer_delays_neither_an_answer_nor_the_shutdown(
    tmp_path: Path,
) -> None:
    nowhere = {
        "NEKRO_TRACES__ENABLED": "true",
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9",
        "OTEL_BSP_SCHEDULE_DELAY": "100",
    }
    async with whole_bot(tmp_path, **nowhere) as whole:
        await whole.others_are_served()
        await whole.others_are_served()
        assert await whole.bot.stop() < 10
