/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* What src/table offers: manifests, the immutable snapshot of one version, fragments, deletion vectors, row ids, finding versions, and the
 * commit of a transaction.
 *
 * A snapshot is reference counted and thread safe; it keeps the manifest's bytes, and everything decoded points into them.
 * Source: spec table-format, commits. */
#ifndef TABLE_TABLE_H
#define TABLE_TABLE_H

#include "schema/schema.h"
#include "store/store.h"

/* ---- where a table lives ---- */

struct table_location {
    pennon_store *store; /* retained */
    char *path;          /* of the dataset directory (a branch: below tree/) in the store, no trailing slash */
    char *uri;           /* absolute, for messages and base paths */
    char *branch;        /* NULL = main */
};
/* Root of the table that the branch belongs to. */
pennon_status table_locate(const struct call *c, const char *uri, struct table_location *out, pennon_error *err) CHECKED;
void table_location_free(struct mem *m, struct table_location *l);
/* Location of a branch (NULL or "main" = the main line) of the table that `at` belongs to. */
pennon_status branch_location(struct mem *m, const struct table_location *at, const char *branch, struct table_location *out,
                              pennon_error *err) CHECKED;
/* The file of the error as status.h says: a place in the table (its main line's folder) becomes the path below it. Others stay absolute. */
pennon_status table_error(const struct table_location *at, pennon_status st, pennon_error *err);

/* ---- external paths (base paths and external blobs): design rule 10 ---- */

enum external_policy { EXTERNAL_SAME_STORE, EXTERNAL_ALL, EXTERNAL_NONE, EXTERNAL_LIST };
struct external_rule {
    enum external_policy policy;
    const char *const *prefixes; /* EXTERNAL_LIST */
    size_t n_prefixes;
};

/* "0.1", "2.0", …; "unknown" for other numbers. */
const char *storage_version_text(uint32_t version);

/* ---- snapshot ---- */

enum {
    FLAG_DELETIONS = 1,
    FLAG_STABLE_ROW_IDS = 2,
    FLAG_V2_FORMAT = 4,
    FLAG_CONFIG = 8,
    FLAG_BASE_PATHS = 16,
    FLAG_NO_TRANSACTION_FILE = 32,
    FLAG_MIXED_VERSIONS = 256 /* data files of several versions; in both words, and it stays */
};
#define READER_FLAGS_KNOWN ((uint64_t)(63 | FLAG_MIXED_VERSIONS))
#define WRITER_FLAGS_KNOWN ((uint64_t)(63 | FLAG_MIXED_VERSIONS))

#define NO_BASE UINT32_MAX

struct data_file {
    const char *path;       /* relative to its data directory */
    const int32_t *fields;  /* ids; -2 = tombstone */
    const int32_t *columns; /* parallel; -1 = none; empty in 0.1 */
    uint32_t n_fields, n_columns;
    uint32_t version; /* STORAGE_ */
    uint64_t size;    /* 0 = unknown */
    uint32_t base;    /* index into snapshot->bases, NO_BASE = the dataset itself */
};

/* Tables have many fragments, and few are looked at: what stands below `loaded` is there after fragment_load. */
struct fragment {
    uint32_t id;
    uint64_t physical_rows;                       /* UINT64_MAX = unknown */
    const struct deletion_file_message *deletion; /* NULL = none */
    uint64_t deleted_rows;                        /* UINT64_MAX = unknown; 0 without a deletion file */
    struct bytes raw;                             /* DataFragment, in the manifest */
    _Atomic(bool) loaded;
    struct data_file *files;
    uint32_t n_files;
    const struct fragment_message *message; /* as read */
};

struct base {
    uint32_t id;
    const char *name; /* or NULL */
    bool is_dataset_root;
    const char *path;
};

struct snapshot {
    struct mem *mem;
    struct table_location at;
    uint64_t version;
    int64_t timestamp_ns;
    const char *manifest_path; /* in the store */
    char etag[64];
    bool v2_names; /* naming scheme of the manifests */
    struct manifest_message manifest;
    struct schema *schema;
    uint32_t storage_version;   /* STORAGE_ of new files */
    struct fragment *fragments; /* in the order of the manifest, which is the order of rows */
    size_t n_fragments;
    const uint32_t
        *by_id; /* places in `fragments`, ascending by id, equal ids in their order; NULL = `fragments` ascend by id already */
    bool doubled_ids; /* two fragments have the same id, as engines could commit them: read, but nothing is committed on top */
    struct base *bases;
    size_t n_bases;
    struct external_rule external;            /* copied */
    struct block *bytes;                      /* of the manifest file, from `bytes_at` on */
    uint64_t bytes_at, file_size, message_at; /* places in the file; `message_at` of the Manifest's length */
    struct arena arena;
    _Atomic(uint32_t) refs;
    /* private caches of deletion vectors, row ids, opened base stores */
    void *caches;
};

