"""Makes the imports of a start quicker. Call `quicken_imports` before the first of them."""

import gc


def quicken_imports() -> None:
    """Switch the garbage collector off, and import FastAPI without models that a bot does not use.

    Imported modules are never garbage, and collections during the imports take half a second of
    the start. The server enables the collector again once the bot answers.
    """
    gc.disable()
    _import_fastapi()


def _import_fastapi() -> None:
    """Import FastAPI, and let Pydantic build FastAPI's own models when they are first used. Most
    describe OpenAPI documents. Building them takes 30 ms, and the bot makes no such document with
    FastAPI."""
    from pydantic import BaseModel, ConfigDict  # noqa: PLC0415 - an import of this module is quick

    usual = BaseModel.model_config
    BaseModel.model_config = ConfigDict(defer_build=True)
    try:
        import fastapi.openapi.models  # noqa: F401, PLC0415 - as above
    finally:
        BaseModel.model_config = usual
