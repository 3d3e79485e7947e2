"""Sends voice messages: a text becomes speech."""

from pathlib import Path

from nekro_core.api.plugin import NekroPlugin, SandboxMethodType, ToolFailure
from nekro_core.api.schemas import AgentCtx
from nekro_core.api.speech import SpeechError

plugin = NekroPlugin(
    name="Voice",
    module_name="voice",
    description="Say something aloud, as a voice message.",
    version="0.1.0",
    author="nekro",
    is_builtin=True,
)


@plugin.mount_sandbox_method(
    SandboxMethodType.BEHAVIOR,
    name="send_tts_voice",
    description="Say something aloud: send a voice message to the chat.",
    examples=Path(__file__).with_name("examples") / "send_tts_voice.txt",
)
async def send_tts_voice(
    _ctx: AgentCtx, text: str, voice: str | None = None, speed: float = 1.0
) -> str:
    """Say something aloud: send a voice message to the chat.

    Do not send it again.

    Args:
        text: At most 2,000 characters.
        voice: A voice by name, or a language such as "zh"; else the language of the text.
        speed: 0.5 to 2.0.

    Example:
        # User: Say thank you with your voice
        send_tts_voice("Thank you!")

        # User: read this out loud: the shop opens at ten
        send_tts_voice("The shop opens at ten.")

        # User: Send a voice message that greets Maria
        send_tts_voice("Hello, Maria!")

        # User: please read to me: time flies like an arrow
        send_tts_voice("Time flies like an arrow.")

        # User: I want to hear you say see you soon
        send_tts_voice("See you soon!")

        # User: how do you pronounce "schedule"?
        send_tts_voice("schedule")

        # User: speak slowly: take a deep breath
        send_tts_voice("Take a deep breath.", speed=0.7)

        # User: speak to me, say have a nice day
        send_tts_voice("Have a nice day!")

        # User: could you say "the food is here" out loud?
        send_tts_voice("The food is here.")

        # User: send a voice message that wishes Leo a good trip
        send_tts_voice("Have a good trip, Leo!")

        # User: tell me in a voice message that you miss me
        send_tts_voice("I miss you!")

        # User: use your voice to count to three
        send_tts_voice("One, two, three!")

        # User: 用语音说谢谢
        send_tts_voice("谢谢！")

        # User: 发一条语音跟小明打招呼
        send_tts_voice("小明，你好！")

        # User: 朗读一下：商店十点开门
        send_tts_voice("商店十点开门。")

        # User: 念给我听：好好休息
        send_tts_voice("好好休息。")

        # User: 大声说一遍“我们赢了”
        send_tts_voice("我们赢了！")

        # User: 把这段话读出来：明天下雨，记得带伞
        send_tts_voice("明天下雨，记得带伞。")

        # User: 用你的声音祝妈妈生日快乐
        send_tts_voice("妈妈，生日快乐！")

        # User: 语音播报：会议五点开始
        send_tts_voice("会议五点开始。")

        # User: 声でありがとうと言って
        send_tts_voice("ありがとう！")

        # User: 「店は十時に開きます」と読み上げて
        send_tts_voice("店は十時に開きます。")

        # User: ボイスメッセージで田中さんに挨拶して
        send_tts_voice("田中さん、こんにちは！")

        # User: またねって話してください
        send_tts_voice("またね！")

        # User: 「いただきます」と声に出して言って
        send_tts_voice("いただきます。")

        # User: この文を音読して：明日は雨です
        send_tts_voice("明日は雨です。")

        # User: 音声でお誕生日おめでとうと伝えて
        send_tts_voice("お誕生日おめでとう！")

        # User: 声を聞かせて、頑張ってって
        send_tts_voice("頑張って！")
    """
    try:
        speech = await _ctx.services.speaker.speak(text, voice=voice or None, speed=speed)
    except SpeechError as error:
        raise ToolFailure(str(error)) from error
    await _ctx.send_voice(speech.wav, text=text)
    return f"Said aloud ({speech.seconds:.0f} s): {' '.join(text.split())}"
