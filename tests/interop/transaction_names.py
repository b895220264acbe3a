# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Operations by name, for both sides: those that official's API builds (transaction_ops.VERBS), and those made by hand."""

READ_VERSION = 2

OFFICIAL = [
    "Append", "Delete@0", "Delete@1", "DeleteAll@0", "Overwrite", "CreateIndex(a)", "CreateIndex(id)", "Rewrite@01", "Merge",
    "Project", "Restore", "Update@0", "Update@1", "UpdateConfig(k)", "UpdateConfig(l)", "UpdateConfig(-k)",
    "UpdateConfig(table)", "UpdateConfig(table=)", "UpdateConfig(schema)", "UpdateConfig(field)", "DataReplacement@0",
    "UpdateBases", "UpdateBases(y)",
]

_SHARD = "8792d0ec-b1ee-43e3-8745-fd1468c98ec8"

CRAFTED = {
    "ReserveFragments": {"type": "ReserveFragments", "num_fragments": 5},
    "UpdateMemWalState": {"type": "UpdateMemWalState", "merged_generations": [{"shard_id": _SHARD, "generation": 3}]},
}
