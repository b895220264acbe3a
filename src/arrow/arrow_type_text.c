/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Types as text, the way pyarrow prints them, and back.
 *
 *   int32 | timestamp[us, tz=UTC] | decimal128(10, 2) | fixed_size_binary[16] | dictionary<values=string, indices=int32, ordered=0>
 *   list<item: int32> | fixed_size_list<item: float>[4] | struct<a: int32, b: string not null> | map<string, int32>
 *
 * The parser takes other usual names as well (utf8, float32, double, date32, list<int32>) and any spaces between tokens. A field
 * is nullable unless "not null" stands behind its type. Names that hold one of "<>[](),:" or spaces cannot be parsed back; types
 * written for messages need not be.
 * Nesting is bounded by ARROW_MAX_DEPTH. */
#include "arrow/arrow_internal.h"

struct type_name {
    const char *name;
    const char *format;
};

/* The first name of a format is the one that is written. */
static const struct type_name NAMES[] = {
    {"null", "n"},
    {"bool", "b"},
    {"int8", "c"},
    {"uint8", "C"},
    {"int16", "s"},
    {"uint16", "S"},
    {"int32", "i"},
    {"uint32", "I"},
    {"int64", "l"},
    {"uint64", "L"},
    {"halffloat", "e"},
    {"float", "f"},
    {"double", "g"},
    {"binary", "z"},
    {"large_binary", "Z"},
    {"binary_view", "vz"},
    {"string", "u"},
    {"large_string", "U"},
    {"string_view", "vu"},
    {"date32[day]", "tdD"},
    {"date64[ms]", "tdm"},
    {"time32[s]", "tts"},
    {"time32[ms]", "ttm"},
    {"time64[us]", "ttu"},
    {"time64[ns]", "ttn"},
    {"duration[s]", "tDs"},
    {"duration[ms]", "tDm"},
    {"duration[us]", "tDu"},
    {"duration[ns]", "tDn"},
    {"month_interval", "tiM"},
    {"day_time_interval", "tiD"},
    {"month_day_nano_interval", "tin"},
    /* also read */
    {"boolean", "b"},
    {"float16", "e"},
    {"float32", "f"},
    {"float64", "g"},
    {"utf8", "u"},
    {"large_utf8", "U"},
    {"utf8_view", "vu"},
    {"date32", "tdD"},
    {"date64", "tdm"},
    {"half", "e"},
    {"int", "i"},
    {"long", "l"},
    {"date", "tdD"},
};

static const char UNITS[4][3] = {"s", "ms", "us", "ns"};

/* ------------------------------------------------------------------------------------------------------------- writing */

static pennon_status put(struct buf *out, const char *text, pennon_error *err) { return buf_append(out, text, strlen(text), err); }

static pennon_status put_field(const struct ArrowSchema *s, struct buf *out, pennon_error *err)
{
    TRY_RETURN(put(out, field_name(s), err));
    TRY_RETURN(put(out, ": ", err));
    TRY_RETURN(arrow_type_text(s, out, err));
    return arrow_schema_nullable(s) ? PENNON_OK : put(out, " not null", err);
}

static pennon_status put_fields(const struct ArrowSchema *s, const char *name, struct buf *out, pennon_error *err)
{
    TRY_RETURN(put(out, name, err));
    TRY_RETURN(put(out, "<", err));
    for (int64_t i = 0; i < s->n_children; i++) {
        if (i > 0) TRY_RETURN(put(out, ", ", err));
        TRY_RETURN(put_field(s->children[i], out, err));
    }
    return put(out, ">", err);
}

static pennon_status put_map(const struct ArrowSchema *s, struct buf *out, pennon_error *err)
{
    const struct ArrowSchema *entries = s->children[0];
    TRY_RETURN(put(out, "map<", err));
    TRY_RETURN(arrow_type_text(entries->children[0], out, err));
    TRY_RETURN(put(out, ", ", err));
    TRY_RETURN(arrow_type_text(entries->children[1], out, err));
    if (!arrow_schema_nullable(entries->children[1])) TRY_RETURN(put(out, " not null", err));
    return put(out, s->flags & ARROW_FLAG_MAP_KEYS_SORTED ? ", keys_sorted>" : ">", err);
}

