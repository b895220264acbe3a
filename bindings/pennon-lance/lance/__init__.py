# Licensed under the Apache License, Version 2.0; see LICENSE.
"""The package pennon under the name lance: `lance.fragment` is the module `pennon.fragment` itself."""
from __future__ import annotations

import importlib
import os
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any


def _refuse_pylance() -> None:
    """Both packages have this module name: with both installed it is chance which files stand here."""
    for folder in sys.path:
        try:
            names = os.listdir(folder or ".")
        except OSError:
            continue
        for name in names:
            if name.startswith("pylance-") and name.endswith((".dist-info", ".egg-info")):
                raise ImportError(
                    f"pylance and pennon-lance are both installed, and both are the module 'lance' ({os.path.join(folder, name)}): "
                    "`pip uninstall pylance pennon-lance`, then install the one that is wanted; `import pennon` works beside pylance"
                )


_refuse_pylance()

import pennon  # noqa: E402

# The names come from there when they are asked for: some of them load pyarrow.
if TYPE_CHECKING:
    from pennon import *  # noqa: F403

__version__ = pennon.__version__
__all__ = pennon.__all__


class _Alias:
    """Finds lance.x as pennon.x: one module under two names."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if not name.startswith("lance."):
            return None
        own = "pennon." + name.removeprefix("lance.")
        try:
            module = importlib.import_module(own)
        except ModuleNotFoundError as error:
            if error.name == own:
                return None
            raise
        loader: Any = _Loader(module)
        return ModuleSpec(name, loader, origin=module.__file__, is_package=hasattr(module, "__path__"))


class _Loader:
    """Gives a module that is loaded already, and leaves its own spec in place."""

    def __init__(self, module: ModuleType):
        self._module, self._spec = module, module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec


# What is loaded is found by name, not by the finder, which would put the module where the function `lance.dataset` is.
for _name in [name for name in sys.modules if name.startswith("pennon.")]:
    sys.modules["lance." + _name.removeprefix("pennon.")] = sys.modules[_name]
sys.meta_path.insert(0, _Alias)


def __getattr__(name: str) -> Any:
    if not name.startswith("__"):
        try:
            return getattr(pennon, name)
        except AttributeError:
            pass
    raise AttributeError(f"module 'lance' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *dir(pennon), *pennon.__all__})
