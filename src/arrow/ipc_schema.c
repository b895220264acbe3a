/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Schemas in IPC messages: the Schema and Field tables of Schema.fbs, to and from ArrowSchema.
 *
 * table              | fields by number
 * -------------------|------------------------------------------------------------------------------------------------
 * Schema             | 0 endianness i16 (0 little), 1 fields [Field], 2 custom metadata [KeyValue]
 * Field              | 0 name, 1 nullable u8, 2 type number u8, 3 type table, 4 dictionary, 5 children [Field], 6 metadata
 * DictionaryEncoding | 0 id i64, 1 index type Int, 2 ordered u8, 3 kind i16
 * KeyValue           | 0 key, 1 value
 * Int                | 0 bits i32, 1 signed u8              | Decimal   | 0 precision i32, 1 scale i32, 2 bits i32 (128)
 * FloatingPoint      | 0 precision i16 (16, 32, 64 bits)    | Date      | 0 unit i16 (0 days, 1 ms; 1)
 * Time               | 0 unit i16 (1), 1 bits i32 (32)      | Timestamp | 0 unit i16 (0), 1 zone
 * Interval           | 0 unit i16                           | Duration  | 0 unit i16 (1)
 * Union              | 0 mode i16 (1 dense), 1 ids [i32]    | Map       | 0 keys sorted u8
 * FixedSizeBinary    | 0 bytes i32                          | FixedSizeList | 0 values i32
 *
 * A dictionary field describes its values; the index type stands in the encoding. In an ArrowSchema it is the other way round.
 * Source: Arrow's Schema.fbs. */
#include "arrow/ipc.h"

#include <stdio.h>

/* Numbers of the type union. */
enum {
    TYPE_NULL = 1,
    TYPE_INT,
    TYPE_FLOAT,
    TYPE_BINARY,
    TYPE_UTF8,
    TYPE_BOOL,
    TYPE_DECIMAL,
    TYPE_DATE,
    TYPE_TIME,
    TYPE_TIMESTAMP,
    TYPE_INTERVAL,
    TYPE_LIST,
    TYPE_STRUCT,
    TYPE_UNION,
    TYPE_FIXED_SIZE_BINARY,
    TYPE_FIXED_SIZE_LIST,
    TYPE_MAP,
    TYPE_DURATION,
    TYPE_LARGE_BINARY,
    TYPE_LARGE_UTF8,
    TYPE_LARGE_LIST,
    TYPE_RUN_END,
    TYPE_BINARY_VIEW,
    TYPE_UTF8_VIEW,
    TYPE_LIST_VIEW,
    TYPE_LARGE_LIST_VIEW
};

enum { FIELD_NAME, FIELD_NULLABLE, FIELD_TYPE, FIELD_TYPE_TABLE, FIELD_DICTIONARY, FIELD_CHILDREN, FIELD_METADATA, FIELD_FIELDS };

/* A union has at most 128 children: ids of up to 3 digits and a comma each. */
#define UNION_IDS_MAX (128 * 4 + 1)

struct schema_reader {
    struct mem *mem;
    struct ipc_ids *ids;
    uint32_t fields_left; /* tables can be shared: a small buffer must not become a huge schema */
};

pennon_status ipc_as_corrupt(pennon_error *err)
{
    if (err->code == PENNON_INVALID_ARGUMENT) err->code = PENNON_CORRUPT;
    return err->code;
}

/* ----------------------------------------------------------------------------------------------------------- reading */

/* A text of a flatbuffer as a C string. */
static pennon_status c_text(struct bytes text, const char **out, pennon_error *err)
{
    *out = text.data == NULL ? "" : (const char *)text.data;
    CHECK_FILE_RETURN(text.size == strlen(*out), "Arrow IPC: a name with a NUL in it");
    return PENNON_OK;
}

static pennon_status read_int(const struct flat_table *t, struct arrow_type *out, pennon_error *err)
{
    static const enum arrow_id ids[2][4] = {{ARROW_UINT8, ARROW_UINT16, ARROW_UINT32, ARROW_UINT64},
                                            {ARROW_INT8, ARROW_INT16, ARROW_INT32, ARROW_INT64}};
    int32_t bits = 0;
    uint8_t is_signed = 0;
    TRY_RETURN(flat_i32(t, 0, 0, &bits, err));
    TRY_RETURN(flat_u8(t, 1, 0, &is_signed, err));
    CHECK_FILE_RETURN(bits == 8 || bits == 16 || bits == 32 || bits == 64, "Arrow IPC: integers of %d bits", bits);
    out->id = ids[is_signed != 0][bits == 8 ? 0 : bits == 16 ? 1 : bits == 32 ? 2 : 3];
    return PENNON_OK;
}

