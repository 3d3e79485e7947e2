"""Values that follow others: what a spreadsheet does, for networks, boxes and models.

::

    values.py    cell, computed: values that others depend on
    inputs.py    what a cell runs with, and the key that tells whether it changed
    scope.py     scope: who owns what runs, and with what it works
    cells.py     AsyncCell: pending, result and error of something that runs; load
    fetch.py     fetch_data
    execute.py   exec_: commands in a fresh box
    handle.py    sandbox: a box that stays, and what can be done in it
    own_box.py   the boxes of a scope's own
    files.py     read_sandbox_file, write_sandbox_file
    generate.py  generate_text: a model's answer
    tooling.py   ModelTool and the loop in which a model calls them
    follow.py    follow: a value's changes, as they come
    home.py      the thread in which everything happens
    errors.py    what goes wrong

Source of the family: "Integration with Common Tools Patterns" of the boxes' design document.
"""
