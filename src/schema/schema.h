/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* What src/schema offers: Lance's schema. A tree of fields with ids and logical types, to and from Arrow and protobuf, projections,
 * and the walk from fields to file columns.
 *
 * A schema is immutable after it is made, reference counted and thread safe. Everything in it lives in its arena.
 * Source: spec file-format 4, 14, table-format 7, commits 6.3, 6.4. */
#ifndef SCHEMA_SCHEMA_H
#define SCHEMA_SCHEMA_H

#include "arrow/arrow.h"
#include "wire/messages.h"

#define FIELD_NO_ID (-1)

/* How a field is laid out in files. */
enum field_kind {
    FIELD_LEAF,          /* one column: primitive, text, binary, dictionary, null, FSL of primitive, json */
    FIELD_STRUCT,        /* children are fields */
    FIELD_LIST,          /* list or large list: one child */
    FIELD_MAP,           /* one child: the entries struct */
    FIELD_FSL_STRUCT,    /* fixed size list of struct (>= 2.2): one child */
    FIELD_PACKED_STRUCT, /* struct in one column; children carry no column */
    FIELD_BLOB_V1,       /* large_binary with lance-encoding:blob; one column of descriptors */
    FIELD_BLOB_V2        /* extension lance.blob.v2; one column of descriptors; children carry no column */
};

struct field_pair {
    struct bytes key;
    struct bytes value;
};

struct field {
    const char *name;         /* NUL-terminated UTF-8 without embedded NUL */
    int32_t id;               /* FIELD_NO_ID = not assigned */
    int32_t parent_id;        /* -1 at the top */
    const char *logical_type; /* as in files: "int32", "list.struct", … */
    enum field_kind kind;
    bool nullable;
    struct arrow_type type; /* Arrow type of the field itself; texts live in the schema's arena */
    /* Leaf with nested storage: FSL of primitive has one item type (possibly FSL again), dictionary a value type. */
    struct ArrowSchema
        arrow; /* complete Arrow form of the field, children included: what a scan gives (blobs as bytes: large_binary, also
                                 where blob v2 is a struct in the manifest; json as the file holds it: large_binary with lance.json). Lives in
                                 the schema's arena: never move or release it, copy it */
    const struct field_pair *metadata; /* sorted by key, unique */
    size_t n_metadata;
    bool primary_key, clustering_key;
    uint32_t primary_key_position, clustering_key_position;
    uint32_t wire_encoding;                      /* Field.encoding as read or chosen */
    const struct dictionary_message *dictionary; /* 0.1: place of the values */
    struct bytes unknown;                        /* unknown protobuf fields, kept */
    struct field **children;
    size_t n_children;
    struct field *parent; /* NULL at the top */
};

/* Bytes of the file of version 0.1 that a schema came from: the values of its dictionary fields lie in them, at field->dictionary. Immutable once a
 * schema has it; reference counted and thread safe. */
struct origin_part {
    uint64_t at; /* in the file */
    struct block *block;
};
struct schema_origin {
    struct mem *mem;
    uint64_t file_size;
    struct origin_part *parts;
    size_t n_parts, cap_parts;
    _Atomic(uint32_t) refs;
};
struct schema_origin *schema_origin_new(struct mem *m, uint64_t file_size, pennon_error *err) CHECKED;
/* Takes `block`, also on failure. */
pennon_status schema_origin_add(struct schema_origin *o, uint64_t at, struct block *block, pennon_error *err) CHECKED;
void schema_origin_release(struct schema_origin *o); /* NULL is allowed */

struct schema {
    struct field **fields; /* top level, in table order */
    size_t n_fields;
    const struct field_pair *metadata; /* schema metadata, sorted by key */
    size_t n_metadata;
    const struct field **by_id;   /* every field at any depth, ascending ids */
    const struct field **by_name; /* top-level fields, ascending names */
    size_t n_all;                 /* elements of by_id */
    struct schema_origin *origin; /* 0.1: retained; projections share it. NULL otherwise */
    struct arena arena;
    struct mem *mem;
    _Atomic(uint32_t) refs;
};

struct schema *schema_retain(struct schema *s);
/* Before the schema is shared: takes `o`. */
void schema_set_origin(struct schema *s, struct schema_origin *o);
bool schema_has_dictionaries(const struct schema *s);
void schema_release(struct schema *s); /* NULL is allowed */

/* From the flat pre-order list of a manifest or file. CORRUPT: unknown parent, double ids, bad logical type, names with NUL or not
 * UTF-8, depth. `metadata` may be NULL. With `skip_unnumbered` fields of id -1 are left out (blob v2 descriptors in file schemas). */
