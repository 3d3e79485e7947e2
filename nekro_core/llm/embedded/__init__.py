"""Downloads and runs a small model, which the bot uses when the settings name none.

::

    settings.py  the settings
    weights.py   the files of the model
    fetch.py     finds or downloads them
    model.py     `EmbeddedModel`, the chat model
"""
