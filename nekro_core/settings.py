"""All settings together, read in NoneBot's manner: ``.env``, ``.env.{ENVIRONMENT}``, environment.

Each room keeps its own model beside its code; here they only get their names. A nested name is
joined by two underscores: ``NEKRO_LLM__BASE_URL`` is ``nekro_llm.base_url``.
"""

import difflib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from dotenv import dotenv_values
from nonebot.config import BaseSettings
from pydantic import Field, IPvAnyAddress, ValidationError

from nekro_core.agent import AgentSettings, TriggerSettings
from nekro_core.delivery import DeliverySettings
from nekro_core.llm.embedded import EmbeddedSettings
from nekro_core.llm.settings import LLMSettings
from nekro_core.plugin import PluginSettings
from nekro_core.sandbox.settings import SandboxSettings
from nekro_core.speech.settings import SpeechSettings
from nekro_core.store import StoreSettings

ADAPTER_PREFIXES = ("onebot_", "web_")
"""Names of the process environment that are handed to adapters as they stand: NoneBot itself reads
undeclared names from the files only, so a container's environment would be ignored."""


class SettingsError(Exception):
    """A setting is wrong. The message names it as the operator wrote it, and what was expected."""


class Settings(BaseSettings):
    """What an operator can set before the start."""

    host: IPvAnyAddress = Field(default="127.0.0.1", validate_default=True)
    port: int = Field(default=8080, ge=0, le=65535)
    nekro_data_dir: Path = Path("data")
    """Everything that a running bot writes."""
    nekro_database_url: str = ""
    """Any Tortoise URL; empty is an SQLite file under the data folder."""
    nekro_llm: LLMSettings = LLMSettings()
    nekro_embedded: EmbeddedSettings = EmbeddedSettings()
    nekro_sandbox: SandboxSettings = SandboxSettings()
    nekro_agent: AgentSettings = AgentSettings()
    nekro_trigger: TriggerSettings = TriggerSettings()
    nekro_store: StoreSettings = StoreSettings()
    nekro_delivery: DeliverySettings = DeliverySettings()
    nekro_speech: SpeechSettings = SpeechSettings()
    nekro_plugin: PluginSettings = PluginSettings()

    @property
    def database_url(self) -> str:
        """Where the database is."""
        return self.nekro_database_url or f"sqlite://{self.nekro_data_dir / 'nekro.sqlite3'}"

    @classmethod
    def load(cls, folder: Path = Path()) -> Self:
        """Read the files of ``folder`` and the environment. Raises `SettingsError`."""
        written = written_settings(folder)
        known = {name for name in cls.model_fields if name.startswith("nekro_")}
        for name in written:
            root = name.split("__")[0]
            if root.startswith("nekro_") and root not in known:
                close = difflib.get_close_matches(root, known, 1, 0.5)
                hint = f"did you mean {close[0].upper()}?" if close else "no setting begins so"
                raise SettingsError(f"{name.upper()}: {hint}")
        try:
            return cls(_env_file=_files(folder))  # type: ignore[call-arg]  # NoneBot's own
        except ValidationError as error:
            raise SettingsError(_in_words(error)) from None


def adapter_settings() -> dict[str, Any]:
    """Adapters' names that stand in the process environment, for ``nonebot.init``."""
    return {
        name.lower(): value
        for name, value in os.environ.items()
        if name.lower().startswith(ADAPTER_PREFIXES)
    }


def written_settings(folder: Path = Path()) -> Mapping[str, str]:
    """Every name that the files or the environment give, in lower case, with its text."""
    names = {
        name.lower(): value or ""
        for path in _files(folder)
        if path.is_file()
        for name, value in dotenv_values(path).items()
    }
    return names | {name.lower(): value for name, value in os.environ.items()}


def _files(folder: Path) -> tuple[Path, Path]:
    first = folder / ".env"
    named = dotenv_values(first).get("ENVIRONMENT") if first.is_file() else None
    environment = os.environ.get("ENVIRONMENT") or named or "prod"
    return first, folder / f".env.{environment}"


def _in_words(error: ValidationError) -> str:
    lines = []
    for fault in error.errors():
        name = "__".join(str(part) for part in fault["loc"]).upper()
        came = fault.get("input")
        shown = "" if isinstance(came, Mapping) or "KEY" in name else f" (came: {came!r})"
        lines.append(f"{name}: {fault['msg']}{shown}")
    return "\n".join(lines)