static pennon_status put_dictionary(const struct ArrowSchema *s, const struct arrow_type *t, struct buf *out, pennon_error *err)
{
    TRY_RETURN(put(out, "dictionary<values=", err));
    TRY_RETURN(arrow_type_text(s->dictionary, out, err));
    return buf_printf(out, err, ", indices=%s, ordered=%d>", arrow_id_name(t->index),
                      (s->flags & ARROW_FLAG_DICTIONARY_ORDERED) != 0);
}

static pennon_status put_type(const struct ArrowSchema *s, const struct arrow_type *t, struct buf *out, pennon_error *err)
{
    for (size_t i = 0; i < ARRAY_LEN(NAMES) && s->dictionary == NULL; i++) {
        if (strcmp(NAMES[i].format, s->format) == 0) return put(out, NAMES[i].name, err);
    }
    switch (t->id) {
    case ARROW_DICTIONARY: return put_dictionary(s, t, out, err);
    case ARROW_DECIMAL32:
    case ARROW_DECIMAL64:
    case ARROW_DECIMAL128:
    case ARROW_DECIMAL256: return buf_printf(out, err, "%s(%d, %d)", arrow_id_name(t->id), t->precision, t->scale);
    case ARROW_FIXED_SIZE_BINARY: return buf_printf(out, err, "fixed_size_binary[%d]", t->fixed_size);
    case ARROW_TIMESTAMP:
        if (t->timezone[0] == '\0') return buf_printf(out, err, "timestamp[%s]", UNITS[t->unit]);
        return buf_printf(out, err, "timestamp[%s, tz=%s]", UNITS[t->unit], t->timezone);
    case ARROW_FIXED_SIZE_LIST:
        TRY_RETURN(put_fields(s, "fixed_size_list", out, err));
        return buf_printf(out, err, "[%d]", t->fixed_size);
    case ARROW_MAP: return put_map(s, out, err);
    default: return put_fields(s, arrow_id_name(t->id), out, err);
    }
}

pennon_status arrow_type_text(const struct ArrowSchema *schema, struct buf *out, pennon_error *err)
{
    struct arrow_type type;
    TRY_RETURN(arrow_type_of(schema, &type, err));
    TRY_RETURN(put_type(schema, &type, out, err));
    return buf_terminate(out, err);
}

/* ------------------------------------------------------------------------------------------------------------- parsing */

struct type_parser {
    struct bytes text;
    size_t at;
    struct mem *mem;
};

static pennon_status wrong(const struct type_parser *p, const char *what, pennon_error *err)
{
    return error_set(err, PENNON_INVALID_ARGUMENT, "type '%.*s', character %zu: %s", (int)(p->text.size > 200 ? 200 : p->text.size),
                     (const char *)p->text.data, p->at + 1, what);
}

static void skip_spaces(struct type_parser *p)
{
    while (p->at < p->text.size && (p->text.data[p->at] == ' ' || p->text.data[p->at] == '\t')) p->at++;
}

static bool take_char(struct type_parser *p, char c)
{
    skip_spaces(p);
    if (p->at == p->text.size || p->text.data[p->at] != (uint8_t)c) return false;
    p->at++;
    return true;
}

/* A run of characters that are none of `stops`, without spaces around it. */
static struct bytes take_until(struct type_parser *p, const char *stops)
{
    skip_spaces(p);
    size_t start = p->at;
    while (p->at < p->text.size && strchr(stops, p->text.data[p->at]) == NULL) p->at++;
    size_t end = p->at;
    while (end > start && p->text.data[end - 1] == ' ') end--;
    return bytes_of(p->text.data + start, end - start);
}

static bool is_word(struct bytes b, const char *word) { return bytes_equal(b, bytes_str(word)); }

/* The word that comes, which is only taken when it is this one. */
static bool take_word(struct type_parser *p, const char *word)
{
    size_t n = strlen(word);
    skip_spaces(p);
    if (p->text.size - p->at < n || memcmp(p->text.data + p->at, word, n) != 0) return false;
    p->at += n;
    return true;
}

static bool take_number(struct type_parser *p, int32_t *out)
{
    int64_t v = 0;
    bool negative = take_char(p, '-');
    skip_spaces(p);
    size_t start = p->at;
    for (; p->at < p->text.size && p->text.data[p->at] >= '0' && p->text.data[p->at] <= '9'; p->at++) {
        v = v * 10 + (p->text.data[p->at] - '0');
        if (v > INT32_MAX) return false;
    }
    *out = (int32_t)(negative ? -v : v);
    return p->at > start;
}

