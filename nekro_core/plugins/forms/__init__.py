"""Describes forms: the fields of a configuration or of a tool, made from a JSON schema."""
