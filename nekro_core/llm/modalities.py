"""Replaces pictures and sound in a prompt with notes, for models that do not accept them."""

from dataclasses import replace

from nekro_core.llm.model import AudioPart, ImagePart, ModelProfile, Part, PromptMessage, TextPart

IMAGE_NOTE = "[image: you cannot see pictures]"
AUDIO_NOTE = "[audio: you cannot hear sound]"


def drop_unsupported_parts(message: PromptMessage, profile: ModelProfile) -> PromptMessage:
    """Return the message with a note instead of each part that the model does not accept."""

    def adapt(part: Part) -> Part:
        match part:
            case ImagePart() if not profile.vision:
                return TextPart(IMAGE_NOTE)
            case AudioPart() if not profile.audio:
                return TextPart(AUDIO_NOTE)
        return part

    if all(isinstance(part, TextPart) for part in message.parts):
        return message
    return replace(message, parts=tuple(map(adapt, message.parts)))
