"""Draws cards and charts: pictures of words and of numbers."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import anyio.to_thread

from nekro_core.api.fonts import font_folders
from nekro_core.api.plugin import NekroPlugin, SandboxMethodType, ToolFailure
from nekro_core.api.schemas import AgentCtx

from .card import CardTooLong, draw_card_png
from .chart import InvalidChartData, draw_chart_png
from .fonts import FontBook
from .typeset import FontMissing

_EXAMPLES = Path(__file__).with_name("examples")

plugin = NekroPlugin(
    name="Drawing",
    module_name="drawing",
    description="Draw cards with text, and charts from data.",
    version="0.1.0",
    author="nekro",
    is_builtin=True,
)


@plugin.mount_sandbox_method(
    SandboxMethodType.BEHAVIOR,
    name="draw_card",
    description="Draw a picture with words on it and send it to the chat.",
    examples=_EXAMPLES / "draw_card.txt",
)
async def draw_card(
    _ctx: AgentCtx,
    text: str,
    title: str = "",
    style: Literal["auto", "sunset", "ocean", "forest", "lavender", "night"] = "auto",
) -> str:
    """Draw a card, a picture with words on it, and send it to the chat.

    Do not send it again.

    Args:
        text: At most 3,000 characters. Lines that begin with "-" or "1." become a list.

    Example:
        # User: Draw a card that says welcome
        draw_card("welcome")

        # User: make a good luck card for Ben
        draw_card("Good luck, Ben!")

        # User: Make me a picture with the words keep going
        draw_card("keep going")

        # User: put "Lunch at noon" on an image
        draw_card("Lunch at noon")

        # User: draw a card titled Groceries with milk, eggs and bread
        draw_card("- milk\\n- eggs\\n- bread", title="Groceries")

        # User: a poster for our summer party
        draw_card("Summer party!")

        # User: create a sign with the text Please knock
        draw_card("Please knock")

        # User: a card with the title Plans and the points swim and read
        draw_card("- swim\\n- read", title="Plans")

        # User: make a thank you card for our teacher
        draw_card("Thank you, teacher!")

        # User: a picture that says No Parking
        draw_card("No Parking")

        # User: 画一张写着欢迎的卡片
        draw_card("欢迎")

        # User: 做一张新年贺卡
        draw_card("新年快乐！")

        # User: 生成一张图片，上面写“加油”
        draw_card("加油")

        # User: 画一张标题是购物清单的卡片，内容是牛奶和鸡蛋
        draw_card("- 牛奶\\n- 鸡蛋", title="购物清单")

        # User: 做张海报，写上“周末大减价”
        draw_card("周末大减价")

        # User: 给爷爷做一张生日卡
        draw_card("爷爷，生日快乐！")

        # User: 画个牌子：小心台阶
        draw_card("小心台阶")

        # User: 画张海报：周日下午篮球赛
        draw_card("周日下午篮球赛")

        # User: 做一张海报：春节晚会
        draw_card("春节晚会")

        # User: ようこそと書いたカードを描いて
        draw_card("ようこそ")

        # User: 年賀状を作って
        draw_card("明けましておめでとう！")

        # User: 「がんばれ」という文字の画像を作ってください
        draw_card("がんばれ")

        # User: タイトルが「買い物」で、牛乳と卵を書いたカードを作って
        draw_card("- 牛乳\\n- 卵", title="買い物")

        # User: 「足元注意」のポスターを作って
        draw_card("足元注意")

        # User: おじいちゃんに誕生日カードを描いて
        draw_card("おじいちゃん、お誕生日おめでとう！")

        # User: お礼のカードを先生に
        draw_card("先生、ありがとうございました！")

        # User: 「満席」という看板を描いて
        draw_card("満席")

        # User: 「立入禁止」の画像がほしい
        draw_card("立入禁止")

        # User: 秋祭り 10月3日 とポスターに書いて
        draw_card("秋祭り 10月3日")
    """
    if not text.strip() and not title.strip():
        raise ToolFailure("there are no words to draw: give a text")
    await _ctx.send_image(
        await _draw(functools.partial(draw_card_png, _fonts(_ctx), text, title, style))
    )
    return f"Sent a card to the chat: {_told(f'{title}: {text}' if title else text)}"


@plugin.mount_sandbox_method(
    SandboxMethodType.BEHAVIOR,
    name="draw_chart",
    description="Draw a line, bar or pie chart from data and send it to the chat.",
    examples=_EXAMPLES / "draw_chart.txt",
)
async def draw_chart(
    _ctx: AgentCtx,
    kind: Literal["line", "bar", "pie"],
    labels: list[str],
    values: list[float],
    title: str = "",
) -> str:
    """Draw a chart from data and send it to the chat.

    Do not send it again.

    Args:
        labels: One for each value.
        values: At most 200; a pie at most 12, none negative.

    Example:
        # User: bar chart of June 10, July 14 and August 8
        draw_chart(kind="bar", labels=["June", "July", "August"], values=[10, 14, 8])

        # User: make a pie chart of tea 6 coffee 9
        draw_chart(kind="pie", labels=["tea", "coffee"], values=[6, 9])

        # User: plot these visitors as a line: 5, 7, 6, 9
        draw_chart(kind="line", labels=["first", "second", "third", "fourth"], values=[5, 7, 6, 9])

        # User: show as a pie: red 50%, blue 30%, green 15%, white 5%
        draw_chart(kind="pie", labels=["red", "blue", "green", "white"], values=[50, 30, 15, 5])

        # User: Draw a line graph of the temperature: Monday 12, Tuesday 15, Wednesday 11
        draw_chart(kind="line", labels=["Monday", "Tuesday", "Wednesday"], values=[12, 15, 11])

        # User: bars for Ann 7 Ben 4
        draw_chart(kind="bar", labels=["Ann", "Ben"], values=[7, 4])

        # User: draw a pie of lions 2 tigers 8
        draw_chart(kind="pie", labels=["lions", "tigers"], values=[2, 8])

        # User: show my steps as a line chart: 4000, 5200, 6100
        draw_chart(kind="line", labels=["first", "second", "third"], values=[4000, 5200, 6100])

        # User: a bar graph please: Lima 20, Bern 9, Kyiv 6
        draw_chart(kind="bar", labels=["Lima", "Bern", "Kyiv"], values=[20, 9, 6])

        # User: pie chart with 60 percent for and 40 percent against
        draw_chart(kind="pie", labels=["for", "against"], values=[60, 40])

        # User: 画一个柱状图：六月10，七月14，八月8
        draw_chart(kind="bar", labels=["六月", "七月", "八月"], values=[10, 14, 8])

        # User: 画个饼图，茶6，咖啡9
        draw_chart(kind="pie", labels=["茶", "咖啡"], values=[6, 9])

        # User: 用折线图画一下气温：周一12，周二15，周三11
        draw_chart(kind="line", labels=["周一", "周二", "周三"], values=[12, 15, 11])

        # User: 用饼图表示：同意60%，反对40%
        draw_chart(kind="pie", labels=["同意", "反对"], values=[60, 40])

        # User: 把步数画成折线图：4000、5200、6100
        draw_chart(kind="line", labels=["第一", "第二", "第三"], values=[4000, 5200, 6100])

        # User: 柱形图：北京20，上海24，广州28
        draw_chart(kind="bar", labels=["北京", "上海", "广州"], values=[20, 24, 28])

        # User: 六月10、七月14、八月8の棒グラフを描いて
        draw_chart(kind="bar", labels=["六月", "七月", "八月"], values=[10, 14, 8])

        # User: お茶6、コーヒー9の円グラフ
        draw_chart(kind="pie", labels=["お茶", "コーヒー"], values=[6, 9])

        # User: 気温の折れ線グラフを作って：朝12、昼15、夜11
        draw_chart(kind="line", labels=["朝", "昼", "夜"], values=[12, 15, 11])

        # User: 賛成60%、反対40%を円グラフにして
        draw_chart(kind="pie", labels=["賛成", "反対"], values=[60, 40])

        # User: 歩数を折れ線で：4000、5200、6100
        draw_chart(kind="line", labels=["一日目", "二日目", "三日目"], values=[4000, 5200, 6100])

        # User: 棒グラフお願い、東京20、大阪24、福岡26
        draw_chart(kind="bar", labels=["東京", "大阪", "福岡"], values=[20, 24, 26])

        # User: 円グラフで：猫20、犬15、鳥5
        draw_chart(kind="pie", labels=["猫", "犬", "鳥"], values=[20, 15, 5])

        # User: A組12、B組9、C組7を円グラフで見せて
        draw_chart(kind="pie", labels=["A組", "B組", "C組"], values=[12, 9, 7])

        # User: 折れ線グラフで：1月3、2月6、3月4
        draw_chart(kind="line", labels=["1月", "2月", "3月"], values=[3, 6, 4])
    """
    await _ctx.send_image(
        await _draw(functools.partial(draw_chart_png, _fonts(_ctx), kind, labels, values, title))
    )
    shown = ", ".join(f"{label} {value:g}" for label, value in zip(labels, values, strict=True))
    return f"Sent a {kind} chart to the chat: {_told(f'{title}: {shown}' if title else shown)}"


async def _draw(work: Callable[[], bytes]) -> bytes:
    try:
        return await anyio.to_thread.run_sync(work)
    except (CardTooLong, InvalidChartData) as error:
        raise ToolFailure(str(error)) from error
    except FontMissing as error:
        raise ToolFailure(
            f"no font on this machine has {_told(error.characters, 40)!r}. The operator can "
            "install one (on Debian: apt-get install fonts-noto-cjk) or put a .ttf or .otf file "
            "into the folder 'fonts' of the data folder, and start the bot again"
        ) from error


def _fonts(ctx: AgentCtx) -> FontBook:
    return _open_fonts(ctx.services.data_dir / "fonts")


@functools.lru_cache(maxsize=2)
def _open_fonts(own: Path) -> FontBook:
    # Searching the fonts of a machine takes a while, so it is done once for each data folder.
    return FontBook(own, font_folders())


def _told(text: str, most: int = 300) -> str:
    text = " ".join(text.split())
    return text if len(text) <= most else f"{text[: most - 1]}…"
