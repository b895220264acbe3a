/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Inside of cleanup: names of files, the set of what versions name, the list of files. */
#ifndef TABLE_CLEANUP_PRIVATE_H
#define TABLE_CLEANUP_PRIVATE_H

#include "table/cleanup.h"
#include "table/table_private.h"

/* ---- branches (cleanup.c) ---- */

/* Does the way to branch `e` begin with the whole way to branch `mine` (NULL = main)? */
bool cleanup_descends(const struct ref_entry *e, const struct ref_entry *mine);

/* ---- names (cleanup_files.c) ---- */

/* What a path below the table's folder is. */
struct cleanup_name {
    enum cleanup_kind kind;
    struct bytes
        key; /* what a manifest's reference to it gives too; points into the path. Empty for manifests, temporary and unknown files */
    uint64_t version; /* manifests */
    bool v2;
};
void cleanup_name_parse(const char *path, struct cleanup_name *out);

/* ---- the set of named files (cleanup_files.c) ---- */

struct cleanup_ref {
    struct bytes key;  /* in the set's arena; empty = the slot is free */
    const char *kept;  /* why it stays: who names it; NULL = only old versions do */
    uint32_t last_old; /* 1 + place of the last old version that names it; 0 = none does */
};
struct cleanup_set {
    struct mem *mem;
    struct arena arena;
    struct cleanup_ref *slots;
    size_t n, n_slots; /* a power of two */
};
void cleanup_set_init(struct cleanup_set *s, struct mem *m);
void cleanup_set_free(struct cleanup_set *s);
/* The entry of the key, made when it is not there. The pointer is valid until the next put. */
pennon_status cleanup_set_put(struct cleanup_set *s, struct bytes key, struct cleanup_ref **out, pennon_error *err) CHECKED;
const struct cleanup_ref *cleanup_set_find(const struct cleanup_set *s, struct bytes key); /* NULL = not there */

/* Who names files. */
struct cleanup_namer {
    const char *kept; /* the version stays, as this says; NULL = it is old */
    uint32_t old;     /* 1 + place among the versions */
    bool other_line;  /* of another branch: only what it names in a base counts */
};
/* Put everything that the version names into the set: data, deletion, transaction, index and row id files. CORRUPT: an index section that cannot be read. */
pennon_status cleanup_add_version(const struct call *c, struct snapshot *s, const struct cleanup_namer *namer,
                                  struct cleanup_set *set, pennon_error *err) CHECKED;

/* ---- the files there are (cleanup_files.c) ---- */

struct cleanup_file {
    const char *path; /* below the table's folder; in the list's arena */
    uint64_t bytes;
    int64_t modified_ns; /* by the store; 0 = unknown */
    struct cleanup_name name;
    const char *reason;
    uint32_t turn; /* with which version it goes: 1 + its place; 0 = with none */
    bool remove, gone;
};
struct cleanup_files {
    struct mem *mem;
    struct arena arena;
    struct cleanup_file *items;
    size_t n, cap;
};
void cleanup_files_init(struct cleanup_files *f, struct mem *m);
void cleanup_files_free(struct cleanup_files *f);
/* All files of the five folders of the table, in the order of paths. */
pennon_status cleanup_list_files(const struct call *c, const struct table_location *at, struct cleanup_files *out,
                                 pennon_error *err) CHECKED;

#endif
