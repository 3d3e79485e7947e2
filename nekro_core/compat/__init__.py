"""The names that plugins written for other bots import, and the code behind these names."""
