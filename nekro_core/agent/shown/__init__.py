"""Stores what the model was shown in a step, and makes it again."""