struct version_ref {
    uint64_t version;   /* 0 = latest */
    const char *tag;    /* or NULL */
    const char *branch; /* or NULL = main */
    int64_t as_of_ns;   /* INT64_MIN = not set */
};

/* Open a version. NOT_FOUND (kinds DatasetNotFound, VersionNotFound, RefNotFound), NOT_SUPPORTED for unknown reader flags, CORRUPT. */
pennon_status snapshot_open(const struct call *c, const struct table_location *at, const struct version_ref *ref,
                            const struct external_rule *external, struct snapshot **out, pennon_error *err) CHECKED;
struct snapshot *snapshot_retain(struct snapshot *s);
void snapshot_release(struct snapshot *s); /* NULL is allowed */
/* Parse the bytes of a manifest file (untrusted); for snapshot_open, tests and fuzzing. */
pennon_status snapshot_parse(struct mem *m, struct block *file, const char *name, struct snapshot **out, pennon_error *err) CHECKED;
/* The same with the end of a file alone: `file` begins at byte `at`, which is not after the Manifest's length. */
pennon_status snapshot_parse_tail(struct mem *m, struct block *file, uint64_t at, const char *name, struct snapshot **out,
                                  pennon_error *err) CHECKED;
/* Files and message of a fragment of the snapshot, decoded on first use. CORRUPT. Thread safe. */
pennon_status fragment_load(struct snapshot *s, const struct fragment *f, pennon_error *err) CHECKED;
pennon_status snapshot_load_fragments(struct snapshot *s, pennon_error *err) CHECKED;
/* Message bytes of the index section and of the inline transaction; empty = there is none, or it is unreadable. They live as long as the snapshot; of a
 * large manifest they are read on first use. */
enum section { SECTION_INDICES, SECTION_TRANSACTION };
pennon_status snapshot_section(const struct call *c, const struct snapshot *s, enum section which, struct bytes *out,
                               pennon_error *err) CHECKED;

/* Number of the latest version, 0 = no table. */
pennon_status latest_version(const struct call *c, const struct table_location *at, uint64_t *version, bool *v2_names,
                             pennon_error *err) CHECKED;
/* All attached versions, ascending. Allocated in c->mem. */
struct version_entry {
    uint64_t version;
    int64_t timestamp_ns;
};
pennon_status list_versions(const struct call *c, const struct table_location *at, uint64_t **versions, size_t *n,
                            pennon_error *err) CHECKED;

/* One step of the way from main to a branch: the version of the parent that it forks from, and a random id. */
struct branch_step {
    uint64_t version; /* 0 = not known */
    char id[33];      /* hex digits */
};
struct ref_entry {
    char *name;
    char *branch;     /* a tag's; the parent of a branch; NULL = main */
    uint64_t version; /* a tag's; the parent's where the branch forks */
    uint64_t manifest_size;
    int64_t created_ns, updated_ns; /* INT64_MIN = not known; branches are never updated */
    char *metadata;                 /* JSON object of texts in one line, "{}" for none */
    struct branch_step *path;
    size_t n_path; /* branches: at least 1 */
};
pennon_status list_tags(const struct call *c, const struct table_location *at, struct ref_entry **out, size_t *n,
                        pennon_error *err) CHECKED;
pennon_status list_branches(const struct call *c, const struct table_location *at, struct ref_entry **out, size_t *n,
                            pennon_error *err) CHECKED;
/* Both; a file that cannot be read goes to `fault` instead of the log (NULL: to the log). */
typedef void (*ref_fault_fn)(void *ctx, const pennon_error *fault);
pennon_status list_refs(const struct call *c, const struct table_location *at, bool tags, ref_fault_fn fault, void *ctx,
                        struct ref_entry **out, size_t *n, pennon_error *err) CHECKED;
void ref_entries_free(struct mem *m, struct ref_entry *entries, size_t n);
/* Path of the file of a tag or branch, whatever the name; in m. */
char *ref_file_path(struct mem *m, const struct table_location *at, bool tag, const char *name, pennon_error *err) CHECKED;

/* Store and directory of a base (NO_BASE = the table itself); the store is retained for the caller, the path is in c->mem. */
pennon_status base_locate(const struct call *c, struct snapshot *s, uint32_t base, pennon_store **store, char **path,
                          pennon_error *err) CHECKED;

/* Store and path of a data file, of a deletion file, of an object beside a data file; the external rule is applied. The store is retained for
 * the caller; the path is in c->mem. */
pennon_status data_file_locate(const struct call *c, struct snapshot *s, const struct data_file *f, pennon_store **store,
                               char **path, pennon_error *err) CHECKED;

