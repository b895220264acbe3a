/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* What the writers of tags, branches and clones share. Private to src/table. */
#ifndef TABLE_REFS_PRIVATE_H
#define TABLE_REFS_PRIVATE_H

#include <jansson.h>
#include <stdlib.h>

#include "table/refs.h"
#include "table/table_private.h"

#define REF_NAME_MAX 200u /* bytes; escaped and with ".json" it still fits the name of a file, if it is ASCII */

/* Content of a tag or branch file. */
struct ref_file {
    bool tag;
    const char *branch; /* a tag's; the parent of a branch; NULL = main */
    uint64_t version;   /* a tag's; the parent's */
    uint64_t manifest_size;
    const char *created, *updated; /* tags: RFC 3339, NULL = not known */
    uint64_t created_s;            /* branches: seconds since 1970 */
    const struct branch_step *path;
    size_t n_path; /* branches: at least 1 */
    const struct field_pair *metadata;
    size_t n_metadata;
    json_t *former; /* the file before the change, whose unknown members stay; NULL = none */
};
pennon_status ref_file_text(const struct ref_file *f, struct buf *out, pennon_error *err) CHECKED;
/* Put it where none is. ALREADY_EXISTS (RefConflict) when another's is there. */
pennon_status ref_file_put_new(const struct call *c, const struct table_location *at, const struct ref_file *f, const char *name,
                               const char *path, pennon_error *err) CHECKED;
/* May a new tag or branch have the name? INVALID_ARGUMENT (InvalidRef). */
pennon_status ref_name_check(const char *name, bool tag, pennon_error *err) CHECKED;
/* Fills the error that it is there: ALREADY_EXISTS, RefConflict. */
pennon_status ref_exists_error(const struct table_location *at, bool tag, const char *name, pennon_error *err);

/* A version that is there. */
struct ref_target {
    char *branch; /* in c->mem, the caller's; NULL = main */
    uint64_t version;
    uint64_t manifest_size;
};
pennon_status ref_target_find(const struct call *c, const struct table_location *at, const struct version_ref *ref,
                              struct ref_target *out, pennon_error *err) CHECKED;

uint32_t ref_put_flags(const struct call *c, uint32_t flags);
/* A call that neither the token nor the deadline stops; shares everything with `c`, which outlives it. */
struct call unstoppable_call(const struct call *c);

/* ---- copying the files of a version (clone_copy.c) ---- */

struct copy_item {
    pennon_store *from; /* retained */
    char *from_path, *to_path;
    uint64_t size; /* as far as it is known before copying */
    bool shared;   /* every copy of the source has this name in the target: another clone may have made it, too */
    bool touched;  /* an object may be at to_path now */
};
struct copy_list {
    const struct call *c;
    pennon_store *to; /* borrowed */
    struct copy_item *items;
    size_t n, cap;
    uint64_t total; /* bytes */
};
/* Both paths are taken, also on failure; the store is retained. */
pennon_status copy_list_add(struct copy_list *l, pennon_store *from, char *from_path, char *to_path, uint64_t size, bool shared,
                            pennon_error *err) CHECKED;
/* All of them, on up to c->threads. Progress counts bytes. */
pennon_status copy_list_run(struct copy_list *l, pennon_error *err) CHECKED;
/* Remove what was copied, best effort; what is shared stays unless `all`. */
void copy_list_undo(struct copy_list *l, bool all);
void copy_list_free(struct copy_list *l);

#endif
