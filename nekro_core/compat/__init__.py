"""Everything that exists because another bot's plugin calls it so."""
