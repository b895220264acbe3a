/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* What src/arrow offers: the Arrow C structs made usable. Types, schemas, owned arrays, validation, views, kernels, builders,
 * streams and the IPC format.
 *
 * Words used throughout:
 *   schema   a `struct ArrowSchema`: one field with its children. A table or record batch is a field of struct type.
 *   array    a `struct ArrowArray` that belongs to a schema. Always passed with its schema.
 *   row      position in [0, array->length); the physical slot is array->offset + row.
 *   owned    made by this folder: children may be moved out, release works per child, buffers are 64-byte aligned (those that
 *            the IPC reader leaves in a body: 8).
 *   moved    the source's release becomes NULL, as the C interface says.
 * Values in memory are in the machine's byte order; buffers of imported arrays may have any alignment.
 *
 * An array from outside goes through arrow_schema_validate and array_validate once; everything else here believes its input.
 * No function here is safe for two threads on the same object unless it takes it const. */
#ifndef ARROW_ARROW_H
#define ARROW_ARROW_H

#include "base/base.h"
#include "pennon/arrow_abi.h"

/* Nesting of schemas (the top field is depth 1), and fields in one schema, that are accepted. */
#define ARROW_MAX_DEPTH 64
#define ARROW_MAX_FIELDS (1u << 20)

/* ------------------------------------------------------------------------------------------------------------- types */

enum arrow_id {
    ARROW_NULL = 0,
    ARROW_BOOL,
    ARROW_INT8,
    ARROW_UINT8,
    ARROW_INT16,
    ARROW_UINT16,
    ARROW_INT32,
    ARROW_UINT32,
    ARROW_INT64,
    ARROW_UINT64,
    ARROW_FLOAT16,
    ARROW_FLOAT32,
    ARROW_FLOAT64,
    ARROW_DECIMAL32,
    ARROW_DECIMAL64,
    ARROW_DECIMAL128,
    ARROW_DECIMAL256,
    ARROW_DATE32,
    ARROW_DATE64,
    ARROW_TIME32,
    ARROW_TIME64,
    ARROW_TIMESTAMP,
    ARROW_DURATION,
    ARROW_INTERVAL_MONTHS,
    ARROW_INTERVAL_DAY_TIME,
    ARROW_INTERVAL_MONTH_DAY_NANO,
    ARROW_FIXED_SIZE_BINARY,
    ARROW_BINARY,
    ARROW_LARGE_BINARY,
    ARROW_BINARY_VIEW,
    ARROW_UTF8,
    ARROW_LARGE_UTF8,
    ARROW_UTF8_VIEW,
    ARROW_LIST,
    ARROW_LARGE_LIST,
    ARROW_LIST_VIEW,
    ARROW_LARGE_LIST_VIEW,
    ARROW_FIXED_SIZE_LIST,
    ARROW_STRUCT,
    ARROW_MAP,
    ARROW_SPARSE_UNION,
    ARROW_DENSE_UNION,
    ARROW_RUN_END_ENCODED,
    ARROW_DICTIONARY, /* schema->dictionary is set; schema->format is the index type */
    ARROW_ID_COUNT
};

/* How the buffers of a type lie. Kernels switch on this, not on the id. */
enum arrow_layout {
    LAYOUT_NULL,         /* no buffers */
    LAYOUT_BITS,         /* validity, bits */
    LAYOUT_FIXED,        /* validity, values of bit_width / 8 bytes (dictionaries: the indices) */
    LAYOUT_VAR32,        /* validity, int32 offsets, bytes */
    LAYOUT_VAR64,        /* validity, int64 offsets, bytes */
    LAYOUT_VIEW,         /* validity, 16-byte views, data buffers…, int64 sizes of the data buffers */
    LAYOUT_LIST32,       /* validity, int32 offsets; one child (maps as well) */
    LAYOUT_LIST64,       /* validity, int64 offsets; one child */
    LAYOUT_LIST_VIEW32,  /* validity, int32 offsets, int32 sizes; one child */
    LAYOUT_LIST_VIEW64,  /* validity, int64 offsets, int64 sizes; one child */
    LAYOUT_FIXED_LIST,   /* validity; one child of fixed_size values a row */
    LAYOUT_STRUCT,       /* validity; children as long as offset + length */
    LAYOUT_SPARSE_UNION, /* int8 type ids; children as long as offset + length */
    LAYOUT_DENSE_UNION,  /* int8 type ids, int32 offsets */
    LAYOUT_RUN_END       /* no buffers; children run ends and values */
};

enum arrow_unit { ARROW_SECOND = 0, ARROW_MILLI = 1, ARROW_MICRO = 2, ARROW_NANO = 3 };

/* A parsed format. Texts point into the schema's format. */
struct arrow_type {
    enum arrow_id id;
    enum arrow_layout layout;
    enum arrow_unit unit; /* time32, time64, timestamp, duration */
    enum arrow_id index;  /* dictionary: id of the index type, ARROW_INT8..ARROW_UINT64; else ARROW_NULL */
    uint32_t bit_width;   /* LAYOUT_BITS: 1; LAYOUT_FIXED: 8 * bytes; else 0 */
    int32_t precision;    /* decimals */
    int32_t scale;
    int32_t fixed_size;    /* fixed size binary: bytes; fixed size list: values a row; >= 0 */
    const char *timezone;  /* timestamp: NUL-terminated, "" = none; else NULL */
    const char *union_ids; /* unions: the text "0,1,5", NUL-terminated; else NULL */
};

