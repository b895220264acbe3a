# Licensed under the Apache License, Version 2.0; see LICENSE.
"""What the tests of the Python package ask official about: its signatures, and what its calls raise."""
import builtins
import dataclasses
import enum
import importlib
import importlib.machinery
import importlib.util
import inspect
import sys
import types
import typing


def _home(value):
    """Top package of what a class or function belongs to. Classes that are native have none, or "_lib"."""
    home = (getattr(value, "__module__", None) or "").split(".")[0]
    if home == "_lib" or (home == "builtins" and inspect.isclass(value) and not hasattr(builtins, value.__name__)):
        return "lance"
    return home


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


def _constructor(cls):
    """Parameters of a class: of its signature, which native classes have instead of __init__."""
    try:
        return _parameters(cls)
    except (ValueError, TypeError):
        return None


def _members(cls):
    members = {}
    for name in dir(cls):
        owner = next((base for base in cls.__mro__ if name in vars(base)), None)
        if name.startswith("_") or owner is None or _home(owner) not in ("lance", "pennon"):
            continue
        described = describe(getattr(cls, name), inspect.getattr_static(cls, name))
        if described is not None:
            members[name] = described
    if not isinstance(cls, enum.EnumMeta):
        members["()"] = _constructor(cls)
    if dataclasses.is_dataclass(cls):
        members["fields"] = [field.name.lstrip("_") for field in dataclasses.fields(cls)]
    elif typing.is_typeddict(cls):
        members["fields"] = sorted(cls.__annotations__)
    return members


def describe(value, static=None):
    """Parameters of a function, {"class": members}, "property", "value", or None for what has no form to compare."""
    if inspect.isclass(value):
        return {"class": _members(value)}
    if isinstance(static, property) or inspect.isgetsetdescriptor(static) or inspect.ismemberdescriptor(static):
        return "property"
    if callable(value) and not isinstance(value, type):
        try:
            return _parameters(value)
        except (ValueError, TypeError):
            return None
    return "value"


class _Torch(types.ModuleType):
    """A torch in which every name is a class: enough to import what is written for it."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        made = type(name, (), {})
        setattr(self, name, made)
        return made


def stand_in_torch():
    """Put a torch into sys.modules where there is none."""
    if importlib.util.find_spec("torch") is not None:
        return
    for name in ("torch", "torch.distributed", "torch.utils", "torch.utils.data"):
        module = _Torch(name)
        module.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package=True)
        module.__path__ = []
        sys.modules[name] = module
        if "." in name:
            above, last = name.rsplit(".", 1)
            setattr(sys.modules[above], last, module)


def offered(module):
    """{name: value} of what a module defines, or offers in __all__."""
    found = {}
    for key, value in vars(module).items():
        if key.startswith("_") or not (inspect.isclass(value) or inspect.isfunction(value) or inspect.isbuiltin(value)):
            continue
        native = (getattr(value, "__module__", None) or "builtins") in ("_lib", "builtins")
        if _home(value) != "lance" and not (native and inspect.isbuiltin(value)):
            continue
        listed = key in getattr(module, "__all__", ())
        if listed or (module.__name__ != "lance" and (native or value.__module__ == module.__name__)):
            found[key] = value
    return found


def signatures(modules):
    """{module: {name: description}} of official's modules; "" is the package itself."""
    stand_in_torch()
    # Official looked for torch when it was imported, and keeps an object of its own in its place.
    importlib.import_module("lance.dependencies").torch = sys.modules["torch"]
    found = {}
    for name in modules:
        module = importlib.import_module(f"lance.{name}" if name else "lance")
        found[name] = {key: describe(value) for key, value in offered(module).items()}
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


def run_cases(names, folder):
    """What official gives in the cases of python_cases."""
    import lance
    import python_cases

    return python_cases.run(lance, names, folder)


def make_history(uri):
    """A dataset with a version of every verb that official has and the Python package only reads."""
    import lance
    import pyarrow as pa
    import python_cases

    table = python_cases.make_table()
    dataset = lance.write_dataset(table, uri, max_rows_per_file=300)
    dataset.insert(table.slice(0, 100))
    dataset.delete("id % 10 = 3")
    dataset.update({"half": "half + 1.0"}, where="id < 50")
    merge = dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    merge.execute(table.slice(0, 1))
    dataset.add_columns({"more": "id * 2"})
    dataset.alter_columns({"path": "name", "name": "label"})
    dataset.drop_columns(["ok"])
    dataset.update_config({"a": "b"})
    # Official cannot read the transaction of a compaction that changed an index.
    dataset.optimize.compact_files(target_rows_per_fragment=2000)
    dataset.create_scalar_index("id", "BTREE")
    dataset.add_columns(pa.field("nothing", pa.int8()))
    return dataset.version


def read_history(uri, package="lance"):
    """What the package says of every version."""
    import python_cases

    m = importlib.import_module(package)
    found = []
    latest = m.dataset(uri).version
    for version in range(1, latest + 1):
        dataset = m.dataset(uri, version=version)
        made = dataset.read_transaction(version)
        operation = type(made.operation).__name__
        found.append(
            [
                version, dataset.count_rows(), operation, made.read_version, python_cases.shown(made.transaction_properties, uri), python_cases.shown(dataset.schema, uri),
                [[one.id, one.physical_rows, one.num_deletions, len(one.files)] for one in (part.metadata for part in dataset.get_fragments())],
                [one.deletion_file() for one in dataset.get_fragments()], dataset.max_field_id, dataset.has_index,
                python_cases.shown(made.operation, uri) if operation in ("Append", "Delete", "Update", "Merge", "Project", "UpdateConfig", "Restore") else None,
                python_cases.shown(dataset.to_table(columns=["id"], limit=3, with_row_id=True), uri),
                sorted((python_cases.shown(one.metadata, uri) for one in dataset.get_fragments()), key=str),
            ]
        )
    return found
