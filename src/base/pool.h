/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Life of the task pool; the working interface is in base/call.h. */
#ifndef BASE_POOL_H
#define BASE_POOL_H

#include "base/call.h"

/* No thread starts here. `threads` >= 1. */
struct pool *pool_new(struct mem *m, uint32_t threads, pennon_error *err) CHECKED;
/* Runs what is queued, then joins the threads. Must not be called from a task. */
void pool_free(struct pool *p);

#endif
