# Licensed under the Apache License, Version 2.0; see LICENSE.
"""What official says to queries of expressions.py. Runs inside oracle_server.py."""
import os

import lance
import pyarrow as pa
from lance.dataset import ColumnOrdering

import official_ops


def make(uri, ipc, storage, rows_per_file, deletes, stable):
    """The table in fragments, with rows deleted by filters."""
    _, batches = official_ops._read(ipc)
    dataset = lance.write_dataset(pa.Table.from_batches(batches), uri, max_rows_per_file=rows_per_file, data_storage_version=storage,
                                  enable_stable_row_ids=stable)
    for where in deletes:
        dataset.delete(where)
    return dataset.count_rows()


def _rows(table, out):
    official_ops._save(table, out)
    return {"rows": table.num_rows}


def _answer(dataset, case, out):
    what = case["what"]
    if what == "filter":
        ids = dataset.scanner(columns=[], with_row_id=True, filter=case["sql"]).to_table()["_rowid"].to_pylist()
        return {"ids": ids}
    if what == "project":
        return _rows(dataset.scanner(columns={"x": case["sql"]}, filter=case.get("filter")).to_table(), out)
    if what == "order":
        orders = [ColumnOrdering(name, not down, first) for name, down, first in case["keys"]]
        names = [name for name, _, _ in case["keys"]]
        return _rows(dataset.scanner(columns=names, filter=case.get("filter"), order_by=orders, limit=case.get("limit"),
                                     offset=case.get("offset")).to_table(), out)
    batches = dataset.sql(case["query"]).build().to_batch_records()
    return _rows(pa.Table.from_batches(batches), out)


def ask(uri, cases, out):
    """An answer for each case: {"ids"}, {"rows"} with a file out/N.arrow, or {"error"}."""
    dataset, answers = lance.dataset(uri), []
    os.makedirs(out, exist_ok=True)
    for i, case in enumerate(cases):
        try:
            answers.append(_answer(dataset, case, os.path.join(out, f"{i}.arrow")))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # panics too
            answers.append({"error": f"{type(error).__name__}: {error}"})
    return answers
