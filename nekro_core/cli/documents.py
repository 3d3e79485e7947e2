"""Implements ``nekro documents``: shows the operator's documents, and copies them from the files to
the database or from the database to the files."""

import argparse
import sys

from nekro_core.app.documents import compare_documents, copy_documents
from nekro_core.app.settings import Settings
from nekro_core.store import StoreError
from nekro_core.system.documents import DocumentError


async def run(options: argparse.Namespace) -> int:
    """Run the action that the command line names. Raises `SettingsError`."""
    settings = Settings.load()
    try:
        if options.action == "list":
            for name, state in (await compare_documents(settings)).items():
                print(f"{name}: {state}")
            print(f"The bot uses: {settings.nekro_documents} (NEKRO_DOCUMENTS)")
            return 0
        copied = await copy_documents(settings, options.to, overwrite=options.overwrite)
    except (DocumentError, StoreError) as error:
        print(error, file=sys.stderr)
        return 1
    for name in copied:
        print(name)
    print(f"{len(copied)} documents were copied to the {options.to}")
    if options.to != settings.nekro_documents:
        print(f"To use them there, set NEKRO_DOCUMENTS={options.to} and start the bot")
    return 0
