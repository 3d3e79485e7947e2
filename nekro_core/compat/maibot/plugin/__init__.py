"""One MaiBot plugin: what it declares, and the loaded object."""
