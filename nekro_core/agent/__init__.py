"""The agent of a chat: when it answers, what the model is told, and how its code is run."""

from nekro_core.agent.boxes import ChatBoxes
from nekro_core.agent.desk import ToolDesk
from nekro_core.agent.discovery import Discovery
from nekro_core.agent.journal import ChatJournal
from nekro_core.agent.manner import Manners
from nekro_core.agent.pictures import Pictures
from nekro_core.agent.ports import Plugins, Ports
from nekro_core.agent.sessions import Sessions
from nekro_core.agent.settings import AgentSettings, PromptSettings, TriggerSettings, TurnSettings
from nekro_core.sandbox.named import BoxSource

__all__ = [
    "AgentSettings",
    "BoxSource",
    "ChatBoxes",
    "ChatJournal",
    "Discovery",
    "Manners",
    "Pictures",
    "Plugins",
    "Ports",
    "PromptSettings",
    "Sessions",
    "ToolDesk",
    "TriggerSettings",
    "TurnSettings",
]
