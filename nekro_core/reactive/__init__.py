"""Computes values that are computed again when their inputs change, as in a spreadsheet. An input
or a result may come from the network, a box or a model.

::

    values.py       cell, computed: values on which other values depend
    inputs.py       the inputs of a cell, and a key that changes when an input changes
    scope.py        scope: owns cells and boxes, and gives cells their model and network
    cells.py        AsyncCell: pending, result and error of an asynchronous function; load
    fetch.py        fetch_data
    execute.py      exec_: commands in a fresh box
    handle.py       sandbox: a long-lived box, with its commands, files and tools
    files.py        read_sandbox_file, write_sandbox_file
    generate.py     generate_text: a model's answer
    model_tools.py  ModelTool, and the loop in which a model calls tools
    follow.py       an iterator over the changes of a value
    errors.py       the errors

The API follows the chapter "Integration with Common Tools Patterns" of the design document of the
boxes.
"""
