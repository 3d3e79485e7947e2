"""Defines the invented people, chats and conversations that the screenshots of the console show."""

from dataclasses import dataclass

from tests.e2e.whole_bot import fence

MEI, NOODLE = "20260901", "20260902"
"""The bot's two accounts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoryChat:
    """A group, or a private chat.

    Attributes:
        number: The id of the group or person on the platform.
        name: The group's name, or the person's.
        people: The members, as keys of `PEOPLE`. Those who write most come first.
        phrases: What people wrote here in the weeks before.
        private: Whether it is a private chat.
        weight: How many messages the chat has, relative to the other chats.
    """

    number: int
    name: str
    people: tuple[int, ...]
    phrases: tuple[str, ...]
    private: bool = False
    weight: int = 1

    @property
    def key(self) -> str:
        """The text of its chat key."""
        return f"onebot_v11-{'private' if self.private else 'group'}_{self.number}"


PEOPLE = {
    70101: "林晓",
    70102: "周雨桐",
    70103: "陈默",
    70104: "王小北",
    70201: "Amélie",
    70202: "Jonas",
    70203: "Priya",
    70204: "Tom",
    70301: "田中さくら",
    70302: "佐藤 健",
    70303: "小林 葵",
}
READING, TRAIL, PHOTO, CATS, GAMES = 61001, 61002, 61003, 61004, 61005
CHATS = (
    StoryChat(
        number=READING,
        name="周三读书会",
        people=(70101, 70102, 70103, 70104),
        phrases=(
            "这周读到第七章了",
            "我觉得结尾有点仓促",
            "有人借到《城南旧事》了吗？",
            "周三晚上七点半老地方",
            "译本推荐哪个？",
            "哈哈我也哭了",
            "图书馆还剩两本",
            "下个月选短篇吧",
        ),
        weight=6,
    ),
    StoryChat(
        number=TRAIL,
        name="Trail runners",
        people=(70201, 70202, 70203, 70204),
        phrases=(
            "12 k through the forest, muddy but great",
            "Is the path by the river open again?",
            "Sunday, 8 o'clock at the bridge?",
            "I will bring the thermos",
            "My watch says 640 m up",
            "New shoes. Old blisters.",
            "Rain from ten, let us start early",
            "Who has a spare head torch?",
        ),
        weight=5,
    ),
    StoryChat(
        number=PHOTO,
        name="写真部",
        people=(70301, 70302, 70303),
        phrases=(
            "夕焼けがきれいでした",
            "次の撮影会は土曜の朝です",
            "単焦点を借りてもいいですか？",
            "この一枚、構図がいいですね",
            "三脚を忘れました…",
            "現像は明日やります",
            "展示のタイトルを決めましょう",
        ),
        weight=4,
    ),
    StoryChat(
        number=CATS,
        name="小区猫咪互助",
        people=(70104, 70102, 70101),
        phrases=(
            "三花今天吃得很好",
            "明天谁去喂？",
            "已经预约绝育",
            "橘座又胖了",
            "有人领养小黑啦",
        ),
        weight=3,
    ),
    StoryChat(
        number=GAMES,
        name="Board games, Thursdays",
        people=(70204, 70203, 70201),
        phrases=(
            "Four players or five?",
            "I can teach the new one",
            "Sorry, ten minutes late",
            "Who won last time?",
            "Bring the expansion, please",
        ),
        weight=3,
    ),
    StoryChat(
        number=70301,
        name="田中さくら",
        people=(70301,),
        phrases=("今日の予定は？", "ありがとう！", "レシピをもう一度お願い"),
        private=True,
        weight=2,
    ),
    StoryChat(
        number=70202,
        name="Jonas",
        people=(70202,),
        phrases=("Remind me tomorrow at nine", "And in miles?", "Thanks!"),
        private=True,
        weight=2,
    ),
    StoryChat(
        number=70103,
        name="陈默",
        people=(70103,),
        phrases=("帮我总结一下", "换成表格", "谢谢"),
        private=True,
    ),
)
MODELS = (("deepseek-chat", 14), ("qwen3-coder", 5), ("gpt-4o-mini", 2))
"""The models that the bot asked in the weeks before, and how often it asked each."""
TOOLS = (
    ("send_channel_message", 12),
    ("draw_chart", 3),
    ("draw_card", 2),
    ("roll_dice", 4),
    ("forecast", 5),
    ("set_timer", 2),
    ("shell", 1),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """What a person says today, and the model's replies to it.

    Attributes:
        chat: The number of a chat.
        who: The person who says it; a key of `PEOPLE`.
        text: What the person says.
        replies: The model's replies. If there are none, the message is not for the bot.
    """

    chat: int
    who: int
    text: str
    replies: tuple[str, ...] = ()


RUNS_OF_WEEK = """km = {"Mon": 6.2, "Tue": 0, "Wed": 11.4, "Thu": 5.0, "Sat": 12.0, "Sun": 18.3}
draw_chart("bar", list(km), list(km.values()), title="Kilometres this week")
send_channel_message(f"{sum(km.values()):.1f} km in five runs. Sunday was the longest so far!")"""
WRONG = """rows = [line.split(",") for line in "Jonas,18.3;Amélie,12;Tom".split(";")]
print({name: float(km) for name, km in rows})"""
MENDED = """rows = [line.split(",") for line in "Jonas,18.3;Amélie,12;Tom".split(";")]
km = {name: float(more[0]) if more else 0.0 for name, *more in rows}
best = max(km, key=km.get)
send_channel_message(f"{best} leads with {km[best]} km. Tom, how far did you get?")"""
TODAY = (
    Line(
        chat=70301,
        who=70301,
        text="明日の朝、傘は必要？",
        replies=(
            fence(
                'print(forecast("京都"))\n'
                'send_channel_message("京都は明日の朝、小雨です。折りたたみ傘があると安心ですよ。")'
            ),
        ),
    ),
    Line(chat=READING, who=70102, text="我刚读完第八章，太好看了"),
    Line(
        chat=READING,
        who=70101,
        text="帮我们掷个骰子决定谁先发言，四个人",
        replies=(
            fence(
                'people = ["林晓", "周雨桐", "陈默", "王小北"]\n'
                "first = people[roll_dice(sides=4) - 1]\n"
                'send_channel_message(f"今晚由 {first} 先说，大家准备好！")'
            ),
        ),
    ),
    Line(chat=PHOTO, who=70302, text="展示は来月の二十日からに決まりました"),
    Line(
        chat=PHOTO,
        who=70303,
        text="案内のカードを作ってくれる？",
        replies=(fence('draw_card("写真部 冬の展示\\n20日から 図書館一階", style="night")'),),
    ),
    Line(
        chat=70202,
        who=70202,
        text="Remind me tomorrow at nine to call the physio",
        replies=(
            fence(
                'set_timer("Jonas wants to call the physio", in_minutes=960)\n'
                'send_channel_message("I will remind you tomorrow at nine.")'
            ),
        ),
    ),
    Line(chat=TRAIL, who=70204, text="Got lost again after the quarry, sorry"),
    Line(
        chat=TRAIL,
        who=70201,
        text="who ran furthest on Sunday?",
        replies=(fence(WRONG), fence(MENDED)),
    ),
    Line(
        chat=TRAIL,
        who=70202,
        text="make a chart of my week please: 6.2, 0, 11.4, 5, 12, 18.3",
        replies=(fence(RUNS_OF_WEEK),),
    ),
    Line(
        chat=TRAIL,
        who=70203,
        text="remember please: I only run on trails until my knee is well",
        replies=(
            fence(
                'remember("runs only on trails until her knee is well", about="70203")\n'
                'send_channel_message("Noted, Priya. Get well soon!")'
            ),
        ),
    ),
    Line(chat=CATS, who=70104, text="三花今天第一次让我摸了！"),
)
MUTED = Line(
    chat=GAMES,
    who=70203,
    text="what do we play on Thursday?",
    replies=(
        fence('send_channel_message("You voted for the one with the trains.")'),
        fence("pass  # muted in this group: nothing more can be said"),
    ),
)
"""The message whose answer the platform refuses."""
NOTES = (
    (70204, "lost the way after the quarry twice and wants the route the evening before"),
    (0, "Sunday runs begin at 8 o'clock at the bridge"),
)
"""What an operator noted for the trail runners: about whom (0 for the chat), and what."""
SUMMARIES = {
    "en": (
        "Jonas ran 12 km through the muddy forest. They meet on Sunday at 8 o'clock at the bridge.",
        "Amélie will bring the thermos. Rain is expected from ten, so they want to start early.",
        "Tom's watch counted 640 m of climbing. His new shoes gave him blisters again.",
    ),
    "zh": ("大家这周读到第七章，约好周三晚上七点半在老地方见面。图书馆还剩两本。",),
    "ja": ("次の撮影会は土曜の朝に決まった。展示のタイトルを相談した。現像は明日行う。",),
}
"""The summaries that the model of background work writes, by language. It uses those of one
language by turns."""
WHOLE_SUMMARY = (
    "The club runs on Sundays, from the bridge, at 8 o'clock. Jonas runs most, up to 18 km. "
    "Amélie decides the route and brings the thermos. Since the path by the river was closed, "
    "they have run through the forest."
)
"""The one summary that this model writes of the English summaries."""
MEI_TEXT = """You are Mei, a friendly librarian who lives in this chat.
You answer briefly and in the language in which you are asked.
You like tea, cats and facts with a source. If you do not know something, you say so."""
