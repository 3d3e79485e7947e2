"""A fake OpenAI-compatible model over HTTP that answers from a script.

As a library::

    async with ScriptedModelServer(["print('hi')", Answer(status=429, retry_after=1)]) as server:
        ...  # server.base_url, server.requests

By hand: ``python -m tests.peers.scripted_model --port 0 --script FILE.toml`` prints its address. A
script file holds rules. The first rule that matches answers::

    [[rule]]
    match = "roll .*dice"            # a regular expression on the last user message; default: any
    reply = "roll_dice(sides=20)"    # a list of strings is a list of chunks
    delay_s = 0.05                   # before each chunk
    times = 1                        # how often the rule may answer; 0, the default: always
    status = 200                     # another one answers with an error
    usage = true                     # whether the answer says how many tokens it has
    then = "end"                     # or "break", "stall", "endless", "no_done"
    calls = [{ name = "roll_dice", arguments = { sides = 20 } }]    # native function calls

It implements HTTP/1.1 itself, because no web framework can break off an answer at any point.
"""

import argparse
import json
import random
import re
import tomllib
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import anyio
from anyio.abc import SocketStream, TaskGroup
from anyio.streams.buffered import BufferedByteReceiveStream

from tests.peers.listening import LoopbackServer, read_request

PIECE = 12
"""The number of characters in a chunk, for a reply that the script gives as one text."""

Split = Literal["pieces", "mixed", "whole", "objects", "no_index", "same_index"]

Then = Literal["end", "no_done", "break", "stall", "endless", "error"]


@dataclass(frozen=True, slots=True)
class Call:
    """A native function call. ``arguments`` is an object, or a text that is sent unchanged."""

    name: str
    arguments: dict[str, Any] | str = field(default_factory=dict)
    call_id: str = ""

    @property
    def written(self) -> str:
        return self.arguments if isinstance(self.arguments, str) else json.dumps(self.arguments)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One HTTP answer.

    ``chunks`` are sent one after another. A text is sent as words of the reply. Bytes are sent
    unchanged (garbage, comments, hand-written chunks). At a number, the answer pauses for this many
    seconds; at an `anyio.Event`, it waits for the event; a function is called.

    ``calls`` follow the chunks. ``split`` says how they are cut. With ``pieces``, each call is sent
    in several pieces, one call after another, as OpenAI does; with ``mixed``, the pieces of all
    calls are mixed; with ``whole``, each call is sent in one chunk, as Mistral does; with
    ``objects``, also in one chunk, but with an object as arguments; with ``no_index``, the index is
    left out; with ``same_index``, each call has the index 0, as in some versions of Ollama.
    ``seed`` decides the places of the cuts. With ``said_again``, every piece has the id and the
    name.

    ``then`` is the end of the answer: ``end`` is a proper end, ``no_done`` lacks ``[DONE]`` and the
    reason why the reply ended, ``break`` breaks the connection, ``stall`` leaves the connection
    open and silent, ``endless`` repeats the text forever, ``error`` reports ``error`` inside the
    stream.
    """

    chunks: Sequence[str | float | bytes | anyio.Event | Callable[[], None]] = ()
    thoughts: Sequence[str] = ()
    calls: Sequence[Call] = ()
    split: Split = "pieces"
    seed: int = 0
    said_again: bool = False
    delay_s: float = 0.0
    reason: str | None = "stop"
    usage: bool = True
    then: Then = "end"
    status: int = 200
    error: Any = None
    retry_after: float | None = None
    content_type: str = "text/event-stream"
    body: bytes | None = None
    """If set, these bytes are the whole answer, and nothing is streamed."""


@dataclass(slots=True)
class Asked:
    """A request. ``hung_up`` is set when the client has closed its connection."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    hung_up: anyio.Event = field(default_factory=anyio.Event)
    finished: bool = False
    sent: bytes = b""
    """The body as it arrived."""

    @property
    def messages(self) -> list[dict[str, Any]]:
        return self.body.get("messages", [])

    @property
    def results(self) -> list[str]:
        """The results of the function calls so far, in order."""
        return [m["content"] for m in self.messages if m["role"] == "tool"]

    @property
    def last_user_text(self) -> str:
        for message in reversed(self.messages):
            if message["role"] == "user":
                content = message["content"]
                if isinstance(content, str):
                    return content
                return "\n".join(part["text"] for part in content if part["type"] == "text")
        return ""


Reply = str | Answer
Script = Iterable[Reply] | Callable[[Asked], Reply | Awaitable[Reply]]


