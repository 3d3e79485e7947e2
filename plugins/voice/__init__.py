"""The bot speaks: a text becomes a voice message."""

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
)
async def send_tts_voice(
    _ctx: AgentCtx, text: str, voice: str | None = None, speed: float = 1.0
) -> str:
    """Say something aloud: a voice message is sent to the chat, so do not send it again.

    Args:
        text: The words to speak, in the language of the person who asks; at most 2,000 characters.
        voice: A voice by name, or a language such as "en", "zh" or "ja"; without one the language
            of the text chooses.
        speed: From 0.5, slow, to 2.0, quick.

    Returns:
        What was said.

    Example:
        # User: Say good morning with your voice
        send_tts_voice("Good morning!")

        # User: read this out loud: the train leaves at nine
        send_tts_voice("The train leaves at nine.")

        # User: Send a voice message wishing Tom a happy birthday
        send_tts_voice("Happy birthday, Tom!")

        # User: speak slowly: take a deep breath
        send_tts_voice("Take a deep breath.", speed=0.7)

        # User: 用语音说早上好
        send_tts_voice("早上好！")

        # User: 发一条语音祝小明生日快乐
        send_tts_voice("小明，祝你生日快乐！")

        # User: 把这句话念出来：明天下午三点开会
        send_tts_voice("明天下午三点开会。")

        # User: 声でおはようと言って
        send_tts_voice("おはよう！")

        # User: 「電車は九時に出ます」と読み上げて
        send_tts_voice("電車は九時に出ます。")

        # User: ボイスメッセージで田中さんにお礼を言って
        send_tts_voice("田中さん、ありがとうございます！")
    """
    try:
        speech = await _ctx.services.speaker.speak(text, voice=voice or None, speed=speed)
    except SpeechError as error:
        raise ToolFailure(str(error)) from error
    await _ctx.send_voice(speech.wav, text=text)
    return f"Said aloud ({speech.seconds:.0f} s): {' '.join(text.split())}"