static pennon_status read_unit(const struct flat_table *t, int16_t missing, int16_t most, int16_t *out, pennon_error *err)
{
    TRY_RETURN(flat_i16(t, 0, missing, out, err));
    CHECK_FILE_RETURN(*out >= 0 && *out <= most, "Arrow IPC: unit number %d", (int)*out);
    return PENNON_OK;
}

static pennon_status read_decimal(const struct flat_table *t, struct arrow_type *out, pennon_error *err)
{
    int32_t bits = 0;
    TRY_RETURN(flat_i32(t, 0, 0, &out->precision, err));
    TRY_RETURN(flat_i32(t, 1, 0, &out->scale, err));
    TRY_RETURN(flat_i32(t, 2, 128, &bits, err));
    CHECK_FILE_RETURN(bits == 32 || bits == 64 || bits == 128 || bits == 256, "Arrow IPC: decimals of %d bits", bits);
    out->id = bits == 32 ? ARROW_DECIMAL32 : bits == 64 ? ARROW_DECIMAL64 : bits == 128 ? ARROW_DECIMAL128 : ARROW_DECIMAL256;
    out->bit_width = (uint32_t)bits;
    return PENNON_OK;
}

/* Dates, times, timestamps, durations, intervals. */
static pennon_status read_temporal(const struct flat_table *t, uint8_t number, struct arrow_type *out, pennon_error *err)
{
    int16_t unit = 0;
    struct bytes zone;
    switch (number) {
    case TYPE_DATE:
        TRY_RETURN(read_unit(t, 1, 1, &unit, err));
        out->id = unit == 0 ? ARROW_DATE32 : ARROW_DATE64;
        return PENNON_OK;
    case TYPE_INTERVAL:
        TRY_RETURN(read_unit(t, 0, 2, &unit, err));
        out->id = unit == 0 ? ARROW_INTERVAL_MONTHS : unit == 1 ? ARROW_INTERVAL_DAY_TIME : ARROW_INTERVAL_MONTH_DAY_NANO;
        return PENNON_OK;
    case TYPE_TIME: TRY_RETURN(read_unit(t, 1, 3, &unit, err)); break;
    case TYPE_DURATION: TRY_RETURN(read_unit(t, 1, 3, &unit, err)); break;
    default: TRY_RETURN(read_unit(t, 0, 3, &unit, err)); break;
    }
    out->unit = (enum arrow_unit)unit;
    out->id = number == TYPE_DURATION    ? ARROW_DURATION
              : number == TYPE_TIMESTAMP ? ARROW_TIMESTAMP
              : unit < 2                 ? ARROW_TIME32
                                         : ARROW_TIME64;
    if (number == TYPE_TIMESTAMP) {
        TRY_RETURN(flat_text(t, 1, &zone, err));
        return c_text(zone, &out->timezone, err);
    }
    if (number == TYPE_TIME) {
        int32_t bits = 0;
        TRY_RETURN(flat_i32(t, 1, 32, &bits, err));
        CHECK_FILE_RETURN(bits == (unit < 2 ? 32 : 64), "Arrow IPC: a time of %d bits with unit number %d", bits, (int)unit);
    }
    return PENNON_OK;
}

