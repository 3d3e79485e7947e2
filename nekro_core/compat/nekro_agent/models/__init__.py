"""Models under the names of nekro-agent: groups, messages and the functions that ask."""
