"""A package inside the plugin."""
