"""The parts of one MaiBot plugin: manifest, configuration, components, and the loaded plugin."""