static pennon_status read_union(const struct flat_table *t, uint32_t n_children, struct arrow_type *out, char ids[UNION_IDS_MAX],
                                pennon_error *err)
{
    int16_t mode = 0;
    struct flat_vector v;
    size_t at = 0;
    TRY_RETURN(flat_i16(t, 0, 0, &mode, err));
    TRY_RETURN(flat_items(t, 1, 4, &v, err));
    CHECK_FILE_RETURN(mode == 0 || mode == 1, "Arrow IPC: union mode %d", (int)mode);
    CHECK_FILE_RETURN(n_children <= 128 && (v.items == NULL || v.n == n_children), "Arrow IPC: a union of %u children with %u ids",
                      n_children, v.n);
    ids[0] = '\0';
    for (uint32_t i = 0; i < n_children; i++) {
        int32_t id = v.items == NULL ? (int32_t)i : (int32_t)load_u32(v.items + (size_t)i * 4);
        CHECK_FILE_RETURN(id >= 0 && id <= 127, "Arrow IPC: union id %d", id);
        at += (size_t)snprintf(ids + at, UNION_IDS_MAX - at, i == 0 ? "%d" : ",%d", id);
    }
    out->id = mode == 1 ? ARROW_DENSE_UNION : ARROW_SPARSE_UNION;
    out->union_ids = ids;
    return PENNON_OK;
}

/* Types that are all said by their number. */
static bool simple_type(uint8_t number, enum arrow_id *out)
{
    switch (number) {
    case TYPE_NULL: *out = ARROW_NULL; return true;
    case TYPE_BINARY: *out = ARROW_BINARY; return true;
    case TYPE_UTF8: *out = ARROW_UTF8; return true;
    case TYPE_BOOL: *out = ARROW_BOOL; return true;
    case TYPE_LIST: *out = ARROW_LIST; return true;
    case TYPE_STRUCT: *out = ARROW_STRUCT; return true;
    case TYPE_LARGE_BINARY: *out = ARROW_LARGE_BINARY; return true;
    case TYPE_LARGE_UTF8: *out = ARROW_LARGE_UTF8; return true;
    case TYPE_LARGE_LIST: *out = ARROW_LARGE_LIST; return true;
    case TYPE_RUN_END: *out = ARROW_RUN_END_ENCODED; return true;
    case TYPE_BINARY_VIEW: *out = ARROW_BINARY_VIEW; return true;
    case TYPE_UTF8_VIEW: *out = ARROW_UTF8_VIEW; return true;
    case TYPE_LIST_VIEW: *out = ARROW_LIST_VIEW; return true;
    case TYPE_LARGE_LIST_VIEW: *out = ARROW_LARGE_LIST_VIEW; return true;
    case TYPE_MAP: *out = ARROW_MAP; return true;
    default: return false;
    }
}

static pennon_status read_type(const struct flat_table *t, uint8_t number, uint32_t n_children, struct arrow_type *out,
                               char ids[UNION_IDS_MAX], pennon_error *err)
{
    int16_t precision = 0;
    *out = (struct arrow_type){0};
    if (simple_type(number, &out->id)) return PENNON_OK;
    switch (number) {
    case TYPE_INT: return read_int(t, out, err);
    case TYPE_FLOAT:
        TRY_RETURN(read_unit(t, 0, 2, &precision, err));
        out->id = precision == 0 ? ARROW_FLOAT16 : precision == 1 ? ARROW_FLOAT32 : ARROW_FLOAT64;
        return PENNON_OK;
    case TYPE_DECIMAL: return read_decimal(t, out, err);
    case TYPE_DATE:
    case TYPE_TIME:
    case TYPE_TIMESTAMP:
    case TYPE_INTERVAL:
    case TYPE_DURATION: return read_temporal(t, number, out, err);
    case TYPE_UNION: return read_union(t, n_children, out, ids, err);
    case TYPE_FIXED_SIZE_BINARY: out->id = ARROW_FIXED_SIZE_BINARY; break;
    case TYPE_FIXED_SIZE_LIST: out->id = ARROW_FIXED_SIZE_LIST; break;
    default: return error_set(err, PENNON_NOT_SUPPORTED, "Arrow IPC: type number %u", (unsigned)number);
    }
    TRY_RETURN(flat_i32(t, 0, 0, &out->fixed_size, err));
    CHECK_FILE_RETURN(out->fixed_size >= 0, "Arrow IPC: a fixed size of %d", out->fixed_size);
    return PENNON_OK;
}

static pennon_status read_metadata(const struct flat_table *t, unsigned field, struct mem *mem, struct ArrowSchema *to,
                                   pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct flat_vector v;
    struct arrow_pair *pairs = NULL;
    TRY(flat_items(t, field, 4, &v, err));
    if (v.n == 0) goto done;
    /* Each entry is 4 bytes in the file and 32 here. */
    TRY_NEW(pairs, mem_calloc(mem, v.n, sizeof *pairs, err));
    for (uint32_t i = 0; i < v.n; i++) {
        struct flat_table pair;
        TRY(flat_item_table(t, &v, i, &pair, err));
        TRY(flat_text(&pair, 0, &pairs[i].key, err));
        TRY(flat_text(&pair, 1, &pairs[i].value, err));
    }
    TRY(arrow_metadata_replace(to, pairs, v.n, err));
done:
    mem_free(mem, pairs);
    return st;
}

