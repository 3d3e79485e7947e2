from .compose import sheet

__all__ = ["sheet"]
