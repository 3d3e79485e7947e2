"""What a plugin author writes against, and what loads and calls it."""
