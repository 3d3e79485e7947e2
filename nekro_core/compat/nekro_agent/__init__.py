"""Names that existing plugins import, mapped onto the api.

`provided_names` offers the modules while a bot runs, `hosted` says which bot their names mean:
`Host` is that bot. What stands behind each name: `nekro_core.compat.nekro_agent.facades`.
"""
