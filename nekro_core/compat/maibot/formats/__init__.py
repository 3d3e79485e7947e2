"""Conversions between MaiBot's plain values and ours."""
