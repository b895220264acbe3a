# Licensed under the Apache License, Version 2.0; see LICENSE.
"""PyTorch reads datasets: tensors, workers that are forked and spawned, shares of many processes. In an environment with torch: make python-long."""
import os

import numpy as np
import pennon
import pennon.sampler as samplers
import pyarrow as pa
import pytest
import torch
from pennon.torch import preferred_device
from pennon.torch.data import LanceDataset, SafeLanceDataset, TensorDataset, get_safe_loader
from torch.utils.data import DataLoader

ROWS = 1000


@pytest.fixture
def ds(tmp_path):
    vectors = np.arange(ROWS * 4, dtype="float32")
    table = pa.table(
        {
            "id": pa.array(range(ROWS), pa.int64()),
            "v": pa.FixedSizeListArray.from_arrays(vectors, 4),
            "flag": [i % 2 == 0 for i in range(ROWS)],
            "u": pa.array(range(ROWS), pa.uint64()),
            "name": [f"n{i}" for i in range(ROWS)],
        }
    )
    return pennon.write_dataset(table, tmp_path / "t", max_rows_per_file=100)


def ids(batches):
    return [int(i) for batch in batches for i in (batch["id"] if isinstance(batch, dict) else batch)]


def test_tensors(ds):
    batches = list(LanceDataset(ds, 128, columns=["id", "v", "flag", "u"]))
    assert [len(batch["id"]) for batch in batches] == [128] * 7 + [104]
    first = batches[0]
    assert first["v"].shape == (128, 4) and first["v"].dtype == torch.float32 and first["v"][1].tolist() == [4, 5, 6, 7]
    assert first["flag"].dtype == torch.bool and first["u"].dtype == torch.int64
    first["id"][0] = 7  # a tensor of its own memory
    assert ds.to_table(columns=["id"])["id"][0].as_py() == 0
    assert ids(LanceDataset(ds.uri, 100, columns=["id"])) == list(range(ROWS))
    with pytest.raises(ValueError, match="name"):
        next(iter(LanceDataset(ds, 10)))
    assert next(iter(LanceDataset(ds, 10, to_tensor_fn=lambda batch, **kwargs: batch.num_rows))) == 10
    assert next(iter(LanceDataset(ds, 10, columns=["id"], to_tensor_fn=None))).schema == pa.schema([("id", pa.int64())])


def test_filters_samples_and_row_ids(ds):
    assert ids(LanceDataset(ds, 7, columns=["id"], filter="id < 20")) == list(range(20))
    sample = ids(LanceDataset(ds, 32, columns=["id"], samples=100))
    assert len(set(sample)) == 100 and sample != list(range(100))
    some = ids(LanceDataset(ds, 32, columns=["id"], samples=50, filter="id >= 900"))
    assert len(set(some)) == 50 and min(some) >= 900
    assert set(next(iter(LanceDataset(ds, 10, columns=["id"], with_row_id=True)))) == {"id", "_rowid"}
    assert LanceDataset(ds, 10, columns=["v", "id"]).schema.names == ["v", "id"]


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
@pytest.mark.parametrize("shares", [None, "fragment", "batch"])
def test_workers_share_the_rows(ds, method, shares):
    list(LanceDataset(ds, 64, columns=["id"]))  # the pool of this process runs when the workers are made
    data = LanceDataset(ds, 50, columns=["id"], shard_granularity=shares)
    loader = DataLoader(data, batch_size=None, num_workers=2, multiprocessing_context=method)
    for _ in range(2):
        assert sorted(ids(loader)) == list(range(ROWS))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_safe_dataset(ds, method):
    data = SafeLanceDataset(ds.uri)
    assert len(data) == ROWS and data[5]["name"] == "n5"
    loader = get_safe_loader(data, batch_size=64, num_workers=2, shuffle=True, multiprocessing_context=method)
    seen = [int(i) for batch in loader for i in batch["id"]]
    assert sorted(seen) == list(range(ROWS)) and seen != sorted(seen)
    assert sorted(int(i) for batch in loader for i in batch["id"]) == list(range(ROWS))
    assert len(list(get_safe_loader(data, batch_size=500, num_workers=0))) == 2


def test_places(ds):
    for kind in ("fragment", "batch"):
        parts = [ids(LanceDataset(ds, 30, columns=["id"], rank=i, world_size=3, shard_granularity=kind)) for i in range(3)]
        assert sorted(sum(parts, [])) == list(range(ROWS)) and all(parts)
        parts = [ids(LanceDataset(ds, 30, columns=["id"], filter="id % 3 = 0", rank=i, world_size=3, shard_granularity=kind)) for i in range(3)]
        assert sorted(sum(parts, [])) == list(range(0, ROWS, 3))
    with pytest.raises(ValueError, match="shard_granularity"):
        LanceDataset(ds, 30, shard_granularity="row")


def test_distributed(ds, tmp_path):
    """Two processes of a training, each with two workers."""
    done = torch.multiprocessing.get_context("spawn").SimpleQueue()
    torch.multiprocessing.spawn(trainer, (ds.uri, str(tmp_path / "store"), done), nprocs=2)
    assert sorted(done.get() + done.get()) == list(range(ROWS))


def trainer(rank, uri, store, done):
    torch.distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    loader = DataLoader(LanceDataset(uri, 50, columns=["id"]), batch_size=None, num_workers=2, multiprocessing_context="fork")
    mine = ids(loader)
    assert len(mine) == (600, 400)[rank]  # fragments of 100 rows: three for each of the first two workers
    assert set(ids(LanceDataset(uri, 50, columns=["id"], sampler=samplers.ShardedFragmentSampler.from_torch()))) & set(mine)
    done.put(mine)
    torch.distributed.destroy_process_group()


def test_tensor_dataset():
    data = TensorDataset(np.arange(20).reshape(10, 2), 4)
    assert len(data) == 3 and [len(batch) for batch in data] == [4, 4, 2]
    assert repr(data) == "LanceTensorDataset"
    assert preferred_device("cpu") == torch.device("cpu") and preferred_device() is not None


def test_a_step_of_a_training(ds):
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
    before = [parameter.clone() for parameter in model.parameters()]
    loader = DataLoader(LanceDataset(ds, 100, columns=["v", "id"]), batch_size=None, num_workers=2, multiprocessing_context="fork")
    for batch in loader:
        loss = torch.nn.functional.mse_loss(model(batch["v"]).squeeze(1), batch["id"].float())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert any(not torch.equal(a, b) for a, b in zip(before, model.parameters())) and os.getpid()
