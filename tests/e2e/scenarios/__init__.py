"""This package has 71 conversations of people with the bot. The model's replies were written by
somebody who saw only the prompts.

Each scenario is a function in the module of a subject (`words.py`, `files.py`, ...). It says what
people write to the bot on a fake platform, and what must be true at the end. The replies of the
model are in `replies/`. `record.py` gets new replies from somebody who reads only what a model is
shown. `test_scenarios.py` plays the conversations with the stored replies and checks the end of
each. `table.py` prints a line for each scenario.
"""
