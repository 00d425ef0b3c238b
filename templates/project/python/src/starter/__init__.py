"""What starter does, in one line."""

from ._starter import runtime_version, scale

__all__ = ["runtime_version", "scale"]
