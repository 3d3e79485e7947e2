"""A bare NoneBot that echoes each message: the least that a bot with these libraries can cost.
`bench.bare_bot` runs it."""

import nonebot
from nonebot import on_message
from nonebot.adapters.onebot.v11 import Adapter, Bot, MessageEvent


def main() -> None:
    nonebot.init(driver="~fastapi+~httpx+~websockets", log_level="WARNING")
    nonebot.get_driver().register_adapter(Adapter)
    echo = on_message()

    @echo.handle()
    async def _answer(bot: Bot, event: MessageEvent) -> None:
        await bot.send(event, event.message)

    nonebot.run()


if __name__ == "__main__":
    main()
