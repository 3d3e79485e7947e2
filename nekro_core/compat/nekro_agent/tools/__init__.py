"""The functions of ``nekro_agent.tools``."""