static pennon_status read_fields(struct schema_reader *r, const struct flat_table *t, const struct flat_vector *v, unsigned depth,
                                 struct ArrowSchema *to, pennon_error *err);

/* The schema `out` with the type (and children) that the Field table describes. */
static pennon_status read_field_type(struct schema_reader *r, const struct flat_table *t, const char *name, int64_t flags,
                                     unsigned depth, struct ArrowSchema *out, pennon_error *err)
{
    uint8_t number = 0;
    uint8_t sorted = 0;
    struct flat_table type_table;
    struct flat_vector children;
    struct arrow_type type;
    char ids[UNION_IDS_MAX];
    bool present = false;

    TRY_RETURN(flat_u8(t, FIELD_TYPE, 0, &number, err));
    TRY_RETURN(flat_child(t, FIELD_TYPE_TABLE, &type_table, &present, err));
    TRY_RETURN(flat_items(t, FIELD_CHILDREN, 4, &children, err));
    CHECK_FILE_RETURN(present, "Arrow IPC: field '%.128s' has no type", name);
    CHECK_FILE_RETURN(children.n <= r->fields_left, "Arrow IPC: the schema has more fields than its bytes can hold");
    r->fields_left -= children.n; /* before anything is allocated for them */
    TRY_RETURN(read_type(&type_table, number, children.n, &type, ids, err));
    if (type.id == ARROW_MAP) {
        TRY_RETURN(flat_u8(&type_table, 0, 0, &sorted, err));
        if (sorted) flags |= ARROW_FLAG_MAP_KEYS_SORTED;
    }
    TRY_RETURN(arrow_schema_new_type(out, &type, name, flags, children.n, r->mem, err));
    return read_fields(r, t, &children, depth + 1, out, err);
}

static const char *index_format(enum arrow_id id)
{
    static const char *const formats[] = {"c", "C", "s", "S", "i", "I", "l", "L"};
    return formats[id - ARROW_INT8];
}

/* A dictionary field: indices outside, the described type as the dictionary. */
static pennon_status read_encoding(struct schema_reader *r, const struct flat_table *t, const struct flat_table *encoding,
                                   const char *name, int64_t flags, unsigned depth, struct ArrowSchema *out, pennon_error *err)
{
    int64_t id = 0;
    int16_t kind = 0;
    uint8_t ordered = 0;
    struct flat_table index_table;
    struct arrow_type index = {.id = ARROW_INT32};
    bool present = false;
    struct ipc_ids *ids = r->ids;

    TRY_RETURN(flat_i64(encoding, 0, 0, &id, err));
    TRY_RETURN(flat_child(encoding, 1, &index_table, &present, err));
    if (present) TRY_RETURN(read_int(&index_table, &index, err));
    TRY_RETURN(flat_u8(encoding, 2, 0, &ordered, err));
    TRY_RETURN(flat_i16(encoding, 3, 0, &kind, err));
    if (kind != 0) return error_set(err, PENNON_NOT_SUPPORTED, "Arrow IPC: dictionaries of kind %d", (int)kind);
    TRY_RETURN(mem_grow(ids->mem, &ids->items, &ids->cap, ids->n, sizeof *ids->items, ARROW_MAX_FIELDS, err));
    ids->items[ids->n++] = id;
    if (ordered) flags |= ARROW_FLAG_DICTIONARY_ORDERED;
    TRY_RETURN(arrow_schema_new(out, index_format(index.id), name, flags, 0, r->mem, err));
    TRY_RETURN(arrow_schema_add_dictionary(out, err));
    return read_field_type(r, t, "", ARROW_FLAG_NULLABLE, depth, out->dictionary, err);
}

