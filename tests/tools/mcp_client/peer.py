"""Runs an MCP server over stdin and stdout, in plain Python. Its argument selects how it
misbehaves.

It implements the specification of 2025-06-18 without the package that the bot uses.
"""

import base64
import json
import os
import sys
import time
from pathlib import Path

PIXEL = base64.b64encode(
    bytes.fromhex(
        "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
        "1f15c4890000000d49444154789c6360000002000001e221bc330000000049454e44ae426082"
    )
).decode()
TEXT = {"type": "string", "description": "What to say."}
ECHO = {
    "name": "echo",
    "description": "Say it again.\n\nWord for word.",
    "inputSchema": {
        "type": "object",
        "properties": {"text": TEXT, "times": {"type": "integer", "default": 1}},
        "required": ["text"],
    },
}
NONE = {"type": "object", "properties": {}}


def tool(name, description="Does something.", schema=None):
    return {"name": name, "description": description, "inputSchema": schema or NONE}


def send(**message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def text(words, **more):
    return {"content": [{"type": "text", "text": words}], **more}


class Server:
    def __init__(self, mode):
        self.mode = mode
        self.tools = [
            ECHO,
            tool("look", "Show a picture."),
            tool("environment", f"Show {os.environ.get('API_TOKEN', 'nothing')}."),
            tool("table", "Give structured content."),
            tool("fail", "Fail."),
            tool("die", "Die."),
            tool("hang", "Never answer."),
            tool("change", "Change the tools."),
            tool("send-it/now", "An odd name.", {**NONE, "properties": {"to-whom": TEXT}}),
        ]
        if mode == "deep":
            sys.setrecursionlimit(10_000)
            schema = NONE
            for _ in range(500):
                schema = {"type": "object", "properties": {"in": schema}}
            self.tools.insert(3, tool("deep", "Deep.", schema))
        if mode == "many":
            self.tools = [tool(f"tool_{number}") for number in range(1000)]

    def run(self):
        if self.mode == "exit":
            sys.exit("no configuration")
        if self.mode == "endless":
            while True:
                sys.stdout.write("x" * 65536)
        if self.mode == "chatty":
            print("Server started! Listening...", flush=True)
            print("x" * 10, file=sys.stderr, flush=True)
        for line in sys.stdin:
            self.answer(json.loads(line))

    def answer(self, message):
        method, number = message.get("method"), message.get("id")
        if self.mode == "silent" or number is None:
            return
        match method:
            case "initialize":
                known = {"tools": {"listChanged": True}}
                about = {"name": "peer", "version": "1"}
                send(
                    id=number,
                    result={
                        "protocolVersion": "2025-06-18",
                        "capabilities": known,
                        "serverInfo": about,
                    },
                )
            case "tools/list":
                send(id=number, result={"tools": self.tools})
                if self.mode == "flood":
                    while True:
                        self.notify("message", {"level": "info", "data": "x"})
            case "tools/call":
                self.call(number, message["params"]["name"], message["params"].get("arguments"))
            case "ping":
                if self.mode != "deaf":
                    send(id=number, result={})
            case _:
                send(id=number, error={"code": -32601, "message": "no such method"})

    def call(self, number, name, arguments):
        match name:
            case "echo":
                said = " ".join([arguments["text"]] * arguments.get("times", 1))
                send(id=number, result=text(said))
            case "deep":
                for _ in range(500):
                    arguments = {"in": arguments}
                send(id=number, result=text("done", structuredContent={"result": arguments}))
            case "look":
                picture = {"type": "image", "data": PIXEL, "mimeType": "image/png"}
                sound = {"type": "audio", "data": PIXEL, "mimeType": "audio/ogg"}
                words = {"type": "text", "text": "one pixel"}
                send(id=number, result={"content": [words, picture, sound]})
            case "environment":
                send(id=number, result=text(json.dumps(dict(os.environ))))
            case "table":
                rows = [{"city": "Paris", "token": os.environ.get("API_TOKEN", "")}]
                send(id=number, result=text("see the table", structuredContent={"result": rows}))
            case "fail":
                words = f"cannot: {os.environ.get('API_TOKEN')}"
                send(id=number, result=text(words, isError=True))
            case "die":
                os._exit(3)
            case "hang":
                pass
            case "change":
                self.tools = [tool("another", "A new one.")]
                send(id=number, result=text("changed"))
                self.notify("tools/list_changed", {})
            case "send-it/now":
                send(id=number, result=text(f"to {arguments['to-whom']}"))
            case _:
                send(id=number, error={"code": -32602, "message": f"no tool {name}"})

    def notify(self, what, params):
        send(method=f"notifications/{what}", params=params)


if __name__ == "__main__":
    if len(sys.argv) > 2:
        # One line for each start, with its time.
        with Path(sys.argv[2]).open("a") as starts:
            starts.write(f"{os.getpid()} {time.time()}\n")
    Server(sys.argv[1]).run()
