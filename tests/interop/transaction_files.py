# Licensed under the Apache License, Version 2.0; see LICENSE.
"""The workshop of transaction_ops.py from the side of the tests: operations as JSON of ours, their commits, outcomes."""
import json
import shutil

import pennon
import transaction_names

READ_VERSION = transaction_names.READ_VERSION


class Workshop:
    def __init__(self, folder, official):
        self.folder, self.official, self.n = folder, official, 0
        official.call("transaction_ops.make_base", folder=str(folder))
        self.versions = {name: official.call("transaction_ops.make", folder=str(folder), name=name)
                         for name in transaction_names.OFFICIAL}
        self.files = {}
        for name, version in self.versions.items():
            made = json.loads(pennon.run("transaction", folder / f"make-{name}", "--version", version))
            self.save(name, made["operation"])
        for name, operation in transaction_names.CRAFTED.items():
            self.save(name, operation)

    def save(self, name, operation):
        """The transaction without a uuid: each commit is one of its own. Reserved ids of a rewrite were reserved elsewhere."""
        for group in operation.get("groups", []):
            for fragment in group["new_fragments"]:
                fragment["id"] = 0
        path = self.folder / f"{name}.json"
        path.write_text(json.dumps({"read_version": READ_VERSION, "operation": operation}))
        self.files[name] = path

    def fresh(self):
        """A new copy of the base that has the files of all operations."""
        self.n += 1
        uri = self.folder / f"trial-{self.n}"
        shutil.copytree(self.folder / "base", uri)
        shutil.copytree(self.folder / "files", uri, dirs_exist_ok=True)
        return uri

    def drop(self, uri):
        shutil.rmtree(uri)

    def ours(self, uri, name):
        return outcome(uri, self.files[name])

    def theirs(self, uri, name):
        return self.official.call("transaction_ops.commit", folder=str(self.folder), uri=str(uri), name=name,
                                  version=self.versions[name])

    def state(self, uri):
        return self.official.call("transaction_ops.state", uri=str(uri))


def outcome(uri, *args):
    """What pennon commit says: ok, RT (read again, then retry), IN (incompatible), CC (another conflict), INVALID, or the error itself."""
    try:
        pennon.run("commit", uri, *args, "--sync", "none")
        return "ok"
    except pennon.Failed as error:
        if error.crashed:
            raise
        if error.code == 5:
            return "IN" if "is incompatible with" in error.stderr else "RT" if "Please retry" in error.stderr else "CC"
        return "INVALID" if error.code == 2 else str(error)
