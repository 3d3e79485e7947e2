"""Prompts for models that cannot see or hear: a note in words takes the part's place."""

from dataclasses import replace

from nekro_core.llm.model import AudioPart, ImagePart, ModelProfile, Part, PromptMessage, TextPart

IMAGE_NOTE = "[image: you cannot see pictures]"
AUDIO_NOTE = "[audio: you cannot hear sound]"


def drop_unsupported_parts(message: PromptMessage, profile: ModelProfile) -> PromptMessage:
    """The message with what ``profile`` cannot take replaced by a note."""

    def adapt(part: Part) -> Part:
        match part:
            case ImagePart() if not profile.vision:
                return TextPart(IMAGE_NOTE)
            case AudioPart() if not profile.audio:
                return TextPart(AUDIO_NOTE)
        return part

    return replace(message, parts=tuple(map(adapt, message.parts)))
