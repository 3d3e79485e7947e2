"""Writes the prompts: rules, tools, history, pictures."""