/* Parse a format text of the C data interface. INVALID_ARGUMENT for texts that are no format. Never gives ARROW_DICTIONARY. */
pennon_status arrow_type_parse(const char *format, struct arrow_type *out, pennon_error *err) CHECKED;
/* The type of a field: its format, or ARROW_DICTIONARY when it has a dictionary. */
pennon_status arrow_type_of(const struct ArrowSchema *schema, struct arrow_type *out, pennon_error *err) CHECKED;
/* The format text of a type that is not a dictionary; appended to `out`, NUL-terminated (the NUL not counted). */
pennon_status arrow_type_format(const struct arrow_type *type, struct buf *out, pennon_error *err) CHECKED;
/* Bytes of one value of LAYOUT_FIXED. */
static inline size_t arrow_type_width(const struct arrow_type *t) { return t->bit_width / 8; }
/* Buffers that an array of this type has; for LAYOUT_VIEW the least number (3). */
size_t arrow_type_buffers(const struct arrow_type *type);
/* Name of an id, for messages and type texts: "int32", "fixed_size_list", … */
const char *arrow_id_name(enum arrow_id id);
/* Append the text of a field's type as pyarrow prints it: "timestamp[us, tz=UTC]", "list<item: int32>", … */
pennon_status arrow_type_text(const struct ArrowSchema *schema, struct buf *out, pennon_error *err) CHECKED;
/* The other way, for type overrides: every type that arrow_type_text writes except unions and run ends. `out` gets an owned
 * schema with the name `name`, nullable. INVALID_ARGUMENT names the place in the text. */
pennon_status arrow_schema_from_text(struct bytes text, const char *name, struct mem *mem, struct ArrowSchema *out,
                                     pennon_error *err) CHECKED;

static inline bool arrow_id_is_integer(enum arrow_id id) { return id >= ARROW_INT8 && id <= ARROW_UINT64; }
static inline bool arrow_id_is_signed(enum arrow_id id)
{
    return id == ARROW_INT8 || id == ARROW_INT16 || id == ARROW_INT32 || id == ARROW_INT64;
}
static inline bool arrow_id_is_float(enum arrow_id id) { return id >= ARROW_FLOAT16 && id <= ARROW_FLOAT64; }
static inline bool arrow_id_is_decimal(enum arrow_id id) { return id >= ARROW_DECIMAL32 && id <= ARROW_DECIMAL256; }
/* Texts and bytes of variable length, all six. */
static inline bool arrow_id_is_variable(enum arrow_id id) { return id >= ARROW_BINARY && id <= ARROW_UTF8_VIEW; }
static inline bool arrow_id_is_text(enum arrow_id id) { return id >= ARROW_UTF8 && id <= ARROW_UTF8_VIEW; }

/* ----------------------------------------------------------------------------------------------------------- schemas */

/* Refuse what is no well-formed schema: missing format, names that are not UTF-8 (a NULL name counts as ""), child counts that
 * the format does not allow, dictionaries on non-integer formats or nested in dictionaries' index, maps without the two-field struct, metadata
 * with negative counts, depth over ARROW_MAX_DEPTH, released children. INVALID_ARGUMENT names the field. What is well-formed
 * but not supported by a caller is the caller's to refuse. The size of the metadata is not in the C interface and is believed. */
pennon_status arrow_schema_validate(const struct ArrowSchema *schema, pennon_error *err) CHECKED;

/* A new owned field: `format` and `name` are copied, `n_children` empty child slots (release NULL) that the caller fills by
 * writing a schema into *out->children[i] (moving it in). `flags` are ARROW_FLAG_*. Free with arrow_schema_release. */
pennon_status arrow_schema_new(struct ArrowSchema *out, const char *format, const char *name, int64_t flags, size_t n_children,
                               struct mem *mem, pennon_error *err) CHECKED;
/* The same from a parsed type (not ARROW_DICTIONARY). */
pennon_status arrow_schema_new_type(struct ArrowSchema *out, const struct arrow_type *type, const char *name, int64_t flags,
                                    size_t n_children, struct mem *mem, pennon_error *err) CHECKED;
/* Give an owned schema its empty dictionary slot: *schema->dictionary, release NULL, to be filled by the caller. */
pennon_status arrow_schema_add_dictionary(struct ArrowSchema *schema, pennon_error *err) CHECKED;
/* Deep, owned copy of any valid schema. */
pennon_status arrow_schema_copy(const struct ArrowSchema *schema, struct mem *mem, struct ArrowSchema *out,
                                pennon_error *err) CHECKED;
void arrow_schema_release(struct ArrowSchema *schema);                    /* idempotent */
void arrow_schema_move(struct ArrowSchema *from, struct ArrowSchema *to); /* `to` is overwritten */
/* Replace the name or the format of an owned schema. */
pennon_status arrow_schema_set_name(struct ArrowSchema *schema, const char *name, pennon_error *err) CHECKED;
pennon_status arrow_schema_set_format(struct ArrowSchema *schema, const char *format, pennon_error *err) CHECKED;