static pennon_status read_field(struct schema_reader *r, const struct flat_table *t, unsigned depth, struct ArrowSchema *out,
                                pennon_error *err)
{
    struct bytes text;
    const char *name = NULL;
    uint8_t nullable = 0;
    struct flat_table encoding;
    bool encoded = false;
    int64_t flags = 0;

    CHECK_FILE_RETURN(depth <= ARROW_MAX_DEPTH, "Arrow IPC: the schema is nested too deeply");
    TRY_RETURN(flat_text(t, FIELD_NAME, &text, err));
    TRY_RETURN(c_text(text, &name, err));
    TRY_RETURN(flat_u8(t, FIELD_NULLABLE, 0, &nullable, err));
    TRY_RETURN(flat_child(t, FIELD_DICTIONARY, &encoding, &encoded, err));
    if (nullable) flags |= ARROW_FLAG_NULLABLE;
    if (encoded) {
        TRY_RETURN(read_encoding(r, t, &encoding, name, flags, depth, out, err));
    } else {
        TRY_RETURN(read_field_type(r, t, name, flags, depth, out, err));
    }
    return read_metadata(t, FIELD_METADATA, r->mem, out, err);
}

static pennon_status read_fields(struct schema_reader *r, const struct flat_table *t, const struct flat_vector *v, unsigned depth,
                                 struct ArrowSchema *to, pennon_error *err)
{
    for (uint32_t i = 0; i < v->n; i++) {
        struct flat_table field;
        TRY_RETURN(flat_item_table(t, v, i, &field, err));
        TRY_RETURN(read_field(r, &field, depth, to->children[i], err));
    }
    return PENNON_OK;
}

pennon_status ipc_read_schema(const struct flat_table *table, struct mem *mem, struct ArrowSchema *out, struct ipc_ids *ids,
                              pennon_error *err)
{
    pennon_status st = PENNON_OK;
    /* A field takes a table of at least 8 bytes and an offset to it. */
    struct schema_reader r = {mem, ids, (uint32_t)min_u64(ARROW_MAX_FIELDS, table->all.size / 12)};
    struct flat_vector fields;
    int16_t endianness = 0;

    memset(out, 0, sizeof *out);
    TRY(flat_i16(table, 0, 0, &endianness, err));
    if (endianness != 0 || IPC_HOST_BIG_ENDIAN) FAIL(PENNON_NOT_SUPPORTED, "Arrow IPC: big-endian data or machine");
    TRY(flat_items(table, 1, 4, &fields, err));
    CHECK_FILE(fields.n <= r.fields_left, "Arrow IPC: a schema of %u fields in %zu bytes", fields.n, table->all.size);
    r.fields_left -= fields.n;
    TRY(arrow_schema_new(out, "+s", "", 0, fields.n, mem, err));
    TRY(read_fields(&r, table, &fields, 2, out, err));
    TRY(read_metadata(table, 2, mem, out, err));
    TRY(arrow_schema_validate(out, err));
done:
    if (st != PENNON_OK) {
        arrow_schema_release(out);
        st = ipc_as_corrupt(err);
    }
    return st;
}

/* ------------------------------------------------------------------------------------------------------------ writing */

static uint8_t type_number(enum arrow_id id)
{
    switch (id) {
    case ARROW_NULL: return TYPE_NULL;
    case ARROW_BOOL: return TYPE_BOOL;
    case ARROW_FLOAT16:
    case ARROW_FLOAT32:
    case ARROW_FLOAT64: return TYPE_FLOAT;
    case ARROW_DECIMAL32:
    case ARROW_DECIMAL64:
    case ARROW_DECIMAL128:
    case ARROW_DECIMAL256: return TYPE_DECIMAL;
    case ARROW_DATE32:
    case ARROW_DATE64: return TYPE_DATE;
    case ARROW_TIME32:
    case ARROW_TIME64: return TYPE_TIME;
    case ARROW_TIMESTAMP: return TYPE_TIMESTAMP;
    case ARROW_DURATION: return TYPE_DURATION;
    case ARROW_INTERVAL_MONTHS:
    case ARROW_INTERVAL_DAY_TIME:
    case ARROW_INTERVAL_MONTH_DAY_NANO: return TYPE_INTERVAL;
    case ARROW_FIXED_SIZE_BINARY: return TYPE_FIXED_SIZE_BINARY;
    case ARROW_BINARY: return TYPE_BINARY;
    case ARROW_LARGE_BINARY: return TYPE_LARGE_BINARY;
    case ARROW_BINARY_VIEW: return TYPE_BINARY_VIEW;
    case ARROW_UTF8: return TYPE_UTF8;
    case ARROW_LARGE_UTF8: return TYPE_LARGE_UTF8;
    case ARROW_UTF8_VIEW: return TYPE_UTF8_VIEW;
    case ARROW_LIST: return TYPE_LIST;
    case ARROW_LARGE_LIST: return TYPE_LARGE_LIST;
    case ARROW_LIST_VIEW: return TYPE_LIST_VIEW;
    case ARROW_LARGE_LIST_VIEW: return TYPE_LARGE_LIST_VIEW;
    case ARROW_FIXED_SIZE_LIST: return TYPE_FIXED_SIZE_LIST;
    case ARROW_STRUCT: return TYPE_STRUCT;
    case ARROW_MAP: return TYPE_MAP;
    case ARROW_SPARSE_UNION:
    case ARROW_DENSE_UNION: return TYPE_UNION;
    case ARROW_RUN_END_ENCODED: return TYPE_RUN_END;
    default: ASSERT(arrow_id_is_integer(id)); return TYPE_INT;
    }
}

