"""What is refused of a plugin's packages."""


class InvalidRequirements(ValueError):
    """A plugin's list of packages cannot be used. Names file, line and what was expected."""


class PackagesRefused(Exception):
    """Packages were not installed, and nothing has changed. The message names who needs what, and
    who stands against it."""