/* Index of the first child with exactly this name, or -1. */
int64_t arrow_schema_find(const struct ArrowSchema *schema, struct bytes name);
static inline bool arrow_schema_nullable(const struct ArrowSchema *s) { return (s->flags & ARROW_FLAG_NULLABLE) != 0; }

enum { SCHEMA_EQUAL_METADATA = 1, SCHEMA_EQUAL_TOP_NAME = 2, SCHEMA_EQUAL_NO_NULLABLE = 4 };
/* Same types, child names and nullability. Metadata (order of keys does not count) only with SCHEMA_EQUAL_METADATA; the name
 * and nullability of the two top fields only with SCHEMA_EQUAL_TOP_NAME; NO_NULLABLE leaves nullability out everywhere. The names
 * of list items and of a map's entries, key and value do not count. Both valid. */
bool arrow_schema_equal(const struct ArrowSchema *a, const struct ArrowSchema *b, unsigned flags);

/* Metadata: pairs of byte strings. */
struct arrow_pair {
    struct bytes key;
    struct bytes value;
};
/* Walk over the pairs in order; false at the end. `metadata` may be NULL; the pairs point into it. */
struct arrow_metadata_walk {
    const char *at; /* next pair */
    int32_t left;   /* pairs to come */
};
struct arrow_metadata_walk arrow_metadata_begin(const char *metadata);
bool arrow_metadata_next(struct arrow_metadata_walk *walk, struct arrow_pair *out);
/* Value of the first pair with this key; data NULL when absent. */
struct bytes arrow_metadata_get(const char *metadata, const char *key);
int32_t arrow_metadata_count(const char *metadata);
/* Bytes of the encoded form; 0 for NULL. */
size_t arrow_metadata_size(const char *metadata);
/* Change an owned schema: set (value.data non-NULL, replaces in place or appends) or remove (value.data NULL) a key. */
pennon_status arrow_metadata_set(struct ArrowSchema *schema, struct bytes key, struct bytes value, pennon_error *err) CHECKED;
/* Replace all metadata of an owned schema; n = 0 removes it. */
pennon_status arrow_metadata_replace(struct ArrowSchema *schema, const struct arrow_pair *pairs, size_t n,
                                     pennon_error *err) CHECKED;

/* ------------------------------------------------------------------------------------------------------------ arrays */

/* An owned array with empty buffer slots (NULL) and child slots (release NULL) that the caller fills: length, offset (0) and
 * null_count (0) by assignment, children by moving into *out->children[i]. Private data retains `mem`. Usable at every moment
 * by array_release, however much is filled. */
pennon_status array_new(struct ArrowArray *out, size_t n_buffers, size_t n_children, struct mem *mem, pennon_error *err) CHECKED;
/* array_new with the number of buffers and children that an array of this schema has (views: 3 buffers). */
pennon_status array_new_for(struct ArrowArray *out, const struct ArrowSchema *schema, struct mem *mem, pennon_error *err) CHECKED;
/* Move the bytes of `b` into buffer slot i (a former content is freed); `b` is empty afterwards. An empty buf gives NULL for
 * slot 0 and a valid pointer to zeros elsewhere. */
void array_give_buf(struct ArrowArray *array, size_t i, struct buf *b);
/* Buffer slot i points to `ptr` inside `block`, which is taken: the reference passes to the array. */
void array_give_block(struct ArrowArray *array, size_t i, struct block *block, const void *ptr);
/* A buffer of `size` bytes (64-byte aligned, BUF_SLACK behind, contents not set) in slot i; NULL with err on failure. */
void *array_make_buffer(struct ArrowArray *array, size_t i, size_t size, pennon_error *err) CHECKED;
/* Buffer slot i = a buffer of zeros that is enough for `size` bytes. */
pennon_status array_zero_buffer(struct ArrowArray *array, size_t i, size_t size, pennon_error *err) CHECKED;
/* The dictionary slot of an owned array; release NULL, to be filled by moving. */
struct ArrowArray *array_dictionary_slot(struct ArrowArray *array);
/* A hook that runs when the owned array itself (not a moved-out child) is released; at most one. */
void array_on_release(struct ArrowArray *array, void (*fn)(void *), void *ctx);

void array_release(struct ArrowArray *array);                    /* idempotent */
void array_move(struct ArrowArray *from, struct ArrowArray *to); /* `to` is overwritten */
/* An array of `length` nulls, or of no rows, of any schema. Non-null children of structs get zero values. */
pennon_status array_nulls(const struct ArrowSchema *schema, int64_t length, struct mem *mem, struct ArrowArray *out,
                          pennon_error *err) CHECKED;
/* Made by array_new: its children may be released before it. Children of foreign arrays may belong to their parent. */
bool array_is_own(const struct ArrowArray *array);
/* A record batch (struct without nulls) over `n` arrays of equal length, which are moved. On failure none is moved. */
pennon_status array_record(struct ArrowArray *columns, size_t n, int64_t length, struct mem *mem, struct ArrowArray *out,
                           pennon_error *err) CHECKED;