static struct flat_field field_of(enum flat_kind kind, int64_t value) { return (struct flat_field){kind, value, 0}; }

static pennon_status write_int(struct buf *b, size_t slot, enum arrow_id id, uint32_t bits, pennon_error *err)
{
    struct flat_field fields[] = {field_of(FLAT_I32, bits), field_of(FLAT_U8, arrow_id_is_signed(id))};
    return flat_put_table(b, slot, fields, ARRAY_LEN(fields), err);
}

static pennon_status write_union(struct buf *b, size_t slot, const struct arrow_type *type, size_t n_children, pennon_error *err)
{
    struct flat_field fields[] = {field_of(FLAT_I16, type->id == ARROW_DENSE_UNION), field_of(FLAT_OFFSET, 0)};
    const char *p = type->union_ids;
    size_t at = 0;
    TRY_RETURN(flat_put_table(b, slot, fields, ARRAY_LEN(fields), err));
    TRY_RETURN(flat_put_items(b, fields[1].slot, n_children, 4, 4, &at, err));
    for (size_t i = 0; i < n_children; i++, p += *p == ',') {
        uint32_t id = 0;
        for (; *p >= '0' && *p <= '9'; p++) id = id * 10 + (uint32_t)(*p - '0');
        store_u32(b->data + at + i * 4, id);
    }
    return PENNON_OK;
}

static pennon_status write_timestamp(struct buf *b, size_t slot, const struct arrow_type *type, pennon_error *err)
{
    bool zoned = type->timezone[0] != '\0';
    struct flat_field fields[] = {field_of(FLAT_I16, type->unit), field_of(zoned ? FLAT_OFFSET : FLAT_ABSENT, 0)};
    TRY_RETURN(flat_put_table(b, slot, fields, ARRAY_LEN(fields), err));
    return zoned ? flat_put_text(b, fields[1].slot, bytes_str(type->timezone), err) : PENNON_OK;
}