static pennon_status parse_type(struct type_parser *p, const char *name, unsigned depth, struct ArrowSchema *out,
                                pennon_error *err);

/* "type", "name: type", each with " not null"; `name` stands where the text has none. */
static pennon_status parse_field(struct type_parser *p, const char *name, unsigned depth, struct ArrowSchema *out,
                                 pennon_error *err)
{
    pennon_status st = PENNON_OK;
    size_t start = p->at;
    struct bytes word = take_until(p, "<>[](),:");
    char *copy = NULL;
    if (take_char(p, ':')) {
        TRY_NEW(copy, mem_strndup(p->mem, (const char *)word.data, word.size, err));
        name = copy;
    } else {
        p->at = start;
    }
    if (name == NULL) {
        st = wrong(p, "a field of a struct needs a name", err);
        goto done;
    }
    TRY(parse_type(p, name, depth, out, err));
    if (take_word(p, "not null")) out->flags &= ~(int64_t)ARROW_FLAG_NULLABLE;
done:
    mem_free(p->mem, copy);
    return st;
}

static pennon_status new_field(struct type_parser *p, const char *format, const char *name, size_t n_children,
                               struct ArrowSchema *out, pennon_error *err)
{
    return arrow_schema_new(out, format, name, ARROW_FLAG_NULLABLE, n_children, p->mem, err);
}

/* A list of one child: the format of a fixed size list is completed behind the child. */
static pennon_status parse_list(struct type_parser *p, const char *format, const char *name, unsigned depth,
                                struct ArrowSchema *out, pennon_error *err)
{
    bool fixed = format == NULL;
    TRY_RETURN(new_field(p, fixed ? "+w:0" : format, name, 1, out, err));
    if (!take_char(p, '<')) return wrong(p, "'<' is expected", err);
    TRY_RETURN(parse_field(p, "item", depth + 1, out->children[0], err));
    if (!take_char(p, '>')) return wrong(p, "'>' is expected", err);
    if (fixed) {
        pennon_status st = PENNON_OK;
        struct arrow_type type = {.id = ARROW_FIXED_SIZE_LIST};
        struct buf text;
        if (!take_char(p, '[') || !take_number(p, &type.fixed_size) || !take_char(p, ']') || type.fixed_size < 0)
            return wrong(p, "'[size]' is expected", err);
        buf_init(&text, p->mem, BUF_NO_LIMIT);
        TRY(arrow_type_format(&type, &text, err));
        TRY(arrow_schema_set_format(out, (const char *)text.data, err));
    done:
        buf_free(&text);
        return st;
    }
    return PENNON_OK;
}

/* Most fields of a struct in a type text. */
#define TEXT_FIELDS_MAX 4096u

static pennon_status parse_struct(struct type_parser *p, const char *name, unsigned depth, struct ArrowSchema *out,
                                  pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct ArrowSchema *fields = NULL;
    size_t cap = 0;
    size_t n = 0;
    if (!take_char(p, '<')) return wrong(p, "'<' is expected", err);
    while (!take_char(p, '>')) {
        if (n > 0 && !take_char(p, ',')) {
            st = wrong(p, "',' or '>' is expected", err);
            goto done;
        }
        TRY(mem_grow(p->mem, &fields, &cap, n, sizeof *fields, TEXT_FIELDS_MAX, err));
        n++;
        TRY(parse_field(p, NULL, depth + 1, &fields[n - 1], err));
    }
    TRY(new_field(p, "+s", name, n, out, err));
    for (size_t i = 0; i < n; i++) arrow_schema_move(&fields[i], out->children[i]);
done:
    for (size_t i = 0; i < n; i++) arrow_schema_release(&fields[i]);
    mem_free(p->mem, fields);
    return st;
}