/* An array that several owners share: zero-copy slices point at it. Reference counted, thread safe. */
struct shared_array;
/* Moves `array` in. NULL with err on failure (`array` stays with the caller). */
struct shared_array *shared_array_new(struct ArrowArray *array, struct mem *mem, pennon_error *err) CHECKED;
struct shared_array *shared_array_retain(struct shared_array *s);
void shared_array_release(struct shared_array *s); /* NULL is allowed */
const struct ArrowArray *shared_array_get(const struct shared_array *s);
/* Rows [offset, offset + length) without copying; every child of `out` releases on its own. A struct without validity is
 * sliced in its children and has offset 0. */
pennon_status array_slice(const struct ArrowSchema *schema, struct shared_array *s, int64_t offset, int64_t length, struct mem *mem,
                          struct ArrowArray *out, pennon_error *err) CHECKED;
/* Column i of the rows of a struct, sharing its buffers; parent nulls are not merged. */
pennon_status array_slice_child(const struct ArrowSchema *schema, struct shared_array *s, size_t i, struct mem *mem,
                                struct ArrowArray *out, pennon_error *err) CHECKED;

enum array_validate_level {
    ARRAY_VALIDATE_SHAPE = 0, /* O(fields): counts, lengths, null buffers, first and last offsets */
    ARRAY_VALIDATE_FULL = 1   /* O(values): every offset, UTF-8, dictionary indices, views, union ids, run ends */
};
/* Check an array from outside against a valid schema. INVALID_ARGUMENT names the field. After FULL every function here is safe
 * on it, as far as the C interface lets that be known: the sizes of fixed, offset and validity buffers and of the bytes behind the
 * last offset are not in the interface and are believed; sizes of view data buffers are. Non-nullable fields with nulls are
 * accepted here (array_check_nullable refuses them). null_count of -1 is accepted; other wrong counts are refused by FULL. */
pennon_status array_validate(const struct ArrowSchema *schema, const struct ArrowArray *array, enum array_validate_level level,
                             pennon_error *err) CHECKED;
/* Only the texts of an array whose shape and offsets are right: CORRUPT naming the field and row that is no UTF-8. O(bytes of texts). */
pennon_status array_check_texts(const struct ArrowSchema *schema, const struct ArrowArray *array, pennon_error *err) CHECKED;
/* INVALID_ARGUMENT naming the first non-nullable field that has a null under a valid parent. O(values of validity). */
pennon_status array_check_nullable(const struct ArrowSchema *schema, const struct ArrowArray *array, pennon_error *err) CHECKED;

/* Bytes of the buffers that the rows of the array use (offsets, values, validity; children included; dictionaries once).
 * Saturates. Not exact for shared view buffers. */
uint64_t array_bytes(const struct ArrowSchema *schema, const struct ArrowArray *array);

/* ------------------------------------------------------------------------------------------------------------- views */

/* Cheap typed reading of one array; borrows both. Row i of the view is physical slot offset + i. */
struct array_view {
    struct arrow_type type;
    const struct ArrowSchema *schema;
    const struct ArrowArray *array;
    int64_t length;
    int64_t offset;
    int64_t null_count;      /* exact; of LAYOUT_NULL = length; of unions and run ends 0 */
    const uint8_t *validity; /* bit offset + i; NULL = no row is null (or LAYOUT_NULL) */
    const uint8_t *data;     /* buffer 1: values, offsets, views; unions: the type ids; never offset */
    const uint8_t *bytes; /* buffer 2: bytes of LAYOUT_VAR*, sizes of list views, offsets of dense unions; may be NULL when empty */
    struct array_view *children; /* n_children (or the dictionary) views when made by array_view_deep, else NULL */
};

/* View the whole array. Fails only for formats that arrow_schema_validate refuses. Counts nulls when null_count is -1. */
pennon_status array_view_init(struct array_view *out, const struct ArrowSchema *schema, const struct ArrowArray *array,
                              pennon_error *err) CHECKED;
/* The same with children (and the dictionary as children[0]) viewed down the tree, allocated in `arena`. */
pennon_status array_view_deep(struct array_view *out, const struct ArrowSchema *schema, const struct ArrowArray *array,
                              struct arena *arena, pennon_error *err) CHECKED;
/* View of child i, cut to the rows of the parent where children run parallel (struct, sparse union, fixed size list: times
 * fixed_size); for lists, maps, dense unions and run ends the whole child. Parent nulls are not merged. */
pennon_status array_view_child(const struct array_view *parent, int64_t i, struct array_view *out, pennon_error *err) CHECKED;
pennon_status array_view_dictionary(const struct array_view *view, struct array_view *out, pennon_error *err) CHECKED;
/* Cut the view to rows [start, start + n). */
void array_view_cut(struct array_view *v, int64_t start, int64_t n);

