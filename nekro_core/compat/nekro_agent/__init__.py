"""Offers the module names that plugins written for nekro-agent import. Behind each name is an
object of nekro-core.

`imports` makes the modules importable while a bot runs. `facades` lists the names in each module.
`host` finds the bot to which a call through such a name belongs.
"""