/* Store and path of an external blob; a blob_locate_fn, `ctx` is the snapshot. Base id 0: the URI stands alone and, unless the rule says more, has to lie under
 * one of the table's bases or in the table; else the path lies below that base. INVALID_ARGUMENT (kind ExternalPathRefused), CORRUPT: an unknown base, a
 * path that leads out of its base, a relative URI. */
pennon_status external_blob_locate(void *ctx, const struct call *c, uint32_t base_id, struct bytes uri, pennon_store **store,
                                   char **path, pennon_error *err) CHECKED;
/* How a new external blob is kept (spec commits 14): under the longest base that is no table and holds the URI, or with `outside` as the whole URI under no
 * base. `s` NULL = a new table. Fills *base_id and appends to `stored`. INVALID_ARGUMENT: under no base. */
pennon_status external_blob_reference(const struct call *c, struct snapshot *s, bool outside, struct bytes uri, uint32_t *base_id,
                                      struct buf *stored, pennon_error *err) CHECKED;

/* Store and path of what belongs to an index: its folder, or `name` in it. The same ownership. CORRUPT: an unknown base, no UUID, a name that leads out. */
pennon_status index_locate(const struct call *c, struct snapshot *s, const struct index_metadata_message *index, const char *name,
                           pennon_store **store, char **path, pennon_error *err) CHECKED;

/* Live rows of a fragment; reads what the manifest does not know (a data file's length through `length`, a deletion file). */
typedef pennon_status (*file_length_fn)(void *ctx, const struct call *c, struct snapshot *s, const struct data_file *f,
                                        uint64_t *rows, pennon_error *err);
pennon_status fragment_physical_rows(const struct call *c, struct snapshot *s, const struct fragment *f, file_length_fn length,
                                     void *ctx, uint64_t *rows, pennon_error *err) CHECKED;
pennon_status fragment_live_rows(const struct call *c, struct snapshot *s, const struct fragment *f, file_length_fn length,
                                 void *ctx, uint64_t *rows, pennon_error *err) CHECKED;
static inline bool snapshot_has_stable_ids(const struct snapshot *s)
{
    return (s->manifest.reader_feature_flags & FLAG_STABLE_ROW_IDS) != 0;
}
/* Of fragments with the same id the first one, as official takes it. NULL = none. */
const struct fragment *snapshot_find_fragment(const struct snapshot *s, uint64_t id);

/* ---- deletion vectors ---- */

struct deletion_vector; /* reference counted, immutable, thread safe */
/* NULL in *out when the fragment has no deletions. Cached in the snapshot. CORRUPT: offsets >= physical rows (when known; left out where
 * fragment_deletions_doubted says so), counts that disagree. */
pennon_status fragment_deletions(const struct call *c, struct snapshot *s, const struct fragment *f, struct deletion_vector **out,
                                 pennon_error *err) CHECKED;
/* Put the place of the deletion file into a failure. */
pennon_status fragment_deletions_error(const struct call *c, struct snapshot *s, const struct fragment *f, pennon_error *err);
/* Releases of 0.12 to 0.31 put row ids for offsets into the deletion files of fragments with stable row ids: offsets past the end mean nothing
 * there, and the manifest counts them all the same. Such fragments have no created-at versions. */
bool fragment_deletions_doubted(const struct fragment *f);
struct deletion_vector *deletion_vector_retain(struct deletion_vector *d);
void deletion_vector_release(struct deletion_vector *d); /* NULL is allowed */
uint64_t deletion_vector_count(const struct deletion_vector *d);
bool deletion_vector_contains(const struct deletion_vector *d, uint32_t offset);
uint64_t deletion_vector_rank(const struct deletion_vector *d, uint64_t offset); /* deleted offsets below `offset` */
/* Physical offset of the k-th live row (0-based). The caller knows that it exists. */
uint64_t deletion_vector_select_live(const struct deletion_vector *d, uint64_t k);
/* Bits of the live rows in [start, end): bit i = row start + i lives. `bits` holds bitmap_bytes(end - start). Returns the live ones. */
uint64_t deletion_vector_live_bits(const struct deletion_vector *d, uint64_t start, uint64_t end, uint8_t *bits);
/* Bytes of a deletion file, both kinds; untrusted. */
pennon_status deletion_array_parse(struct mem *m, struct bytes file, struct deletion_vector **out, pennon_error *err) CHECKED;
pennon_status deletion_bitmap_parse(struct mem *m, struct bytes file, struct deletion_vector **out, pennon_error *err) CHECKED;
/* Check Roaring portable bytes before CRoaring sees them. `used` gets the bytes that belong to the bitmap. */
pennon_status roaring_check(struct bytes in, size_t *used, pennon_error *err) CHECKED;

