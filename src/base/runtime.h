/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Inside of the runtime: what layers above base keep in it. */
#ifndef BASE_RUNTIME_H
#define BASE_RUNTIME_H

#include "base/call.h"

/* Shared objects of higher layers, one a slot, made on first use and dropped with the runtime. */
enum { RUNTIME_SLOT_LOCAL_STORE = 0, RUNTIME_SLOT_MEMORY_STORE = 1, RUNTIME_SLOT_CACHE = 2, RUNTIME_SLOTS = 4 };

typedef pennon_status (*slot_make_fn)(pennon_runtime *rt, void **out, pennon_error *err);
/* The object of the slot; `make` runs at most once at a time, under a lock, and must not ask for a slot itself. */
pennon_status runtime_slot(pennon_runtime *rt, unsigned slot, slot_make_fn make, void (*drop)(void *), void **out,
                           pennon_error *err) CHECKED;

uint32_t runtime_max_open_files(const pennon_runtime *rt);
struct mem *runtime_mem(pennon_runtime *rt);      /* budget of the calls */
struct mem *runtime_base_mem(pennon_runtime *rt); /* unlimited */
struct pool *runtime_pool(pennon_runtime *rt);

#endif
