# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Which process of how many this is: of a distributed training, and of the workers of its loader."""
from __future__ import annotations

import torch.distributed
import torch.utils.data


def get_dist_world_size() -> int:
    """Processes of the training, 1 where it is not distributed."""
    return int(torch.distributed.get_world_size()) if _distributed() else 1


def get_dist_rank() -> int:
    """Number of this process of the training."""
    return int(torch.distributed.get_rank()) if _distributed() else 0


def _distributed() -> bool:
    return bool(torch.distributed.is_available() and torch.distributed.is_initialized())


def get_mp_world_size() -> int:
    """Workers of the loader that this process is one of, 1 outside of a worker."""
    worker = torch.utils.data.get_worker_info()
    return 1 if worker is None else int(worker.num_workers)


def get_mp_rank() -> int:
    """Number of this worker."""
    worker = torch.utils.data.get_worker_info()
    return 0 if worker is None else int(worker.id)


def get_global_world_size() -> int:
    """Readers of the data in all processes."""
    return get_dist_world_size() * get_mp_world_size()


def get_global_rank() -> int:
    """Number of this reader."""
    return get_dist_rank() * get_mp_world_size() + get_mp_rank()