static pennon_status parse_map(struct type_parser *p, const char *name, unsigned depth, struct ArrowSchema *out, pennon_error *err)
{
    struct ArrowSchema *entries = NULL;
    TRY_RETURN(new_field(p, "+m", name, 1, out, err));
    entries = out->children[0];
    TRY_RETURN(new_field(p, "+s", "entries", 2, entries, err));
    entries->flags = 0;
    if (!take_char(p, '<')) return wrong(p, "'<' is expected", err);
    TRY_RETURN(parse_field(p, "key", depth + 2, entries->children[0], err));
    entries->children[0]->flags &= ~(int64_t)ARROW_FLAG_NULLABLE;
    if (!take_char(p, ',')) return wrong(p, "',' is expected", err);
    TRY_RETURN(parse_field(p, "value", depth + 2, entries->children[1], err));
    if (take_char(p, ',')) {
        if (!take_word(p, "keys_sorted")) return wrong(p, "'keys_sorted' is expected", err);
        out->flags |= ARROW_FLAG_MAP_KEYS_SORTED;
    }
    return take_char(p, '>') ? PENNON_OK : wrong(p, "'>' is expected", err);
}

/* dictionary<values=T, indices=I, ordered=0>; also dictionary<T> with int32 indices. */
static pennon_status parse_dictionary(struct type_parser *p, const char *name, unsigned depth, struct ArrowSchema *out,
                                      pennon_error *err)
{
    struct arrow_type index;
    int32_t ordered = 0;
    TRY_RETURN(new_field(p, "i", name, 0, out, err));
    TRY_RETURN(arrow_schema_add_dictionary(out, err));
    if (!take_char(p, '<')) return wrong(p, "'<' is expected", err);
    (void)take_word(p, "values=");
    TRY_RETURN(parse_type(p, "", depth + 1, out->dictionary, err));
    if (out->dictionary->dictionary != NULL) return wrong(p, "a dictionary of dictionaries", err);
    if (take_char(p, ',')) {
        pennon_status st = PENNON_OK;
        struct ArrowSchema indices = {0};
        (void)take_word(p, "indices=");
        st = parse_type(p, "", depth + 1, &indices, err);
        if (st == PENNON_OK) st = arrow_type_of(&indices, &index, err);
        if (st == PENNON_OK && !arrow_id_is_integer(index.id)) st = wrong(p, "indices have to be integers", err);
        if (st == PENNON_OK) st = arrow_schema_set_format(out, indices.format, err);
        arrow_schema_release(&indices);
        TRY_RETURN(st);
    }
    if (take_char(p, ',')) {
        if (!take_word(p, "ordered=") || !take_number(p, &ordered)) return wrong(p, "'ordered=0' is expected", err);
        if (ordered) out->flags |= ARROW_FLAG_DICTIONARY_ORDERED;
    }
    return take_char(p, '>') ? PENNON_OK : wrong(p, "'>' is expected", err);
}

/* Unit in brackets of the parser: "[us" is left behind its unit. */
static pennon_status parse_timestamp(struct type_parser *p, const char *name, struct ArrowSchema *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct arrow_type type = {.id = ARROW_TIMESTAMP, .timezone = "", .unit = ARROW_MICRO};
    struct bytes unit;
    char *zone = NULL;
    size_t k = 0;
    if (take_char(p, '[')) {
        unit = take_until(p, ",]");
        while (k < 4 && !is_word(unit, UNITS[k])) k++;
        if (k == 4) return wrong(p, "the unit has to be s, ms, us or ns", err);
        type.unit = (enum arrow_unit)k;
        if (take_char(p, ',')) {
            (void)take_word(p, "tz=");
            struct bytes text = take_until(p, "]");
            TRY_NEW(zone, mem_strndup(p->mem, (const char *)text.data, text.size, err));
            type.timezone = zone;
        }
        if (!take_char(p, ']')) {
            st = wrong(p, "']' is expected", err);
            goto done;
        }
    }
    TRY(arrow_schema_new_type(out, &type, name, ARROW_FLAG_NULLABLE, 0, p->mem, err));
done:
    mem_free(p->mem, zone);
    return st;
}

/* decimal128(P, S) and its kin; decimal(P, S) is decimal128 up to 38 digits. */
static pennon_status parse_decimal(struct type_parser *p, struct bytes word, const char *name, struct ArrowSchema *out,
                                   pennon_error *err)
{
    struct arrow_type type = {.id = ARROW_DECIMAL128};
    struct arrow_type check;
    static const struct {
        const char *name;
        enum arrow_id id;
        uint32_t bits;
    } kinds[] = {{"decimal32", ARROW_DECIMAL32, 32}, {"decimal64", ARROW_DECIMAL64, 64}, {"decimal256", ARROW_DECIMAL256, 256}};
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        if (!is_word(word, kinds[i].name)) continue;
        type.id = kinds[i].id;
        type.bit_width = kinds[i].bits;
    }
    bool ok = take_char(p, '(') && take_number(p, &type.precision);
    if (ok && take_char(p, ',')) ok = take_number(p, &type.scale);
    if (!ok || !take_char(p, ')')) return wrong(p, "'(precision, scale)' is expected", err);
    if (is_word(word, "decimal") && type.precision > 38) {
        type.id = ARROW_DECIMAL256;
        type.bit_width = 256;
    }
    TRY_RETURN(arrow_schema_new_type(out, &type, name, ARROW_FLAG_NULLABLE, 0, p->mem, err));
    return arrow_type_parse(out->format, &check, err) == PENNON_OK ? PENNON_OK : wrong(p, "the precision is out of range", err);
}

