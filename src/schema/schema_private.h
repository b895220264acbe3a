/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Inside of the schema folder: making fields, and finishing a schema whose tree is complete. */
#ifndef SCHEMA_SCHEMA_PRIVATE_H
#define SCHEMA_SCHEMA_PRIVATE_H

#include "schema/schema.h"

/* Depth that a field may have: the table itself is depth 1 of the Arrow form. */
#define FIELD_MAX_DEPTH (ARROW_MAX_DEPTH - 1)

#define KEY_EXTENSION_NAME "ARROW:extension:name"
#define KEY_EXTENSION_METADATA "ARROW:extension:metadata"
#define KEY_BLOB "lance-encoding:blob"
#define KEY_PACKED "lance-encoding:packed"
#define KEY_PACKED_OLD "packed"
#define KEY_BLOB_INLINE "lance-encoding:blob-inline-size-threshold"
#define KEY_BLOB_DEDICATED "lance-encoding:blob-dedicated-size-threshold"
#define KEY_BLOB_PACK "lance-encoding:blob-pack-file-size-threshold"
#define KEY_FIELD_ID "lance:field_id"
#define KEY_PRIMARY "lance-schema:unenforced-primary-key"
#define KEY_PRIMARY_POSITION "lance-schema:unenforced-primary-key:position"
#define KEY_CLUSTERING_POSITION "lance-schema:unenforced-clustering-key:position"
#define EXTENSION_ARROW_JSON "arrow.json"
#define EXTENSION_LANCE_JSON "lance.json"
#define EXTENSION_BLOB_V2 "lance.blob.v2"
#define EXTENSION_BFLOAT16 "lance.bfloat16"

/* An empty schema with one reference. */
struct schema *schema_new(struct mem *m, pennon_error *err) CHECKED;
/* A zeroed field in the schema's arena, with room for n children that are still NULL. */
struct field *field_new(struct schema *s, size_t n_children, pennon_error *err) CHECKED;
/* A copy of everything but children, parent and Arrow form; `n_children` empty slots. */
struct field *field_copy_flat(struct schema *s, const struct field *from, size_t n_children, pennon_error *err) CHECKED;
struct field *field_copy(struct schema *s, const struct field *from, pennon_error *err) CHECKED; /* with all children */
/* A copy of the pairs in the arena, sorted by key; of equal keys the last one stays. */
pennon_status pairs_copy(struct arena *a, const struct field_pair *from, size_t n, const struct field_pair **out, size_t *n_out,
                         pennon_error *err) CHECKED;
struct bytes pairs_get(const struct field_pair *pairs, size_t n, const char *key); /* data NULL = absent */
/* The metadata block of the Arrow C interface, NULL for no pairs. Pairs whose key is in `without` (NULL-terminated) are left out;
 * `without` may be NULL. */
pennon_status pairs_encode(struct arena *a, const struct field_pair *pairs, size_t n, const char *const *without, const char **out,
                           pennon_error *err) CHECKED;

/* Kinds, types and Arrow forms from logical types and metadata, for the whole tree; parents; the indices of ids and names. CORRUPT names the
 * field. Last step of every function that makes a schema. */
pennon_status schema_finish(struct schema *s, pennon_error *err) CHECKED;
/* Kind, Arrow form and type of one field whose children have theirs. `depth` is the field's, for the bound on nested lists. */
pennon_status field_build(struct schema *s, struct field *f, unsigned depth, pennon_error *err) CHECKED;

/* Append "a.b.c" of the field, for messages. */
pennon_status field_path(const struct field *f, struct buf *out, pennon_error *err) CHECKED;
/* One part of a path into `out` (NUL-terminated); *at moves behind it and its dot. INVALID_ARGUMENT for open back-ticks and empty parts. */
pennon_status schema_path_part(const char *path, size_t *at, struct buf *out, pennon_error *err) CHECKED;
/* INVALID_ARGUMENT: a name that no top-level column may have. */
pennon_status schema_check_top_name(const char *name, pennon_error *err) CHECKED;
/* Bytewise order. */
void sort_names(const char **names, size_t n);

static inline bool bytes_are(struct bytes b, const char *text) { return bytes_equal(b, bytes_str(text)); }

#endif
