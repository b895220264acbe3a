# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Samplers: every row once, in the shares and orders they name."""
import pennon.sampler as samplers
import pyarrow as pa
import pytest


def ids(batches):
    return [i for batch in batches for i in batch.column("id").to_pylist()]


def test_fragments(ds, table):
    assert ids(samplers.FullScanSampler()(ds, columns=["id"])) == list(range(1000))
    parts = [ids(samplers.ShardedFragmentSampler(rank, 3)(ds, columns=["id"])) for rank in range(3)]
    assert [part[0] for part in parts] == [0, 300, 600] and sorted(sum(parts, [])) == list(range(1000))
    assert ids(samplers.ShardedFragmentSampler(5, 9)(ds, columns=["id"])) == []
    mixed = ids(samplers.ShardedFragmentSampler(0, 1, randomize=True, seed=1)(ds, columns=["id"]))
    assert mixed != list(range(1000)) and sorted(mixed) == list(range(1000))
    assert mixed == ids(samplers.ShardedFragmentSampler(0, 1, randomize=True, seed=1)(ds, columns=["id"]))
    batch = next(samplers.FullScanSampler()(ds, batch_size=10, columns=["id"], filter="id > 5", with_row_id=True))
    assert batch.schema.names == ["id", "_rowid"] and batch.num_rows <= 10 and batch.column(0)[0].as_py() == 6


def test_batches(ds):
    whole = [samplers.ShardedBatchSampler(rank, 4)(ds, batch_size=30, columns=["id"]) for rank in range(4)]
    parts = [ids(part) for part in whole]
    assert parts[1][:31] == [*range(30, 60), 150] and sorted(sum(parts, [])) == list(range(1000))
    mixed = samplers.ShardedBatchSampler(1, 4, randomize=True, seed=3)
    got = ids(mixed(ds, batch_size=30, columns=["id"]))
    assert got != parts[1] and sorted(got) == parts[1]
    with pytest.warns(UserWarning, match="with_row_id"):
        next(mixed(ds, with_row_id=True))


def test_filtered_batches(ds):
    wanted = list(range(0, 1000, 3))
    parts = [ids(samplers.ShardedBatchSampler(rank, 4)(ds, batch_size=16, columns=["id"], filter="id % 3 = 0")) for rank in range(4)]
    assert parts[0] == wanted[::4] and parts[3] == wanted[3::4]
    sampler = samplers.ShardedBatchSampler(0, 1, randomize=True)
    first = ids(sampler(ds, batch_size=2, columns=["id"], filter="id % 3 = 0"))
    sampler.set_epoch(1)
    second = ids(sampler(ds, batch_size=2, columns=["id"], filter="id % 3 = 0"))
    assert sorted(first) == sorted(second) == wanted and first != second
    assert ids(sampler(ds, columns=["id"], filter="id < 0")) == []


def test_row_numbers():
    sampler = samplers.ShardedFixedBatchSampler(1, 4, batch_size=100, total_num_rows=1000)
    assert [(batch[0], len(batch)) for batch in sampler] == [(250, 100), (350, 100), (450, 50)] and len(sampler) == 3
    mixed = samplers.ShardedFixedBatchSampler(0, 1, True, 7, batch_size=10, total_num_rows=95)
    first = list(mixed)
    mixed.set_epoch(1)
    assert sorted(sum(first, [])) == list(range(95)) == sorted(sum(mixed, [])) and list(mixed) != first


@pytest.mark.parametrize("n", [0, 1, 50, 999])
@pytest.mark.parametrize("max_takes", [8, 2048])
def test_samples(ds, n, max_takes):
    rows = ids(samplers.maybe_sample(ds, n, "id", batch_size=40, max_takes=max_takes))
    assert len(rows) == len(set(rows)) == n


def test_samples_of_few(ds, table):
    assert ids(samplers.maybe_sample(ds.uri, 5000, ["id"])) == list(range(1000))
    batches = list(samplers.maybe_sample(ds, 30, ["id"], batch_size=8, filt="id >= 960"))
    assert [batch.num_rows for batch in batches] == [8, 8, 8, 6] and min(ids(batches)) >= 960 and len(set(ids(batches))) == 30
    assert ids(samplers.maybe_sample(ds, 30, ["id"], filt="id >= 990")) == list(range(990, 1000))
    picked = samplers.reservoir_sampling(iter(range(500)), 20)
    assert len(set(picked)) == 20 and set(picked) < set(range(500))
    assert isinstance(next(samplers.maybe_sample(ds, 3, ["id"])), pa.RecordBatch)