static inline bool array_view_is_null(const struct array_view *v, int64_t i)
{
    return v->validity != NULL ? !bit_get(v->validity, (uint64_t)(v->offset + i)) : v->type.layout == LAYOUT_NULL;
}
static inline bool array_view_bool(const struct array_view *v, int64_t i) { return bit_get(v->data, (uint64_t)(v->offset + i)); }
/* First byte of row i of LAYOUT_FIXED. */
static inline const uint8_t *array_view_fixed(const struct array_view *v, int64_t i)
{
    return v->data + (size_t)(v->offset + i) * arrow_type_width(&v->type);
}
/* Integer value of any integer, date, time, timestamp, duration or index type up to 64 bits (uint64 keeps its bits). */
int64_t array_view_int(const struct array_view *v, int64_t i);
/* float16, float32, float64 as double. */
double array_view_double(const struct array_view *v, int64_t i);
/* The bits of the float16 nearest to a number, ties to even. */
uint16_t half_from_double(double d);
/* Bytes of row i of a variable, view or fixed size binary type. */
struct bytes array_view_bytes(const struct array_view *v, int64_t i);
/* Rows [*start, *start + *n) of the child view (array_view_child) that row i of a list, map, list view or fixed size list has. */
void array_view_list(const struct array_view *v, int64_t i, int64_t *start, int64_t *n);
/* Child index of row i of a union, and the row of that child's view. */
void array_view_union(const struct array_view *v, int64_t i, int64_t *child, int64_t *row);

/* Run-end encoded: index of the run (row of the values) that holds slot `slot` (the view's offset + the row): the first run end past it.
 * `ends` is the view of child 0. O(log runs). */
int64_t run_end_find(const struct array_view *ends, int64_t slot);

/* Exact number of nulls in the array's rows. */
int64_t array_null_count(const struct ArrowSchema *schema, const struct ArrowArray *array);

/* --------------------------------------------------------------------------------------------------- bitmap helpers */

/* Set bits in [offset, offset + n). */
uint64_t bitmap_count(const uint8_t *bits, uint64_t offset, uint64_t n);
/* Copy n bits; bits of the last byte of the target past the end are kept. The ranges do not overlap. */
void bitmap_copy(uint8_t *to, uint64_t to_offset, const uint8_t *from, uint64_t from_offset, uint64_t n);
void bitmap_fill(uint8_t *bits, uint64_t offset, uint64_t n, bool value);
bool bitmap_equal(const uint8_t *a, uint64_t a_offset, const uint8_t *b, uint64_t b_offset, uint64_t n);
/* to[i] = a[i] & b[i] for n bits; `to` starts at bit 0. */
void bitmap_and(uint8_t *to, const uint8_t *a, uint64_t a_offset, const uint8_t *b, uint64_t b_offset, uint64_t n);
/* Is the text well-formed UTF-8? */
bool utf8_valid(const uint8_t *text, size_t n);
/* Append a quoted JSON text. Bytes that are no UTF-8 become U+FFFD, control characters escapes. */
pennon_status json_put_text(struct buf *out, struct bytes text, pennon_error *err) CHECKED;

/* ----------------------------------------------------------------------------------------------------------- kernels
 * All recurse over every type and take inputs with any offset. Results are owned, have offset 0 and exact null counts, no
 * validity where nothing is null, offsets that begin at 0, and nothing of the input is referenced afterwards. */

enum {
    ARRAY_PLAIN_VIEWS = 1, /* utf8_view, binary_view and list views become utf8, binary and lists (schema: arrow_schema_plain) */
    ARRAY_DROP_GARBAGE = 2 /* null rows of lists and of variable types have no values, null rows of fixed widths are zero */
};
/* Copy rows [offset, offset + length). INVALID_ARGUMENT when 32-bit offsets do not suffice for a plain view. */
pennon_status array_copy_range(const struct ArrowSchema *schema, const struct ArrowArray *array, int64_t offset, int64_t length,
                               unsigned flags, struct mem *mem, struct ArrowArray *out, pennon_error *err) CHECKED;
/* Deep copy of a schema with views replaced by plain types. */
pennon_status arrow_schema_plain(const struct ArrowSchema *schema, struct mem *mem, struct ArrowSchema *out,
                                 pennon_error *err) CHECKED;

/* n >= 1 arrays of one schema after one another. Different dictionaries are put after one another, equal ones kept; an index type
 * or 32-bit offset that gets too small is INVALID_ARGUMENT. */
pennon_status array_concat(const struct ArrowSchema *schema, size_t n, const struct ArrowArray *const *arrays, struct mem *mem,
                           struct ArrowArray *out, pennon_error *err) CHECKED;

/* The index that makes a null row in array_take. */
#define ARRAY_TAKE_NULL UINT64_MAX
/* Row indices[k] of the input becomes row k; every index < length or ARRAY_TAKE_NULL, else INVALID_ARGUMENT. */
pennon_status array_take(const struct ArrowSchema *schema, const struct ArrowArray *array, const uint64_t *indices, size_t n,
                         struct mem *mem, struct ArrowArray *out, pennon_error *err) CHECKED;
/* The rows whose bit is set; bit bit_offset + i belongs to row i of array->length rows. */
pennon_status array_filter(const struct ArrowSchema *schema, const struct ArrowArray *array, const uint8_t *bits,
                           uint64_t bit_offset, struct mem *mem, struct ArrowArray *out, pennon_error *err) CHECKED;

/* Same length, same nulls, same values bit for bit (NaN payloads and -0.0 count). Dictionaries compare by value (a null
 * index is not a null value), views by their bytes; values under nulls do not count. Two valid arrays of one schema. */
bool array_equal(const struct ArrowSchema *schema, const struct ArrowArray *a, const struct ArrowArray *b);

