"""What the author of a plugin uses: the plugin, its context, its declarations."""
