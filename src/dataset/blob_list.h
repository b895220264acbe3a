/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* A list of blobs: where the bytes of each lie. Private to src/dataset. */
#ifndef DATASET_BLOB_LIST_H
#define DATASET_BLOB_LIST_H

#include "dataset/dataset.h"
#include "pennon/blob.h"

#define NO_OBJECT SIZE_MAX

/* A file that holds bytes of blobs. Store and path of an external one, and the size, are found on first use. */
struct blob_object {
    pennon_store *store; /* retained; NULL = not located yet */
    char *path;          /* in the list's memory */
    uint32_t base;       /* external: id and URI as the descriptor has them */
    const char *uri;     /* external, in the arena; else NULL */
    uint64_t size;
    bool measured;
    bool in_table; /* a file of the table, which has to be there */
};

struct blob_entry {
    uint64_t address;
    uint64_t offset, size; /* in the object; to_end: the size is the object's rest */
    size_t object;         /* NO_OBJECT: no bytes */
    int32_t kind;
    bool is_null, to_end;
    const char *uri;
};

struct pennon_blobs {
    pennon_runtime *runtime; /* retained */
    struct mem *mem;         /* of the runtime, retained */
    struct snapshot *s;      /* retained: the rule of external paths, and the place of the table */
    struct arena arena;
    char *column; /* in the arena */
    struct blob_entry *entries;
    size_t n;
    pthread_mutex_t lock; /* guards what is found on first use */
    struct blob_object *objects;
    size_t n_objects;
    _Atomic(uint32_t) refs;
};

/* Take the blobs of a column; the memory is that of the call's runtime. */
pennon_status blob_list_take(const struct call *c, struct snapshot *s, struct file_cache *fc, const char *column, int32_t selector,
                             size_t n, const uint64_t *rows, pennon_blobs **out, pennon_error *err) CHECKED;
/* The same of descriptors that were read: `column` of the blob field `f`, a row each with its address and place (exec.h). `name` is for messages. */
pennon_status blob_list_of(const struct call *c, struct snapshot *s, struct file_cache *fc, const struct field *f, const char *name,
                           const struct ArrowArray *column, const uint64_t *addresses, const uint64_t *places, size_t n,
                           pennon_blobs **out, pennon_error *err) CHECKED;
/* Make sure that the object is located and measured. Thread safe. */
pennon_status blob_object_find(const struct call *c, pennon_blobs *b, size_t object, pennon_error *err) CHECKED;
/* Where blob `i`, which has an object, lies in it: the object is found, and has these bytes. */
pennon_status blob_entry_place(const struct call *c, pennon_blobs *b, size_t i, uint64_t *offset, uint64_t *size,
                               pennon_error *err) CHECKED;
/* Bytes of an object that is found, which has them. */
struct blob_part {
    size_t object;
    struct store_part read;
};
/* Read them, which are sorted here, side by side. */
pennon_status blob_parts_read(const struct call *c, const pennon_blobs *b, struct blob_part *parts, size_t n,
                              pennon_error *err) CHECKED;

#endif
