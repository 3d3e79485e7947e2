"""The agent of a chat: when it answers, what the model is told, and how its code is run."""
