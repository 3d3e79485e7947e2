"""Names that plugins written for other frameworks import."""