/* The type table; `s` describes the values, not the indices. */
static pennon_status write_type(struct buf *b, size_t slot, const struct ArrowSchema *s, const struct arrow_type *type,
                                pennon_error *err)
{
    struct flat_field fields[3] = {field_of(FLAT_ABSENT, 0), field_of(FLAT_ABSENT, 0), field_of(FLAT_ABSENT, 0)};
    if (arrow_id_is_integer(type->id)) return write_int(b, slot, type->id, type->bit_width, err);
    switch (type->id) {
    case ARROW_DENSE_UNION:
    case ARROW_SPARSE_UNION: return write_union(b, slot, type, (size_t)s->n_children, err);
    case ARROW_TIMESTAMP: return write_timestamp(b, slot, type, err);
    case ARROW_FLOAT16:
    case ARROW_FLOAT32:
    case ARROW_FLOAT64: fields[0] = field_of(FLAT_I16, type->id - ARROW_FLOAT16); break;
    case ARROW_DECIMAL32:
    case ARROW_DECIMAL64:
    case ARROW_DECIMAL128:
    case ARROW_DECIMAL256:
        fields[0] = field_of(FLAT_I32, type->precision);
        fields[1] = field_of(FLAT_I32, type->scale);
        fields[2] = field_of(FLAT_I32, type->bit_width);
        break;
    case ARROW_DATE32:
    case ARROW_DATE64: fields[0] = field_of(FLAT_I16, type->id == ARROW_DATE64); break;
    case ARROW_TIME32:
    case ARROW_TIME64:
        fields[0] = field_of(FLAT_I16, type->unit);
        fields[1] = field_of(FLAT_I32, type->bit_width);
        break;
    case ARROW_DURATION: fields[0] = field_of(FLAT_I16, type->unit); break;
    case ARROW_INTERVAL_MONTHS:
    case ARROW_INTERVAL_DAY_TIME:
    case ARROW_INTERVAL_MONTH_DAY_NANO: fields[0] = field_of(FLAT_I16, type->id - ARROW_INTERVAL_MONTHS); break;
    case ARROW_FIXED_SIZE_BINARY:
    case ARROW_FIXED_SIZE_LIST: fields[0] = field_of(FLAT_I32, type->fixed_size); break;
    case ARROW_MAP: fields[0] = field_of(FLAT_U8, (s->flags & ARROW_FLAG_MAP_KEYS_SORTED) != 0); break;
    default: break;
    }
    return flat_put_table(b, slot, fields, ARRAY_LEN(fields), err);
}

static pennon_status write_metadata(struct buf *b, size_t slot, const char *metadata, pennon_error *err)
{
    struct arrow_metadata_walk walk = arrow_metadata_begin(metadata);
    struct arrow_pair pair;
    size_t at = 0;
    TRY_RETURN(flat_put_items(b, slot, (size_t)arrow_metadata_count(metadata), 4, 4, &at, err));
    for (; arrow_metadata_next(&walk, &pair); at += 4) {
        struct flat_field fields[] = {field_of(FLAT_OFFSET, 0), field_of(FLAT_OFFSET, 0)};
        TRY_RETURN(flat_put_table(b, at, fields, ARRAY_LEN(fields), err));
        TRY_RETURN(flat_put_text(b, fields[0].slot, pair.key, err));
        TRY_RETURN(flat_put_text(b, fields[1].slot, pair.value, err));
    }
    return PENNON_OK;
}

static pennon_status write_encoding(struct buf *b, size_t slot, const struct ArrowSchema *s, int64_t id, pennon_error *err)
{
    struct arrow_type type;
    struct flat_field fields[] = {field_of(FLAT_I64, id), field_of(FLAT_OFFSET, 0),
                                  field_of(FLAT_U8, (s->flags & ARROW_FLAG_DICTIONARY_ORDERED) != 0)};
    TRY_RETURN(arrow_type_of(s, &type, err));
    TRY_RETURN(flat_put_table(b, slot, fields, ARRAY_LEN(fields), err));
    return write_int(b, fields[1].slot, type.index, type.bit_width, err);
}

static pennon_status write_field(struct buf *b, size_t slot, const struct ArrowSchema *s, int64_t *next_id, pennon_error *err)
{
    const struct ArrowSchema *values = s->dictionary != NULL ? s->dictionary : s;
    struct flat_field fields[FIELD_FIELDS] = {[FIELD_NAME] = field_of(FLAT_OFFSET, 0),
                                              [FIELD_NULLABLE] = field_of(FLAT_U8, arrow_schema_nullable(s)),
                                              [FIELD_TYPE_TABLE] = field_of(FLAT_OFFSET, 0),
                                              [FIELD_CHILDREN] = field_of(FLAT_OFFSET, 0)};
    struct arrow_type type;
    size_t at = 0;

    TRY_RETURN(arrow_type_parse(values->format, &type, err));
    fields[FIELD_TYPE] = field_of(FLAT_U8, type_number(type.id));
    if (s->dictionary != NULL) fields[FIELD_DICTIONARY] = field_of(FLAT_OFFSET, 0);
    if (arrow_metadata_count(s->metadata) > 0) fields[FIELD_METADATA] = field_of(FLAT_OFFSET, 0);
    TRY_RETURN(flat_put_table(b, slot, fields, FIELD_FIELDS, err));
    TRY_RETURN(flat_put_text(b, fields[FIELD_NAME].slot, bytes_str(field_name(s)), err));
    TRY_RETURN(write_type(b, fields[FIELD_TYPE_TABLE].slot, values, &type, err));
    if (s->dictionary != NULL) TRY_RETURN(write_encoding(b, fields[FIELD_DICTIONARY].slot, s, (*next_id)++, err));
    if (fields[FIELD_METADATA].kind == FLAT_OFFSET) TRY_RETURN(write_metadata(b, fields[FIELD_METADATA].slot, s->metadata, err));
    TRY_RETURN(flat_put_items(b, fields[FIELD_CHILDREN].slot, (size_t)values->n_children, 4, 4, &at, err));
    for (int64_t i = 0; i < values->n_children; i++)
        TRY_RETURN(write_field(b, at + (size_t)i * 4, values->children[i], next_id, err));
    return PENNON_OK;
}

