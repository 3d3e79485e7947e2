"""71 conversations of people with the bot, with replies of a model that saw the prompt alone.

Each scenario is a function in a module of a subject (`words.py`, `files.py`, ...). It says what
people do at a real peer, and what must be true at the end. The replies of the model are in
`replies/`. `record.py` asks somebody for them who reads only what a model is shown;
`test_scenarios.py` plays them back and judges the end; `table.py` prints a line for each scenario.
"""