/* Total order of row i of `a` and row j of `b`, two deep views of one type: -1, 0, 1. Nulls are greater than all values and equal
 * to each other; floats in IEEE total order (-0.0 below 0.0, NaN above infinity, negative NaN below all); false < true; texts and bytes by
 * byte; decimals by value; lists and structs lexicographically; maps as lists of entries; dictionaries by value. */
int array_compare(const struct array_view *a, int64_t i, const struct array_view *b, int64_t j);
/* Nulls below values where `nulls_low`: those of the rows, and those within lists and structs. */
int array_compare_nulls(const struct array_view *a, int64_t i, const struct array_view *b, int64_t j, bool nulls_low);

enum { ARRAY_SORT_DESCENDING = 1, ARRAY_SORT_NULLS_FIRST = 2 };
/* nulls_low of a comparison that is turned around for a descending order: nulls within values stand where those of rows do. */
static inline bool array_sort_nulls_low(unsigned flags)
{
    return ((flags & ARRAY_SORT_NULLS_FIRST) != 0) != ((flags & ARRAY_SORT_DESCENDING) != 0);
}
/* Stable order of the rows by n_keys columns of equal length: indices[0..length) is filled. flags[k] are ARRAY_SORT_*. Null
 * placement does not depend on the direction. O(n log n), scratch from mem. `c` (NULL = cannot be cancelled) is looked at every few milliseconds. */
struct call;
pennon_status array_sort(const struct ArrowSchema *const *schemas, const struct ArrowArray *const *keys, const unsigned *flags,
                         size_t n_keys, const struct call *c, struct mem *mem, uint64_t *indices, pennon_error *err) CHECKED;

/* Cast that keeps every value or fails with INVALID_ARGUMENT naming the row: integers, floats (integer to float only when exact),
 * bool to integer, text and binary among plain, large and view, date32/date64, timestamp, time and duration units, decimals of
 * growing scale, null to anything, dictionary to its value type and back, fixed size list to list and lists of castable children, structs by
 * position. Anything else is NOT_SUPPORTED naming both types. */
pennon_status array_cast(const struct ArrowSchema *from, const struct ArrowArray *array, const struct ArrowSchema *to,
                         struct mem *mem, struct ArrowArray *out, pennon_error *err) CHECKED;
/* Decode one dictionary array (schema has a dictionary) to its value type. */
pennon_status array_decode_dictionary(const struct ArrowSchema *schema, const struct ArrowArray *array, struct mem *mem,
                                      struct ArrowArray *out, pennon_error *err) CHECKED;

/* ------------------------------------------------------------------------------------------------------ wide decimals
 * Two's complement integers of 256 bits: the values of decimals while they are converted, checked or written as text. */

struct wide {
    uint64_t word[4]; /* least significant first */
};

/* Digits that a decimal may have at most. */
#define WIDE_MAX_DIGITS 76
/* Longest text of a decimal of any int32 scale that wide_to_text writes plainly: sign, digits, point, leading zero, NUL. Scales
 * outside of -WIDE_MAX_DIGITS..WIDE_MAX_DIGITS are written with an exponent. */
#define WIDE_TEXT_MAX 176

struct wide wide_from_i64(int64_t v);
/* From and to `width` bytes (4, 8, 16, 32) in the machine's byte order; a store keeps the low bytes. */
struct wide wide_load(const uint8_t *bytes, size_t width);
void wide_store(const struct wide *v, uint8_t *bytes, size_t width);
bool wide_negative(const struct wide *v);
int wide_compare(const struct wide *a, const struct wide *b);
struct wide wide_add(const struct wide *a, const struct wide *b); /* modulo 2^256 */
/* Truncating; `rest` (may be NULL) has the sign of `a`. `b` is not zero; neither is -2^255. */
struct wide wide_divide(const struct wide *a, const struct wide *b, struct wide *rest);
/* |v| < 10^digits; digits <= WIDE_MAX_DIGITS. */
bool wide_fits_digits(const struct wide *v, int32_t digits);
/* v * 10^n; false when 256 bits do not suffice. */
bool wide_scale_up(struct wide *v, int32_t n);
/* v / 10^n when nothing is left over, else false and v is undefined. */
bool wide_scale_down(struct wide *v, int32_t n);
/* Text of v * 10^-scale with all digits of the scale ("-12.50"), NUL-terminated; returns its length. */
size_t wide_to_text(const struct wide *v, int32_t scale, char out[WIDE_TEXT_MAX]);
/* A number in decimal notation (sign, digits, one point, exponent) as v with the scale; false when it is no number, has more
 * digits behind the point than the scale, or does not fit `digits` digits. */
bool wide_from_text(struct bytes text, int32_t scale, int32_t digits, struct wide *out);

/* ---------------------------------------------------------------------------------------------------------- builders
 * Append rows to an array of any schema. Appending a value that does not fit the type (range, bytes to a list) is
 * INVALID_ARGUMENT. After a failure the builder may only be freed. Dictionaries, unions, run ends are NOT_SUPPORTED. */

