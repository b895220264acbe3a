# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Datasets for PyTorch."""
from __future__ import annotations

from typing import Any


def preferred_device(device: str | None = None) -> Any:
    """The device that is named, or the fastest there is."""
    import torch

    if device is not None:
        return torch.device(device) if isinstance(device, str) else device
    if torch.cuda.is_available():
        return torch.device("cuda")
    mps = getattr(torch.backends, "mps", None)
    return torch.device("mps" if mps is not None and mps.is_available() and mps.is_built() else "cpu")


__all__ = ["preferred_device"]