pennon_status schema_from_messages(struct mem *m, const struct field_message *fields, size_t n, const struct map_entry *metadata,
                                   size_t n_metadata, bool skip_unnumbered, struct schema **out, pennon_error *err) CHECKED;
/* The reverse, in the arena: pre-order, ids and parents as they are. */
pennon_status schema_to_messages(const struct schema *s, struct arena *a, struct field_message **out, size_t *n,
                                 pennon_error *err) CHECKED;
/* The same for the schema that stands in a data file: a blob v2 column as the descriptors that the file holds. */
pennon_status schema_to_file_messages(const struct schema *s, struct arena *a, struct field_message **out, size_t *n,
                                      pennon_error *err) CHECKED;
pennon_status schema_metadata_to_messages(const struct schema *s, struct arena *a, struct map_entry **out, size_t *n,
                                          pennon_error *err) CHECKED;

/* From an Arrow schema (a validated struct): types checked against what the format can hold (NOT_SUPPORTED names type and field; views
 * become plain types), reserved names, dots, duplicates refused. Ids: `lance:field_id` metadata (removed) or FIELD_NO_ID. arrow.json
 * becomes json, lance.blob.v2 a blob. `version` is 2 << 16 | minor: 2.0 … 2.2 differ in what is allowed. */
#define STORAGE_VERSION(major, minor) ((uint32_t)(major) << 16 | (uint32_t)(minor))
#define STORAGE_LEGACY STORAGE_VERSION(0, 1)
#define STORAGE_2_0 STORAGE_VERSION(2, 0)
#define STORAGE_2_1 STORAGE_VERSION(2, 1)
#define STORAGE_2_2 STORAGE_VERSION(2, 2)
#define STORAGE_2_3 STORAGE_VERSION(2, 3)
pennon_status schema_from_arrow(struct mem *m, const struct ArrowSchema *arrow, uint32_t version, struct schema **out,
                                pennon_error *err) CHECKED;
/* A copy in which every field without an id has one: pre-order from max(`next`, highest id in it + 1). */
pennon_status schema_assign_ids(struct mem *m, const struct schema *s, int32_t next, struct schema **out,
                                pennon_error *err) CHECKED;
int32_t schema_max_id(const struct schema *s); /* -1 when empty */

/* How columns that differ between disk and result are shown. */
enum blob_handling {
    BLOB_AS_BYTES,
    BLOB_AS_DESCRIPTOR,
    BLOB_AS_INPUT, /* as data is written: v1 large_binary, v2 struct<data, uri> or struct<data, uri, position, size> */
    BLOB_AS_PLACE  /* as pages are made: v1 fixed_size_binary(16), two words in host order (position, size), v2 descriptors */
};
enum schema_view {
    SCHEMA_VIEW_FILE = 0, /* json as large_binary JSONB, blobs by blob_handling */
    SCHEMA_VIEW_TABLE = 1 /* json as arrow.json text */
};
/* Arrow schema (a struct, with schema metadata) of what a scan gives. */
pennon_status schema_to_arrow(const struct schema *s, enum schema_view view, enum blob_handling blobs, struct mem *m,
                              struct ArrowSchema *out, pennon_error *err) CHECKED;
pennon_status field_to_arrow(const struct field *f, enum schema_view view, enum blob_handling blobs, struct mem *m,
                             struct ArrowSchema *out, pennon_error *err) CHECKED;

/* Where the values of a blob v2 column go by their bytes: over `dedicated` a file of its own, over `inline_max` a pack file, else the data file. */
struct blob_thresholds {
    uint64_t inline_max; /* 64 KiB */
    uint64_t dedicated;  /* 4 MiB; > 0 */
    uint64_t pack;       /* bytes of a pack file, 1 GiB; > 0 */
};
/* Out of the field's metadata. INVALID_ARGUMENT names the key. */
pennon_status field_blob_thresholds(const struct field *f, struct blob_thresholds *out, pennon_error *err) CHECKED;
bool field_has_blob(const struct field *f); /* v1 or v2, the field or one below it */

struct bytes field_metadata_get(const struct field *f, const char *key); /* data NULL = absent */
const struct field *schema_find_id(const struct schema *s, int32_t id);  /* any depth; NULL = none */
/* Place of an id in s->by_id; s->n_all for one that no field has. */
size_t schema_place_of_id(const struct schema *s, int32_t id);
const struct field *schema_find_name(const struct schema *s, const char *name); /* top level, exact */
/* A dotted path with back-ticks around parts that hold dots: `a.b`, `` `a.b`.c ``. List items are not entered. NOT_FOUND suggests the
 * nearest name. */