class ScriptedModelServer(LoopbackServer):
    """The server on 127.0.0.1.

    ``replies`` are either replies that are used one after another, or a function, perhaps an
    asynchronous one, that makes the reply to each request. When no reply is left, the answer is a
    500 and the request is added to ``unexpected``. A request that has one of the
    fields ``refuses`` gets a 400, as from some endpoints.
    """

    def __init__(
        self, replies: Script, *, port: int = 0, api_key: str = "", refuses: Iterable[str] = ()
    ) -> None:
        super().__init__(port)
        self.requests: list[Asked] = []
        self.unexpected: list[Asked] = []
        self._reply = replies if callable(replies) else self._in_turn(deque(replies))
        self._api_key = api_key
        self._refuses = frozenset(refuses)

    def _in_turn(self, replies: deque[Reply]) -> Callable[[Asked], Reply]:
        def reply(asked: Asked) -> Reply:
            if replies:
                return replies.popleft()
            self.unexpected.append(asked)
            return Answer(status=500, error={"message": "the script has no reply left"})

        return reply

    async def serve(self, stream: SocketStream, reader: BufferedByteReceiveStream) -> bool:
        request = await read_request(reader)
        body = json.loads(request.body) if request.body else {}
        asked = Asked(request.path, request.headers, body, sent=request.body)
        self.requests.append(asked)
        if self._api_key and asked.headers.get("authorization") != f"Bearer {self._api_key}":
            answer = Answer(status=401, error={"message": "Incorrect API key provided"})
        elif refused := self._refuses & asked.body.keys():
            said = f"Unsupported parameter: {', '.join(sorted(refused))}"
            if "max_tokens" in refused:
                said += ". Use 'max_completion_tokens' instead."
            answer = Answer(status=400, error={"message": said})
        else:
            made = self._reply(asked)
            reply = await _awaited(made, reader, asked) if isinstance(made, Awaitable) else made
            if reply is None:
                return False  # The client has left.
            answer = Answer(chunks=pieces(reply)) if isinstance(reply, str) else reply
        if answer.body is not None or answer.status != 200:
            await _send_whole(stream, answer)
            asked.finished = True
            return True
        async with anyio.create_task_group() as tasks:
            # If the client leaves, the answer must end, even while it waits for something.
            tasks.start_soon(watch, reader, asked, tasks)
            with suppress(anyio.BrokenResourceError):
                asked.finished = await _send_stream(stream, answer, asked)
            tasks.cancel_scope.cancel()
        return asked.finished


def pieces(text: str) -> list[str]:
    """The chunks in which a text is sent."""
    return [text[start : start + PIECE] for start in range(0, len(text), PIECE)]


def call_pieces(answer: Answer) -> list[dict[str, Any]]:
    """The deltas of an answer's function calls."""
    chance = random.Random(answer.seed)
    queues: list[list[dict[str, Any]]] = []
    for index, call in enumerate(answer.calls):
        head = {"id": call.call_id or f"call_{index}_{answer.seed}", "type": "function"}
        if answer.split not in ("pieces", "mixed"):
            arguments = call.arguments if answer.split == "objects" else call.written
            number = {} if answer.split == "no_index" else {"index": index}
            if answer.split == "same_index":
                number = {"index": 0}
            queues.append([number | head | _function(call.name, arguments)])
            continue
        cuts = sorted(chance.choices(range(len(call.written) + 1), k=chance.randint(0, 5)))
        ends = zip([0, *cuts], [*cuts, len(call.written)], strict=True)
        again = head if answer.said_again else {}
        name = call.name if answer.said_again else None
        pieces = [{"index": index} | head | _function(call.name, "")]
        pieces += [
            {"index": index} | again | _function(name, call.written[start:end])
            for start, end in ends
        ]
        queues.append(pieces)
    if answer.split != "mixed":
        return [piece for queue in queues for piece in queue]
    mixed = []
    while queues := [queue for queue in queues if queue]:
        mixed.append(chance.choice(queues).pop(0))
    return mixed


def _function(name: str | None, arguments: Any) -> dict[str, Any]:
    return {"function": ({"name": name} if name else {}) | {"arguments": arguments}}


async def watch(reader: BufferedByteReceiveStream, asked: Asked, tasks: TaskGroup) -> None:
    """Cancel an answer when its client has left."""
    # The client sends nothing during an answer, so this read ends when the connection ends.
    try:
        await reader.receive(1)
    except (anyio.EndOfStream, anyio.BrokenResourceError):
        asked.hung_up.set()
        tasks.cancel_scope.cancel()


async def _awaited(
    made: Awaitable[Reply], reader: BufferedByteReceiveStream, asked: Asked
) -> Reply | None:
    """Wait for the reply of an asynchronous script. Returns None if the client leaves meanwhile."""
    reply: Reply | None = None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch, reader, asked, tasks)
        reply = await made
        tasks.cancel_scope.cancel()
    return reply


