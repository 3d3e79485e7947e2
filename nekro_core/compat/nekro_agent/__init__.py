"""Names that existing plugins import, mapped onto the api.

`install_facades` offers the modules while a bot runs, `use_host` says which bot their names mean:
`NekroAgentHost` is that bot. `nekro_core.compat.nekro_agent.facades` has what each name leads to.
"""
