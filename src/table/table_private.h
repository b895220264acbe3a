/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Inside of the table folder: names of manifests, caches of a snapshot, row id segments, side files. */
#ifndef TABLE_TABLE_PRIVATE_H
#define TABLE_TABLE_PRIVATE_H

#include "table/table.h"

/* ---- manifest names (version_names.c) ---- */

#define DETACHED_VERSION (UINT64_C(1) << 63)
#define MANIFEST_NAME_BYTES 48

struct manifest_name {
    uint64_t version;
    bool v2;
    bool detached;
};
/* False when the name is no manifest's. */
bool manifest_name_parse(const char *name, struct manifest_name *out);
void manifest_name_text(uint64_t version, bool v2, char out[MANIFEST_NAME_BYTES]);
/* {at}/_versions/{name of the version}; in m. */
char *manifest_path(struct mem *m, const char *table, uint64_t version, bool v2, pennon_error *err) CHECKED;
/* Last segment of a path. */
const char *path_name(const char *path);

/* ---- the hint of the latest version (versions.c) ---- */

/* Not turned off by LANCE_USE_VERSION_HINT. */
bool hint_wanted(void);
/* The number in the content of a hint file, 0 = it is none. Untrusted. */
uint64_t hint_parse(struct bytes text);

/* ---- snapshot (snapshot.c, manifest_read.c) ---- */

#define MANIFEST_FOOTER 16u
#define MANIFEST_MAX ((uint64_t)1 << 34)

/* Length-prefixed section at `offset` that ends at or before `end`: its message bytes. False when it does not fit. */
bool manifest_section(struct bytes file, uint64_t offset, uint64_t end, struct bytes *out);
/* Where the Manifest's length lies in a file of `size` bytes, of which `tail` is the end (MANIFEST_FOOTER bytes at least, or all). CORRUPT. */
pennon_status manifest_position(struct bytes tail, uint64_t size, uint64_t *position, pennon_error *err) CHECKED;
/* STORAGE_ of the numbers in a DataFile. */
uint32_t data_file_version(uint32_t major, uint32_t minor);
/* STORAGE_ of the text in DataStorageFormat, 0 = unknown. */
uint32_t storage_version_parse(struct bytes text);
/* The manifest at `version`, whatever its naming scheme; `v2_first` says which name is tried first. NOT_FOUND when there is none. */
pennon_status snapshot_read(const struct call *c, const struct table_location *at, uint64_t version, bool v2_first,
                            const struct external_rule *external, struct snapshot **out, pennon_error *err) CHECKED;
/* The same, charged to `m`: for snapshots that do not outlive the call. The others outlive it and are shared: the runtime pays. */
pennon_status snapshot_read_for(const struct call *c, struct mem *m, const struct table_location *at, uint64_t version,
                                bool v2_first, const struct external_rule *external, struct snapshot **out,
                                pennon_error *err) CHECKED;
/* Copies the rule for external paths into the snapshot; `rule` NULL = the default. */
pennon_status snapshot_copy_rule(struct snapshot *s, const struct external_rule *rule, pennon_error *err) CHECKED;
pennon_status table_location_copy(struct mem *m, const struct table_location *from, struct table_location *to,
                                  pennon_error *err) CHECKED;
/* Path of the main line's directory; in m. */
char *root_path(struct mem *m, const struct table_location *at, pennon_error *err) CHECKED;
/* Append the name as one segment of a path, and a NUL that is not counted: what a store would not take in one is escaped, as official does. */
pennon_status path_segment_escape(const char *name, struct buf *out, pennon_error *err) CHECKED;
bool branch_name_valid(const char *name);
bool tag_name_valid(const char *name);

/* ---- refs (refs.c) ---- */

void ref_entry_free(struct mem *m, struct ref_entry *e);
/* Tags, or branches, all of them or none: a file that cannot be read is CORRUPT, where the lists for people leave it out. */
pennon_status list_refs_whole(const struct call *c, const struct table_location *at, bool tag, struct ref_entry **out, size_t *n,
                              pennon_error *err) CHECKED;
/* Content of a tag or branch file; `out` gets all but the name, which a branch file without identifier needs. Free `out` also on failure. CORRUPT. */
pennon_status ref_parse(struct mem *m, struct bytes file, bool tag, struct ref_entry *out, pennon_error *err) CHECKED;
/* Path of the file of a tag or branch; in c->mem. INVALID_ARGUMENT (InvalidRef): such a name there cannot be. */
pennon_status ref_path(const struct call *c, const struct table_location *at, bool tag, const char *name, char **out,
                       pennon_error *err) CHECKED;
#define REF_FILE_MAX ((uint64_t)1 << 20)
/* NOT_FOUND (RefNotFound), CORRUPT. Free with ref_entry_free. */
pennon_status read_branch(const struct call *c, const struct table_location *at, const char *name, struct ref_entry *out,
                          pennon_error *err) CHECKED;
pennon_status read_tag(const struct call *c, const struct table_location *at, const char *name, struct ref_entry *out,
                       pennon_error *err) CHECKED;

/* ---- manifest files (manifest_write.c) ---- */

/* What every new version has of its own: number, time, writer, storage version, name of the transaction file ("" = none). Sections, the tag's text
 * and fragments that are still bytes are cleared. */
pennon_status manifest_stamp(struct arena *a, struct manifest_message *m, uint64_t version, uint32_t storage_version,
                             const char *txn_name, pennon_error *err) CHECKED;
/* Feature flags, out of what the message holds and of the flags that it had before. */
void manifest_set_flags(struct manifest_message *m, bool stable_row_ids);
/* The file, which begins with the bytes of `front`; fills the places of the sections in `m`. Empty sections are left out. */
pennon_status manifest_file_make(struct mem *mem, struct manifest_message *m, struct bytes front, struct bytes index_section,
                                 struct bytes transaction, struct block **out, pennon_error *err) CHECKED;