pennon_status schema_find_path(const struct schema *s, const char *path, const struct field **out, pennon_error *err) CHECKED;
/* Nearest of n names by edit distance, or NULL when none is near. For messages. */
const char *nearest_name(const char *name, const char *const *names, size_t n);

/* Keep the fields whose ids are listed, with their ancestors; a listed container keeps all below it. Order as in `s`. */
pennon_status schema_project_ids(struct mem *m, const struct schema *s, const int32_t *ids, size_t n, struct schema **out,
                                 pennon_error *err) CHECKED;

/* Append rules of commits.md 6.3: may data of schema `data` go into a table of schema `table`? INVALID_ARGUMENT (kind SchemaMismatch)
 * names the first field that does not fit. On success `out` has data's fields, in data's order, with the table's ids, types,
 * metadata and nullability; a blob v2 column has the parts that the data has. */
pennon_status schema_match_append(struct mem *m, const struct schema *table, const struct schema *data, struct schema **out,
                                  pennon_error *err) CHECKED;
/* The same where the data is some columns of the table, or parts of them: what it lacks does not count. */
pennon_status schema_match_part(struct mem *m, const struct schema *table, const struct schema *data, struct schema **out,
                                pennon_error *err) CHECKED;

/* ---- changes (schema_evolve.c) ---- */

/* As schema_find_path, which enters lists and maps too; *out is NULL when there is no such field. */
pennon_status schema_find_inside(const struct schema *s, const char *path, const struct field **out, pennon_error *err) CHECKED;
/* `table` with what `added` has and it lacks: columns at its end, parts at the end of their structs, in structs within lists too. Metadata of both;
 * that of `added` wins. New ids from max(`next`, highest id + 1), whatever ids `added` has. Columns that both have are the table's; the caller checked
 * that their types allow it. */
pennon_status schema_merge(struct mem *m, const struct schema *table, const struct schema *added, int32_t next, struct schema **out,
                           pennon_error *err) CHECKED;
/* `s` without the fields, and without the structs and lists that have nothing left. Up to version 2.1 parts of a list are not taken out: the top-level
 * column goes. NOT_SUPPORTED: parts of a packed struct, a map or a blob. */
pennon_status schema_exclude(struct mem *m, const struct schema *s, const struct field *const *gone, size_t n, uint32_t version,
                             struct schema **out, pennon_error *err) CHECKED;
/* The fields of `s` alone, with those above and below them; top-level ones in the order in which they or their parts are first listed. INVALID_ARGUMENT: a
 * field that is listed twice, or whose parent is. NOT_SUPPORTED as for schema_exclude, and parts of a list up to version 2.1. */
pennon_status schema_select(struct mem *m, const struct schema *s, const struct field *const *kept, size_t n, uint32_t version,
                            struct schema **out, pennon_error *err) CHECKED;
struct field_alteration {
    const struct field *field; /* of the schema that is altered */
    const char *rename;        /* NULL = keeps its name */
    bool sets_nullable, nullable;
    const struct field
        *type;  /* NULL = keeps its type; else a field of a schema from Arrow, whose name and nullability do not count */
    int32_t id; /* out: of the altered field */
};
/* New ids in the order of the list, from `next`. INVALID_ARGUMENT: a field that is altered twice or below one that is cast, names that repeat or that
 * no column may have. */
pennon_status schema_alter(struct mem *m, const struct schema *s, struct field_alteration *list, size_t n, int32_t next,
                           struct schema **out, pennon_error *err) CHECKED;
/* Path of a field with back-ticks where needed, NUL-terminated, the NUL not counted. */
pennon_status schema_field_path(const struct field *f, struct buf *out, pennon_error *err) CHECKED;

/* Validity of data against nullable=false, recursively, on the raw arrays (as official does): a null under a null parent counts. The
 * batch's columns are parallel to s->fields, without list views (array_copy_range with ARRAY_PLAIN_VIEWS); json may be text still.
 * INVALID_ARGUMENT names field and row. */
pennon_status schema_check_nulls(const struct schema *s, const struct ArrowArray *batch, pennon_error *err) CHECKED;

/* Pre-order walk of the columns that the fields own in a file of `version` (file-format 4.3): fn(ctx, field, column). In 2.0 every
 * field has one; from 2.1 leaves, packed structs, blobs, empty structs. */
typedef pennon_status (*column_fn)(void *ctx, const struct field *field, uint32_t column, pennon_error *err);
pennon_status schema_walk_columns(const struct schema *s, uint32_t version, column_fn fn, void *ctx, pennon_error *err) CHECKED;
bool field_owns_column(const struct field *f, uint32_t version);

#endif
