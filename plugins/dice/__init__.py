"""Dice: the plugin that the guide for plugin authors walks through."""

import secrets

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
)
async def roll_dice(_ctx: AgentCtx, sides: int = 6, count: int = 1) -> int:
    """Roll dice. The numbers are posted to the chat by this call, so do not send them again.

    Args:
        sides: How many sides each of the dice has, 2 to 1,000.
        count: How many dice, 1 to 100.

    Returns:
        The sum of all dice.

    Example:
        # User: Roll a dice
        roll_dice()

        # User: roll a 12-sided dice please
        roll_dice(sides=12)

        # User: throw three dice
        roll_dice(count=3)

        # User: roll 2d8
        roll_dice(sides=8, count=2)

        # User: 掷一个骰子
        roll_dice()

        # User: 帮我掷一个十二面的骰子
        roll_dice(sides=12)

        # User: 掷三个8面骰
        roll_dice(sides=8, count=3)

        # User: サイコロを振って
        roll_dice()

        # User: 12面ダイスを振って
        roll_dice(sides=12)

        # User: 8面のサイコロを3個振って
        roll_dice(sides=8, count=3)
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
