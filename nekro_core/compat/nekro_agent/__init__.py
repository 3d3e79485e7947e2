"""The names that plugins written for nekro-agent import, mapped onto ours.

`imports` makes the modules importable while a bot runs, and `facades` lists what each contains.
`host` decides which bot their names mean.
"""
