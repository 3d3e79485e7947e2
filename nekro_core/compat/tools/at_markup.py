"""Mentions inside a text."""

from nekro_core.plugin.at_markup import normalize_at_markup, split_at_markup

__all__ = ["normalize_at_markup", "split_at_markup"]
