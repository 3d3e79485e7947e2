"""Functions of existing plugins' ``nekro_agent.tools``."""
