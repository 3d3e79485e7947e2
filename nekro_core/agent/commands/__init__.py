"""The chat commands that the agent itself answers: status, policy, erasure."""