pennon_status ipc_write_schema(struct buf *b, size_t slot, const struct ArrowSchema *schema, pennon_error *err)
{
    bool with_metadata = arrow_metadata_count(schema->metadata) > 0;
    struct flat_field fields[] = {field_of(FLAT_I16, 0), field_of(FLAT_OFFSET, 0),
                                  field_of(with_metadata ? FLAT_OFFSET : FLAT_ABSENT, 0)};
    int64_t next_id = 0;
    size_t at = 0;
    if (IPC_HOST_BIG_ENDIAN) return error_set(err, PENNON_NOT_SUPPORTED, "Arrow IPC on a big-endian machine");
    TRY_RETURN(flat_put_table(b, slot, fields, ARRAY_LEN(fields), err));
    TRY_RETURN(flat_put_items(b, fields[1].slot, (size_t)schema->n_children, 4, 4, &at, err));
    for (int64_t i = 0; i < schema->n_children; i++)
        TRY_RETURN(write_field(b, at + (size_t)i * 4, schema->children[i], &next_id, err));
    return with_metadata ? write_metadata(b, fields[2].slot, schema->metadata, err) : PENNON_OK;
}

size_t ipc_count_dictionaries(const struct ArrowSchema *schema)
{
    const struct ArrowSchema *values = schema->dictionary != NULL ? schema->dictionary : schema;
    size_t n = schema->dictionary != NULL;
    for (int64_t i = 0; i < values->n_children; i++) n += ipc_count_dictionaries(values->children[i]);
    return n;
}

pennon_status ipc_put_message(const struct buf *flat, uint64_t position, struct buf *out, pennon_error *err)
{
    uint8_t prefix[8];
    uint64_t end = round_up(position + sizeof prefix + flat->size, IPC_ALIGN);
    size_t size = (size_t)(end - position - sizeof prefix);
    store_u32(prefix, IPC_CONTINUATION);
    store_u32(prefix + 4, (uint32_t)size);
    TRY_RETURN(buf_append(out, prefix, sizeof prefix, err));
    TRY_RETURN(buf_append(out, flat->data, flat->size, err));
    return buf_append_zero(out, size - flat->size, err);
}

pennon_status ipc_put_schema_message(const struct ArrowSchema *schema, uint64_t position, struct buf *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct buf flat;
    struct flat_field fields[IPC_MESSAGE_FIELDS] = {[IPC_MESSAGE_VERSION] = field_of(FLAT_I16, IPC_V5),
                                                    [IPC_MESSAGE_HEADER_TYPE] = field_of(FLAT_U8, IPC_HEADER_SCHEMA),
                                                    [IPC_MESSAGE_HEADER] = field_of(FLAT_OFFSET, 0),
                                                    [IPC_MESSAGE_BODY_LENGTH] = field_of(FLAT_I64, 0)};
    buf_init(&flat, out->mem, INT32_MAX);
    TRY(flat_begin(&flat, err));
    TRY(flat_put_table(&flat, 0, fields, IPC_MESSAGE_FIELDS, err));
    TRY(ipc_write_schema(&flat, fields[IPC_MESSAGE_HEADER].slot, schema, err));
    TRY(ipc_put_message(&flat, position, out, err));
done:
    buf_free(&flat);
    return st;
}

pennon_status ipc_schema_encode(const struct ArrowSchema *schema, struct mem *mem, struct buf *out, pennon_error *err)
{
    UNUSED(mem);
    return ipc_put_schema_message(schema, 0, out, err);
}