static pennon_status parse_fixed_binary(struct type_parser *p, const char *name, struct ArrowSchema *out, pennon_error *err)
{
    struct arrow_type type = {.id = ARROW_FIXED_SIZE_BINARY};
    if (!take_char(p, '[') || !take_number(p, &type.fixed_size) || !take_char(p, ']') || type.fixed_size < 0)
        return wrong(p, "'[bytes]' is expected", err);
    return arrow_schema_new_type(out, &type, name, ARROW_FLAG_NULLABLE, 0, p->mem, err);
}

/* A name of the table, together with a unit in brackets. */
static const char *plain_format(struct type_parser *p, struct bytes word)
{
    size_t end = p->at;
    if (end < p->text.size && p->text.data[end] == '[') {
        while (end < p->text.size && p->text.data[end] != ']') end++;
        if (end < p->text.size) end++;
    }
    struct bytes with_unit = bytes_of(word.data, (size_t)(p->text.data + end - word.data));
    for (size_t i = 0; i < ARRAY_LEN(NAMES); i++) {
        if (is_word(with_unit, NAMES[i].name)) {
            p->at = end;
            return NAMES[i].format;
        }
    }
    /* "binary[4]" is not "binary". */
    for (size_t i = 0; i < ARRAY_LEN(NAMES) && end == p->at; i++) {
        if (is_word(word, NAMES[i].name)) return NAMES[i].format;
    }
    return NULL;
}

static pennon_status parse_type(struct type_parser *p, const char *name, unsigned depth, struct ArrowSchema *out, pennon_error *err)
{
    size_t start = 0;
    const char *format = NULL;
    struct bytes word;
    if (depth > ARROW_MAX_DEPTH) return wrong(p, "nested too deeply", err);
    skip_spaces(p);
    start = p->at;
    word = take_until(p, "<>[](),: ");
    format = plain_format(p, word);
    if (format != NULL) return new_field(p, format, name, 0, out, err);
    if (is_word(word, "timestamp")) return parse_timestamp(p, name, out, err);
    if (is_word(word, "fixed_size_binary") || is_word(word, "binary")) return parse_fixed_binary(p, name, out, err);
    if (is_word(word, "list")) return parse_list(p, "+l", name, depth, out, err);
    if (is_word(word, "large_list")) return parse_list(p, "+L", name, depth, out, err);
    if (is_word(word, "list_view")) return parse_list(p, "+vl", name, depth, out, err);
    if (is_word(word, "large_list_view")) return parse_list(p, "+vL", name, depth, out, err);
    if (is_word(word, "fixed_size_list")) return parse_list(p, NULL, name, depth, out, err);
    if (is_word(word, "struct")) return parse_struct(p, name, depth, out, err);
    if (is_word(word, "map")) return parse_map(p, name, depth, out, err);
    if (is_word(word, "dictionary")) return parse_dictionary(p, name, depth, out, err);
    if (word.size >= 7 && memcmp(word.data, "decimal", 7) == 0) return parse_decimal(p, word, name, out, err);
    p->at = start;
    return wrong(p, "an unknown type", err);
}

pennon_status arrow_schema_from_text(struct bytes text, const char *name, struct mem *mem, struct ArrowSchema *out,
                                     pennon_error *err)
{
    struct type_parser p = {text, 0, mem};
    pennon_status st = PENNON_OK;
    memset(out, 0, sizeof *out);
    TRY(parse_field(&p, name, 1, out, err));
    skip_spaces(&p);
    if (p.at != text.size) st = wrong(&p, "the end is expected", err);
done:
    if (st != PENNON_OK) arrow_schema_release(out);
    return st;
}
