"""Runs the peer by hand: connect it to a bot, send messages, and watch the frames."""

import argparse
import asyncio
import json
import sys

from tests.peers.onebot_v11 import OneBotPeer, WireFrame

HELP = """say things:
  group GROUP USER text       somebody speaks in a group
  at GROUP USER text          ... and mentions the bot
  private USER text           somebody writes to the bot
  raw TEXT                    send this frame as it is
  abort | quit"""


def show(entry: WireFrame) -> None:
    text = json.dumps(entry.frame, ensure_ascii=False)
    if len(text) > 2000:
        text = f"{text[:2000]}... ({len(text)} characters)"
    print("->" if entry.outbound else "<-", text, flush=True)


async def obey(peer: OneBotPeer, line: str) -> bool:
    verb, _, rest = line.strip().partition(" ")
    match verb:
        case "group" | "at":
            group, user, text = rest.split(" ", 2)
            await peer.say_in_group(group, user, text, at_me=verb == "at")
        case "private":
            user, text = rest.split(" ", 1)
            await peer.say_in_private(user, text)
        case "raw":
            await peer.send_raw(rest)
        case "abort":
            peer.abort()
        case "quit":
            return False
        case _:
            print(HELP)
    return True


async def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.peers.onebot_v11", epilog=HELP)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--url", help="connect there (reverse); without it, listen (forward)")
    parser.add_argument("--port", type=int, default=0, help="listen here, on 127.0.0.1")
    parser.add_argument("--self-id", default="20002")
    parser.add_argument("--token")
    parser.add_argument("--heartbeat", type=float, default=30, metavar="SECONDS")
    options = parser.parse_args()
    peer = OneBotPeer(
        self_id=options.self_id,
        token=options.token,
        url=options.url,
        port=options.port,
        reconnect_s=5,
        heartbeat_s=options.heartbeat,
        on_frame=show,
    )
    async with peer:
        if peer.address:
            print("listening on", peer.address, flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            try:
                if not await obey(peer, line):
                    break
            except (ValueError, AssertionError) as error:
                print(f"{error}\n{HELP}")


asyncio.run(main())
