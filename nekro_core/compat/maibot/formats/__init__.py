"""Conversions between MaiBot's dicts and the values of nekro-core."""
