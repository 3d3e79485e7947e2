"""Rolls dice. The guide for plugin authors explains this plugin step by step."""

import secrets
from pathlib import Path

from nekro_core.api.plugin import NekroPlugin, SandboxMethodType, ToolFailure
from nekro_core.api.schemas import AgentCtx

plugin = NekroPlugin(
    name="Dice",
    module_name="dice",
    description="Roll dice.",
    version="0.1.0",
    author="nekro",
    is_builtin=True,
)


@plugin.mount_sandbox_method(
    SandboxMethodType.TOOL,
    name="roll_dice",
    description="Roll dice and post the result to the chat.",
    examples=Path(__file__).with_name("examples") / "roll_dice.txt",
)
async def roll_dice(_ctx: AgentCtx, sides: int = 6, count: int = 1) -> int:
    """Roll dice and post the numbers to the chat.

    Do not send them again.

    Args:
        sides: 2 to 1,000.
        count: 1 to 100.

    Returns:
        The sum of all dice.

    Example:
        # User: Roll a dice
        roll_dice(sides=6, count=1)

        # User: roll a 10-sided dice please
        roll_dice(sides=10, count=1)

        # User: give me a random number from 1 to 50
        roll_dice(sides=50, count=1)

        # User: roll 2d8
        roll_dice(sides=8, count=2)

        # User: flip a coin
        roll_dice(sides=2, count=1)

        # User: I need a number between 1 and 30
        roll_dice(sides=30, count=1)

        # User: throw four dice
        roll_dice(sides=6, count=4)

        # User: roll a pair of dice
        roll_dice(sides=6, count=2)

        # User: please roll three dice
        roll_dice(sides=6, count=3)

        # User: toss five dice
        roll_dice(sides=6, count=5)

        # User: heads or tails?
        roll_dice(sides=2, count=1)

        # User: roll three d10
        roll_dice(sides=10, count=3)

        # User: pick a number between 1 and 200
        roll_dice(sides=200, count=1)

        # User: 掷一个骰子
        roll_dice(sides=6, count=1)

        # User: 帮我掷一个10面的骰子
        roll_dice(sides=10, count=1)

        # User: 一次掷四个骰子
        roll_dice(sides=6, count=4)

        # User: 扔五个骰子
        roll_dice(sides=6, count=5)

        # User: 从1到50随便选个数字
        roll_dice(sides=50, count=1)

        # User: 抛一枚硬币
        roll_dice(sides=2, count=1)

        # User: 投三个12面的骰子
        roll_dice(sides=12, count=3)

        # User: サイコロを振って
        roll_dice(sides=6, count=1)

        # User: 10面ダイスを振って
        roll_dice(sides=10, count=1)

        # User: サイコロを4個投げて
        roll_dice(sides=6, count=4)

        # User: コインを投げて
        roll_dice(sides=2, count=1)

        # User: 12面のサイコロを3個振ってください
        roll_dice(sides=12, count=3)

        # User: サイコロ5個
        roll_dice(sides=6, count=5)

        # User: 1から50までの数字を適当に選んで
        roll_dice(sides=50, count=1)

        # User: コイントスをお願い
        roll_dice(sides=2, count=1)

        # User: 表か裏か決めて
        roll_dice(sides=2, count=1)

        # User: 1から200までの数をランダムにひとつ
        roll_dice(sides=200, count=1)

        # User: 8面ダイスを2回
        roll_dice(sides=8, count=2)
    """
    if not 2 <= sides <= 1_000:
        raise ToolFailure(f"dice with {sides} sides: between 2 and 1,000 are possible")
    if not 1 <= count <= 100:
        raise ToolFailure(f"{count} dice: between 1 and 100 can be rolled at once")
    numbers = [secrets.randbelow(sides) + 1 for _ in range(count)]
    total = sum(numbers)
    sum_of_many = f"{' + '.join(map(str, numbers))} = " if count > 1 else ""
    await _ctx.send_text(f"🎲 {count}d{sides}: {sum_of_many}{total}")
    return total
