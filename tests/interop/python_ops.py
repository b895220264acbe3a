# Licensed under the Apache License, Version 2.0; see LICENSE.
"""What the tests of the Python package ask official about: its signatures, and what its calls raise."""
import dataclasses
import importlib
import inspect


def _parameters(function):
    """[[name, kind, default as text or None]], without self."""
    found = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name not in ("self", "cls"):
            default = None if parameter.default is inspect.Parameter.empty else _text(parameter.default)
            found.append([parameter.name, parameter.kind.name, default])
    return found


def _text(default):
    """Defaults that are objects by their type: their text holds an address."""
    text = repr(default)
    return type(default).__name__ if " at 0x" in text or "factory" in text else text


def _members(cls):
    members = {}
    for name in dir(cls):
        if name.startswith("_") and name != "__init__":
            continue
        owner = next((base for base in cls.__mro__ if name in vars(base)), None)
        if owner is None or owner.__module__.split(".")[0] not in ("lance", "pennon"):
            continue
        member = inspect.getattr_static(cls, name)
        value = getattr(cls, name)
        if inspect.isclass(value):
            members[name] = {"class": _members(value)}
        elif isinstance(member, property):
            members[name] = "property"
        elif callable(value):
            try:
                members[name] = _parameters(value)
            except ValueError:
                continue
    if dataclasses.is_dataclass(cls):
        members["fields"] = [field.name.lstrip("_") for field in dataclasses.fields(cls)]
    return members


def signatures(modules, package="lance"):
    """{module: {name: parameters, or {"class": members}}} of what the modules define or offer."""
    found = {}
    for name in modules:
        try:
            module = importlib.import_module(f"{package}.{name}" if name else package)
        except ModuleNotFoundError:
            found[name] = None
            continue
        found[name] = {}
        for key, value in vars(module).items():
            home = getattr(value, "__module__", None) or ""
            if key.startswith("_") or home.split(".")[0] not in ("lance", "pennon"):
                continue
            if name and home != module.__name__ and key not in getattr(module, "__all__", ()):
                continue
            if inspect.isclass(value):
                found[name][key] = {"class": _members(value)}
            elif inspect.isfunction(value):
                found[name][key] = _parameters(value)
    return found


def raised(calls, uri, ipc):
    """{name: type of the exception, or None} of the CALLS of a test file, on a table of its own."""
    import lance
    import pyarrow as pa

    with pa.OSFile(ipc, "rb") as source:
        table = pa.ipc.open_stream(source).read_all()
    with open(calls, encoding="utf-8") as file:
        text = file.read()
    scope = {}
    exec(compile("CALLS = {" + text.split("CALLS = {")[1].split("\n}\n")[0] + "\n}", calls, "exec"), scope)  # the file imports our package
    dataset = lance.write_dataset(table, uri)
    found = {}
    for name, call in scope["CALLS"].items():
        try:
            call(lance, dataset, table)
            found[name] = None
        except Exception as error:
            found[name] = type(error).__name__
    return found
