"""The objects that authors of plugins use: the plugin, its context, its declarations."""
