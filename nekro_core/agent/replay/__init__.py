"""Repeats a turn without effects, with another model, persona or mode."""