/* Store and path of the deletion file that the fragment has; the store is retained for the caller, the path is in c->mem. */
pennon_status deletion_file_locate(const struct call *c, struct snapshot *s, const struct fragment *f, pennon_store **store,
                                   char **path, pennon_error *err) CHECKED;
/* Index of the base with the id, NO_BASE when there is none. */
uint32_t snapshot_find_base(const struct snapshot *s, uint32_t id);

struct caches;
struct caches *caches_new(struct snapshot *s, pennon_error *err) CHECKED;
void caches_free(struct snapshot *s);

/* ---- caches (snapshot_cache.c) ---- */

enum cache_kind { CACHE_DELETIONS, CACHE_ROW_IDS, CACHE_CREATED, CACHE_UPDATED, CACHE_KINDS };
/* The cached object of a fragment, or NULL. Lives as long as the snapshot. */
void *cache_get(struct snapshot *s, enum cache_kind kind, const struct fragment *f);
/* Puts `object` in; gives back what is in the cache now: another thread may have been first, then `object` is dropped. */
pennon_status cache_put(struct snapshot *s, enum cache_kind kind, const struct fragment *f, void *object, void **out,
                        pennon_error *err) CHECKED;

/* False = not yet known. */
bool cache_section(const struct snapshot *s, enum section which, struct bytes *out);
/* Takes `block` (may be NULL), in which `*out` lies unless it lies in the snapshot's bytes; another thread may have been first, then *out is its. */
void cache_put_section(const struct snapshot *s, enum section which, struct block *block, struct bytes *out);
/* The lock of the caches, for what is decoded on first use. */
void caches_lock(const struct snapshot *s);
void caches_unlock(const struct snapshot *s);

struct row_index;
struct row_index *cache_row_index(struct snapshot *s);
struct row_index *cache_put_row_index(struct snapshot *s, struct row_index *index);
void row_index_free(struct row_index *index);

struct base_place {
    pennon_store *store;
    char *path;
};
/* Borrowed; NULL when not yet known. */
const struct base_place *cache_base(struct snapshot *s, uint32_t base);
/* Retains the store, copies the path. */
pennon_status cache_put_base(struct snapshot *s, uint32_t base, pennon_store *store, const char *path, pennon_error *err) CHECKED;

/* ---- row id segments (row_segment.c) ---- */

enum row_segment_kind { ROW_RANGE, ROW_HOLES, ROW_BITMAP, ROW_ARRAY };

struct row_segment {
    enum row_segment_kind kind;
    uint64_t position;   /* of the first id in the sequence */
    uint64_t n;          /* ids */
    uint64_t start, end; /* ranges: [start, end) */
    uint64_t base;       /* arrays: added to each element */
    unsigned width;      /* arrays: bytes of an element: 2, 4, 8 */
    const uint8_t *data; /* arrays: elements; bitmaps: bits */
    uint64_t *holes;     /* ROW_HOLES: ascending absolute values, n_holes = end - start - n */
    uint64_t *ranks;     /* ROW_BITMAP: set bits before each run of 512 bits */
};

/* Check a segment and fill all but `position`; data points into the message, tables are in the arena (NULL = no tables: only the length is
 * wanted). CORRUPT. */
pennon_status row_segment_parse(struct arena *a, const struct segment_message *m, struct row_segment *out,
                                pennon_error *err) CHECKED;
/* The number of ids alone, with the same checks. */
pennon_status row_segment_length(const struct segment_message *m, uint64_t *n, pennon_error *err) CHECKED;
/* Ids [first, first + n) of the segment. */
void row_segment_get(const struct row_segment *s, uint64_t first, uint64_t n, uint64_t *out);
/* row_id_sequence_search in one segment; positions are those of the sequence. */
pennon_status row_segment_search(const struct row_segment *s, const struct value_range *ids, size_t n, row_found_fn found,
                                 void *ctx, pennon_error *err) CHECKED;
const struct row_segment *row_id_sequence_segments(const struct row_id_sequence *r, size_t *n);

/* The segment that is written for the ids; what it points to is in the arena. A range is [start, end). */
pennon_status row_segment_choose(struct arena *a, const uint64_t *ids, size_t n, struct segment_message *out,
                                 pennon_error *err) CHECKED;
pennon_status row_segment_choose_range(struct arena *a, uint64_t start, uint64_t end, struct segment_message *out,
                                       pennon_error *err) CHECKED;

/* Sequences of one range and one run, as appends write them. */
pennon_status row_id_range_encode(uint64_t start, uint64_t n, struct buf *out, pennon_error *err) CHECKED;
pennon_status version_run_encode(uint64_t version, uint64_t rows, struct buf *out, pennon_error *err) CHECKED;

struct version_sequence;
pennon_status version_sequence_parse(struct mem *m, struct bytes in, struct version_sequence **out, pennon_error *err) CHECKED;
void version_sequence_free(struct version_sequence *v);
/* Versions of positions [start, start + n). CORRUPT past the end of a sequence of several runs. */
pennon_status version_sequence_get(const struct version_sequence *v, uint64_t start, uint64_t n, uint64_t *out,
                                   pennon_error *err) CHECKED;

/* From offsets in any order; doubles count once. */
pennon_status deletion_vector_make(struct mem *m, const uint32_t *offsets, size_t n, struct deletion_vector **out,
                                   pennon_error *err) CHECKED;
/* First deleted offset >= `offset`, or UINT64_MAX. */
uint64_t deletion_vector_next(const struct deletion_vector *d, uint64_t offset);

#endif
