# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Where log records go. The library's own go to the logger "pennon"; its level and handlers are those of `logging`."""
from __future__ import annotations

import logging
import os

ENV_NAME_PYLANCE_LOGGING_LEVEL = "LANCE_LOG"

_FORMAT = "%(asctime)s %(name)s [%(levelname)s] %(filename)s:%(lineno)d %(funcName)s : %(message)s"


def get_python_log_level(rust_log_level: str) -> str:
    """The level of `logging` for one of the environment variable."""
    return "DEBUG" if rust_log_level.lower() == "trace" else rust_log_level


def get_log_level() -> str:
    """The level that the environment variable LANCE_LOG asks for; "INFO" where it asks for none."""
    text = os.environ.get(ENV_NAME_PYLANCE_LOGGING_LEVEL, "").upper()
    general = [part for part in text.split(",") if part and "=" not in part]
    return get_python_log_level(general[0]) if general else "INFO"


LOGGER = logging.getLogger("pennon")


def set_logger(
    file_path: str | None = "pylance.log",
    name: str = "pennon",
    level: int = logging.INFO,
    format_string: str | None = None,
    log_handler: logging.Handler | None = None,
) -> None:
    """Write log records to a file, or to a handler.

    Parameters
    ----------
    file_path : str, optional
        Where there is no `log_handler`.
    name : str
        Of the logger; the library's records go to "pennon".
    level : int
    format_string : str, optional
    log_handler : logging.Handler, optional
    """
    global LOGGER
    LOGGER = logging.getLogger(name)
    LOGGER.setLevel(level)
    handler = logging.FileHandler(file_path or "pylance.log") if log_handler is None else log_handler
    handler.setLevel(level)
    handler.setFormatter(logging.Formatter(format_string or _FORMAT))
    LOGGER.addHandler(handler)


__all__ = ["ENV_NAME_PYLANCE_LOGGING_LEVEL", "LOGGER", "get_log_level", "get_python_log_level", "set_logger"]