/* ---- row ids and lineage ---- */

struct row_id_sequence; /* decoded, immutable */
pennon_status row_id_sequence_parse(struct mem *m, struct bytes in, uint64_t expected, struct row_id_sequence **out,
                                    pennon_error *err) CHECKED;
void row_id_sequence_free(struct row_id_sequence *r);
uint64_t row_id_sequence_length(const struct row_id_sequence *r);
/* The highest id; false when there is none. O(bytes of the message). */
bool row_id_sequence_highest(const struct row_id_sequence *r, uint64_t *out);
/* Ids of positions [start, start + n). */
void row_id_sequence_get(const struct row_id_sequence *r, uint64_t start, uint64_t n, uint64_t *out);
/* Positions [start, end) whose ids are in the ranges, in ascending order; neighbours may come apart. O(ranges in the span * log ids) for ranges of
 * ids, O(ids * log ranges) for arrays. */
typedef pennon_status (*row_found_fn)(void *ctx, uint64_t start, uint64_t end, pennon_error *err);
pennon_status row_id_sequence_search(const struct row_id_sequence *r, const struct value_range *ids, size_t n, row_found_fn found,
                                     void *ctx, pennon_error *err) CHECKED;
/* Serialized form, chosen as official does. */
pennon_status row_id_sequence_encode(struct mem *m, const uint64_t *ids, size_t n, struct buf *out, pennon_error *err) CHECKED;
/* Cached per fragment; NULL when the table has no stable ids. */
pennon_status fragment_row_ids(const struct call *c, struct snapshot *s, const struct fragment *f,
                               const struct row_id_sequence **out, pennon_error *err) CHECKED;
/* Fill out[0..n) for physical offsets [start, start + n): row ids, or addresses without stable ids. */
pennon_status fragment_fill_row_ids(const struct call *c, struct snapshot *s, const struct fragment *f, uint64_t start, uint64_t n,
                                    uint64_t *out, pennon_error *err) CHECKED;
enum lineage { LINEAGE_CREATED_AT, LINEAGE_LAST_UPDATED_AT };
pennon_status fragment_fill_versions(const struct call *c, struct snapshot *s, const struct fragment *f, enum lineage which,
                                     uint64_t start, uint64_t n, uint64_t *out, pennon_error *err) CHECKED;
#define ADDRESS_NONE UINT64_MAX
/* Row ids -> addresses of live rows, ADDRESS_NONE for unknown or deleted ones. The index is built once a snapshot. CORRUPT on a doubled live id. */
pennon_status resolve_row_ids(const struct call *c, struct snapshot *s, const uint64_t *ids, size_t n, uint64_t *addresses,
                              pennon_error *err) CHECKED;

/* ---- commit ---- */

struct commit_options {
    uint32_t max_retries;                /* 20 */
    const struct field_pair *properties; /* transaction properties */
    size_t n_properties;
    bool stable_row_ids;             /* new tables */
    bool v2_names;                   /* new tables */
    uint32_t storage_version;        /* new tables and overwrites; 0 = keep, or 2.1 */
    const struct field_pair *config; /* create and overwrite: keys to set */
    size_t n_config;
    file_length_fn
        length; /* rows of a data file, for tables whose manifests lack row counts; NULL = such tables are NOT_SUPPORTED */
    void *length_ctx;
};
void commit_options_init(struct commit_options *o);

/* Name of a new data file: 24 binary and 26 hex digits of a random UUID, ".lance", NUL. */
pennon_status data_file_name(char out[57], pennon_error *err) CHECKED;

/* Commit an Append (schema NULL) or an Overwrite of `fragments` (ids not assigned, messages complete but for row ids: files with sizes and
 * columns, physical_rows > 0) on top of `read` (NULL = there was no table: then create; the schema is given and its ids are assigned). Rebases and
 * retries as the conflict rules allow; durable as c->durability says. `out` is the new snapshot, at read's place (or `at`).
 * An Overwrite with max_retries 0 is strict: any version after `read` is a CONFLICT. Data files belong to the caller also on failure; after
 * COMMIT_UNKNOWN they must stay.
 * CONFLICT, CONFLICT_FINAL, COMMIT_UNKNOWN, ALREADY_EXISTS (create lost a race), NOT_SUPPORTED (unknown writer flags, a 0.1 table). */
enum commit_operation { COMMIT_APPEND, COMMIT_OVERWRITE };
pennon_status commit_fragments(const struct call *c, const struct table_location *at, struct snapshot *read,
                               enum commit_operation op, const struct schema *schema, const struct fragment_message *fragments,
                               size_t n, const struct commit_options *options, struct snapshot **out, pennon_error *err) CHECKED;

#endif
