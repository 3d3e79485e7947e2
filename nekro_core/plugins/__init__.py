"""The plugin object, its context, what loads it and what it may reach."""
