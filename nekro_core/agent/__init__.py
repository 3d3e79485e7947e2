"""The agent of a chat: when it answers, what the model is told, and how its code is run."""

from nekro_core.agent.settings import AgentSettings, PromptSettings, TriggerSettings, TurnSettings

__all__ = ["AgentSettings", "PromptSettings", "TriggerSettings", "TurnSettings"]