struct builder;
/* NULL with err on failure. The schema is only read during the call. */
struct builder *builder_new(const struct ArrowSchema *schema, struct mem *mem, pennon_error *err) CHECKED;
void builder_free(struct builder *b); /* NULL is allowed */
int64_t builder_length(const struct builder *b);
/* Bytes in use in the buffers, children included; cheap. */
uint64_t builder_bytes(const struct builder *b);
pennon_status builder_reserve(struct builder *b, int64_t rows, pennon_error *err) CHECKED;
pennon_status builder_append_null(struct builder *b, pennon_error *err) CHECKED; /* children get nulls where they run parallel */
pennon_status builder_append_bool(struct builder *b, bool v, pennon_error *err) CHECKED;
/* Integers, dates, times, timestamps, durations, months; also floats and decimals of scale 0 when exact. */
pennon_status builder_append_int(struct builder *b, int64_t v, pennon_error *err) CHECKED;
pennon_status builder_append_uint(struct builder *b, uint64_t v, pennon_error *err) CHECKED;
pennon_status builder_append_double(struct builder *b, double v, pennon_error *err) CHECKED; /* float16, 32 (rounded), 64 */
/* Text, binary (UTF-8 is the caller's duty), fixed size binary and any LAYOUT_FIXED value as its exact bytes. */
pennon_status builder_append_bytes(struct builder *b, struct bytes v, pennon_error *err) CHECKED;
/* Child i: of structs the fields, of lists 0, of maps the entries' struct. Borrowed. */
struct builder *builder_child(struct builder *b, size_t i);
/* Struct: one value has been appended to every child, the row is valid. List, map, fixed size list: what was appended to the
 * child since the last row is the row. */
pennon_status builder_append_row(struct builder *b, pennon_error *err) CHECKED;
/* Take the rows as an owned array; the builder is empty again and keeps its type. */
pennon_status builder_finish(struct builder *b, struct ArrowArray *out, pennon_error *err) CHECKED;

/* ----------------------------------------------------------------------------------------------------------- streams
 * Streams made here keep the full error for pennon_stream_error (pennon/stream.h) and give errno ECANCELED (CANCELLED and
 * TIMEOUT), ENOMEM (OUT_OF_MEMORY, OVER_BUDGET), EINVAL (INVALID_ARGUMENT, NOT_SUPPORTED) or EIO. After a failure or the end
 * get_next repeats it. */

/* Next batch; leave out->release NULL at the end. */
typedef pennon_status (*stream_next_fn)(void *ctx, struct ArrowArray *out, pennon_error *err);
/* A stream over a callback. `schema` is moved, on failure too. `release(ctx)` is called once, on failure too; may be NULL. */
pennon_status stream_new(struct ArrowSchema *schema, stream_next_fn next, void (*release)(void *), void *ctx, struct mem *mem,
                         struct ArrowArrayStream *out, pennon_error *err) CHECKED;
/* A stream over n arrays, which are moved together with the schema, on failure too. */
pennon_status stream_from_arrays(struct ArrowSchema *schema, struct ArrowArray *arrays, size_t n, struct mem *mem,
                                 struct ArrowArrayStream *out, pennon_error *err) CHECKED;
void stream_release(struct ArrowArrayStream *stream); /* idempotent */
void stream_move(struct ArrowArrayStream *from, struct ArrowArrayStream *to);

/* Reading any stream, ours or foreign. Errors of foreign streams: ECANCELED is CANCELLED, ENOMEM OUT_OF_MEMORY, EINVAL
 * INVALID_ARGUMENT, ENOSYS NOT_SUPPORTED, others IO, with their text. */
pennon_status stream_schema(struct ArrowArrayStream *stream, struct ArrowSchema *out, pennon_error *err) CHECKED;
/* out->release is NULL at the end. The array is not validated. */
pennon_status stream_next(struct ArrowArrayStream *stream, struct ArrowArray *out, pennon_error *err) CHECKED;
/* All that is left as one batch (0 rows when none); `schema` is the stream's. Batches of foreign streams are validated FULL. */
pennon_status stream_collect(struct ArrowArrayStream *stream, const struct ArrowSchema *schema, struct mem *mem,
                             struct ArrowArray *out, pennon_error *err) CHECKED;
/* A stream that gives batches of `rows` rows, or fewer (at least one) where `bytes` would be passed, counting each row with the mean size
 * of the batch it came in; the last is shorter. UINT64_MAX = no limit. Slices are zero-copy where a batch is cut, joined batches are copied. `in` is moved, on failure too. */
pennon_status stream_rebatch(struct ArrowArrayStream *in, uint64_t rows, uint64_t bytes, struct mem *mem,
                             struct ArrowArrayStream *out, pennon_error *err) CHECKED;

/* --------------------------------------------------------------------------------------------------------------- IPC
 * The encapsulated message format, metadata version V5 (V4 is read). Little-endian. Dictionaries are delivered in the arrays, deltas
 * and replacements applied. Bodies compressed with LZ4_FRAME or ZSTD are read. Everything read is checked as hostile: the
 * arrays are FULL valid. Errors: CORRUPT, NOT_SUPPORTED (names the feature), OVER_BUDGET, and those of the callback. */

/* Read up to n bytes; *got = 0 only at the end. */
typedef pennon_status (*ipc_pull_fn)(void *ctx, void *to, size_t n, size_t *got, pennon_error *err);
/* Write all n bytes. */
typedef pennon_status (*ipc_sink_fn)(void *ctx, const void *bytes, size_t n, pennon_error *err);

