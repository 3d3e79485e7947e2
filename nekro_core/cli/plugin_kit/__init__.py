"""Implements ``nekro plugin``, for authors of plugins and for operators who install plugins."""