async def _send_whole(stream: SocketStream, answer: Answer) -> None:
    kind = answer.content_type
    body = answer.body
    if body is None:
        error = answer.error or {"message": f"status {answer.status} as the script says"}
        body = json.dumps({"error": error}).encode()
        kind = "application/json"
    head = f"HTTP/1.1 {answer.status} Scripted\r\nContent-Type: {kind}\r\n"
    if answer.retry_after is not None:
        head += f"Retry-After: {answer.retry_after:g}\r\n"
    await stream.send(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)


async def _send_stream(stream: SocketStream, answer: Answer, asked: Asked) -> bool:
    """Send a streamed answer. Return True if it ended properly."""

    async def send(data: bytes) -> None:
        await stream.send(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    async def send_delta(delta: dict[str, Any], reason: str | None = None) -> None:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        await send(_event({"choices": [choice]}))

    await stream.send(
        f"HTTP/1.1 200 OK\r\nContent-Type: {answer.content_type}\r\n"
        "Transfer-Encoding: chunked\r\n\r\n".encode()
    )
    for thought in answer.thoughts:
        await send_delta({"reasoning_content": thought})
    said = ""
    for chunk in answer.chunks:
        await anyio.sleep(answer.delay_s)
        match chunk:
            case str():
                said += chunk
                await send_delta({"role": "assistant", "content": chunk})
            case bytes():
                await send(chunk)
            case anyio.Event():
                await chunk.wait()
            case int() | float():
                await anyio.sleep(chunk)
            case _:
                chunk()
    for piece in call_pieces(answer):
        await anyio.sleep(answer.delay_s)
        await send_delta({"tool_calls": [piece]})
    match answer.then:
        case "break":
            return False
        case "stall":
            await anyio.sleep_forever()
        case "endless":
            while True:
                await send_delta({"content": said or "again "})
        case "error":
            await send(_event({"error": answer.error or {"message": "an error"}}))
            await stream.send(b"0\r\n\r\n")
            return True
        case "no_done":
            await stream.send(b"0\r\n\r\n")
            return True
    if answer.reason is not None:
        calls = answer.calls and answer.reason == "stop"
        await send_delta({}, "tool_calls" if calls else answer.reason)
    if answer.usage and asked.body.get("stream_options", {}).get("include_usage"):
        prompt = sum(len(str(message["content"] or "")) for message in asked.messages) // 4 + 1
        told = len(said) + sum(len(call.written) for call in answer.calls)
        usage = {"prompt_tokens": prompt, "completion_tokens": told // 4 + 1}
        await send(_event({"choices": [], "usage": usage}))
    await send(b"data: [DONE]\n\n")
    await stream.send(b"0\r\n\r\n")
    return True


def _event(chunk: dict[str, Any]) -> bytes:
    chunk = {"id": "scripted", "object": "chat.completion.chunk", "model": "scripted", **chunk}
    return f"data: {json.dumps(chunk, ensure_ascii=False)}\n\n".encode()


def read_script(text: str) -> Callable[[Asked], Reply]:
    """Turn the rules of a script file into a function that answers requests."""
    rules = tomllib.loads(text).get("rule", [])
    answered = [0] * len(rules)

    def reply(asked: Asked) -> Reply:
        for number, rule in enumerate(rules):
            used_up = 0 < rule.get("times", 0) <= answered[number]
            if used_up or not re.search(rule.get("match", ""), asked.last_user_text):
                continue
            answered[number] += 1
            words = rule.get("reply", "")
            return Answer(
                chunks=pieces(words) if isinstance(words, str) else words,
                delay_s=rule.get("delay_s", 0.0),
                status=rule.get("status", 200),
                usage=rule.get("usage", True),
                then=rule.get("then", "end"),
                calls=[Call(**call) for call in rule.get("calls", ())],
            )
        return Answer(status=500, error={"message": "no rule of the script fits"})

    return reply


async def serve(port: int, script: Path | None) -> None:
    """Run the server until the program is stopped."""
    text = script.read_text("utf-8") if script else '[[rule]]\nreply = "Hello from the script."\n'
    async with ScriptedModelServer(read_script(text), port=port) as server:
        print(server.base_url, flush=True)
        await anyio.sleep_forever()


def main() -> None:
    parser = argparse.ArgumentParser(description="An OpenAI-compatible model that plays a script.")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--script", type=Path, help="a TOML file of rules")
    arguments = parser.parse_args()
    with suppress(KeyboardInterrupt):
        anyio.run(serve, arguments.port, arguments.script)


if __name__ == "__main__":
    main()
