"""Runs the agent of each chat: decides when it answers, writes its prompts, and runs its code."""
