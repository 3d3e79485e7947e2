"""Re-exports the functions that find font files."""

from nekro_core.system.fonts import font_files, font_folders

__all__ = ["font_files", "font_folders"]
