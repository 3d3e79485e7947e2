"""Mentions inside a text."""

from nekro_core.chat.mentions import normalize_at_markup, split_at_markup

__all__ = ["normalize_at_markup", "split_at_markup"]
