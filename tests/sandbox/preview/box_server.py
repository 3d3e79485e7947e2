"""A server for boxes with a page, a WebSocket and a form. It uses only the standard library.

The tests write it into boxes as a file. Nothing imports it.
"""

import asyncio
import base64
import hashlib
import os
import struct
import sys

PAGE = b"""<!doctype html><title>In a box</title><p id=said></p><script>
document.cookie = "mine=1";
const socket = new WebSocket(`ws://${location.host}/live`);
socket.onopen = () => socket.send("hello");
socket.onmessage = (event) => { document.querySelector("#said").textContent = event.data; };
</script>"""


async def answer(reader, writer):
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    lines = head.split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines[1:] if ": " in line)
    exact = dict(line.split(": ", 1) for line in lines[1:] if ": " in line)
    key = next((value for name, value in exact.items() if name.lower() == "sec-websocket-key"), "")
    if key:
        await echo(reader, writer, key)
    elif lines[0].startswith("POST "):
        body = await reader.readexactly(int(headers["content-length"]))
        reply(writer, b"%d bytes" % len(body))
    elif lines[0].startswith("GET /cookies "):
        reply(writer, headers.get("cookie", "").encode())
    else:
        reply(writer, PAGE, "text/html")
    await writer.drain()
    writer.close()


def reply(writer, body, kind="text/plain"):
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
    writer.write(head.encode() + b"Connection: close\r\n\r\n" + body)


async def echo(reader, writer, key):
    guid = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
    accepted = base64.b64encode(hashlib.sha1((key + guid).encode()).digest()).decode()
    writer.write(
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        + f"Sec-WebSocket-Accept: {accepted}\r\n\r\n".encode()
    )
    while True:
        first, length = await reader.readexactly(2)
        length &= 0x7F
        if length == 126:
            (length,) = struct.unpack("!H", await reader.readexactly(2))
        mask = await reader.readexactly(4)
        data = bytes(b ^ mask[i % 4] for i, b in enumerate(await reader.readexactly(length)))
        if first & 0x0F == 8:
            writer.write(b"\x88\x00")
            return
        data = b"the box says " + data
        writer.write(bytes([0x80 | (first & 0x0F), len(data)]) + data)
        await writer.drain()


async def main():
    server = await asyncio.start_server(answer, "127.0.0.1", int(sys.argv[1]))
    print("listening", os.getpid(), flush=True)
    async with server:
        await server.serve_forever()


asyncio.run(main())