struct ipc_reader;
/* Over bytes in memory, stream or file format (told by "ARROW1"). With `owner` (a block that holds `in`; retained) uncompressed
 * buffers that are 8-byte aligned point into it; with NULL they are copied and `in` must live until ipc_reader_free. NULL with
 * err on failure. */
struct ipc_reader *ipc_reader_open(struct bytes in, struct block *owner, struct mem *mem, pennon_error *err) CHECKED;
/* Over a callback, stream or file format, read front to back; `ctx` must live as long as the reader. */
struct ipc_reader *ipc_reader_open_pull(ipc_pull_fn pull, void *ctx, struct mem *mem, pennon_error *err) CHECKED;
void ipc_reader_free(struct ipc_reader *r);                              /* NULL is allowed */
const struct ArrowSchema *ipc_reader_schema(const struct ipc_reader *r); /* borrowed; the top struct carries the metadata */
/* Next record batch; out->release NULL at the end. */
pennon_status ipc_reader_next(struct ipc_reader *r, struct ArrowArray *out, pennon_error *err) CHECKED;
/* Takes the reader; `release_ctx(ctx)` is called after the reader is gone; may be NULL. */
pennon_status ipc_reader_to_stream(struct ipc_reader *r, void (*release_ctx)(void *), void *ctx, struct mem *mem,
                                   struct ArrowArrayStream *out, pennon_error *err) CHECKED;

enum { IPC_UNCOMPRESSED = 0, IPC_ZSTD = 1 };
struct ipc_writer_options {
    bool file;       /* file format with footer, else stream */
    int compression; /* IPC_UNCOMPRESSED, IPC_ZSTD */
    int level;       /* of zstd; 0 = default */
};
struct ipc_writer;
/* Writes the schema at once. `schema` (a struct; borrowed during the call) may hold any type. Options may be NULL. */
struct ipc_writer *ipc_writer_new(const struct ArrowSchema *schema, const struct ipc_writer_options *options, ipc_sink_fn sink,
                                  void *ctx, struct mem *mem, pennon_error *err) CHECKED;
/* One record batch, any offset. A dictionary that changed is written as a replacement (stream) and refused with
 * INVALID_ARGUMENT in a file. */
pennon_status ipc_writer_write(struct ipc_writer *w, const struct ArrowArray *batch, pennon_error *err) CHECKED;
pennon_status ipc_writer_finish(struct ipc_writer *w, pennon_error *err) CHECKED; /* end of stream, footer */
void ipc_writer_free(struct ipc_writer *w);                                       /* NULL is allowed */
/* A schema message alone (encapsulated), and back, for places that keep a schema as bytes. */
pennon_status ipc_schema_encode(const struct ArrowSchema *schema, struct mem *mem, struct buf *out, pennon_error *err) CHECKED;
pennon_status ipc_schema_decode(struct bytes in, struct mem *mem, struct ArrowSchema *out, pennon_error *err) CHECKED;

/* ------------------------------------------------------------------------------------------------------------- texts */

/* Rows of variable, view and fixed size binary layouts, read fast: the layout is looked at inline, not in a call a row. */
struct text_rows {
    enum arrow_layout layout;
    const uint8_t *offsets; /* of row 0; or views, or fixed values */
    const uint8_t *bytes;
    const struct ArrowArray *array; /* of views: the data buffers */
    size_t width;                   /* bytes from one row to the next */
    const uint8_t *validity;        /* of views with nulls: what stands under a null is anything; else NULL */
    uint64_t first;                 /* bit of row 0 */
};

static inline int32_t text_i32(const uint8_t *p)
{
    int32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}
static inline int64_t text_i64(const uint8_t *p)
{
    int64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* Variable, view and fixed size binary layouts. */
static inline struct text_rows text_rows_of(const struct array_view *v)
{
    size_t width = 4;
    if (v->type.layout == LAYOUT_VAR64) width = 8;
    if (v->type.layout == LAYOUT_VIEW) width = 16;
    if (v->type.layout == LAYOUT_FIXED) width = arrow_type_width(&v->type);
    const uint8_t *first = v->data == NULL ? NULL : v->data + (size_t)v->offset * width;
    const uint8_t *validity = v->type.layout == LAYOUT_VIEW ? v->validity : NULL;
    return (struct text_rows){v->type.layout, first, v->bytes, v->array, width, validity, (uint64_t)v->offset};
}

static inline struct bytes text_row(const struct text_rows *t, int64_t i)
{
    const uint8_t *p = t->offsets + (size_t)i * t->width;
    switch (t->layout) {
    case LAYOUT_VAR32: {
        int32_t start = text_i32(p);
        return bytes_of(t->bytes + start, (size_t)(text_i32(p + 4) - start));
    }
    case LAYOUT_VAR64: {
        int64_t start = text_i64(p);
        return bytes_of(t->bytes + start, (size_t)(text_i64(p + 8) - start));
    }
    case LAYOUT_VIEW: {
        if (t->validity != NULL && !bit_get(t->validity, t->first + (uint64_t)i)) return bytes_of(p, 0);
        int32_t size = text_i32(p);
        if (size <= 12) return bytes_of(p + 4, (size_t)size);
        return bytes_of((const uint8_t *)t->array->buffers[2 + text_i32(p + 8)] + text_i32(p + 12), (size_t)size);
    }
    default: return bytes_of(p, t->width);
    }
}

#endif
