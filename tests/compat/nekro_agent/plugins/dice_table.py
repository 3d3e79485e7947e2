"""Rolls dice as a published plugin does: NoneBot's matchers answer, and the AI is not asked."""

from nonebot import on_command
from nonebot.adapters.onebot.v11 import Message, MessageEvent
from nonebot.matcher import Matcher
from nonebot.params import CommandArg

from nekro_agent.services.plugin.base import NekroPlugin

plugin = NekroPlugin("Dice table", "dice_table", "Rolls dice.", "0.1.0", "ann", "")

roll = on_command("r", aliases={"roll"}, priority=5, block=True)
own_help = on_command("help", priority=5, block=True)


@roll.handle()
async def handle_roll(matcher: Matcher, event: MessageEvent, args: Message = CommandArg()) -> None:
    await matcher.finish(f"{event.get_user_id()} rolls {args.extract_plain_text().strip()}: 11")


@own_help.handle()
async def handle_help(matcher: Matcher) -> None:
    await matcher.finish("/r 3d6 rolls three dice")
