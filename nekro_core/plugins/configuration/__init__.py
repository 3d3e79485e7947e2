"""Shows and changes the configurations of loaded plugins."""
