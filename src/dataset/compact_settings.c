/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* What a compaction is told: defaults, over them the keys lance.compaction.* of the table's config, over them what the caller set.
 *
 *   key of the config                | value
 *   ---------------------------------|----------------------------------------------
 *   numbers                          | digits, a + may stand before them
 *   booleans                         | true, false, in any case
 *   materialize_deletions_threshold  | a number of floating point
 *   compaction_mode                  | reencode, try_binary_copy, force_binary_copy, in any case
 *
 * Keys that are not known are passed over with a warning, as newer releases have more. A threshold of 1 and more turns the materialization off.
 * Source: spec commits 9.1. */
#include <math.h>
#include <strings.h>

#include "dataset/compact.h"

#define CONFIG_PREFIX "lance.compaction."
#define TARGET_ROWS ((uint64_t)1 << 20)
#define COPY_BYTES ((uint64_t)16 << 20)
#define THRESHOLD 0.1f

void pennon_compaction_options_init(pennon_compaction_options *options)
{
    if (!options) return;
    *options = (pennon_compaction_options){.struct_size = sizeof *options,
                                           .target_rows_per_fragment = TARGET_ROWS,
                                           .max_rows_per_group = 1024,
                                           .max_bytes_per_file = PENNON_NONE,
                                           .materialize_deletions = true,
                                           .materialize_deletions_threshold = THRESHOLD,
                                           .num_threads = PENNON_NONE,
                                           .batch_size = PENNON_NONE,
                                           .io_buffer_size = PENNON_NONE,
                                           .binary_copy_read_batch_bytes = COPY_BYTES,
                                           .max_source_fragments = PENNON_NONE,
                                           .max_retries = 20};
}

void compact_settings_init(struct compact_settings *s)
{
    *s = (struct compact_settings){.target_rows = TARGET_ROWS,
                                   .rows_per_group = 1024,
                                   .max_bytes = PENNON_NONE,
                                   .materialize = true,
                                   .threshold = THRESHOLD,
                                   .threads = PENNON_NONE,
                                   .batch_rows = PENNON_NONE,
                                   .io_buffer = PENNON_NONE,
                                   .copy_bytes = COPY_BYTES,
                                   .max_sources = PENNON_NONE};
}

int32_t compact_mode(const struct compact_settings *s)
{
    if (s->mode != PENNON_COMPACT_AUTO) return s->mode;
    if (!s->binary_copy) return PENNON_COMPACT_REENCODE;
    return s->binary_copy_force ? PENNON_COMPACT_FORCE_BINARY_COPY : PENNON_COMPACT_TRY_BINARY_COPY;
}

/* ---- the config ---- */

static bool is_word(struct bytes text, const char *word)
{
    return text.size == strlen(word) && strncasecmp((const char *)text.data, word, text.size) == 0;
}

pennon_status compact_mode_parse(struct bytes text, int32_t *out, pennon_error *err)
{
    static const char *const names[] = {"reencode", "try_binary_copy", "force_binary_copy"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (!is_word(text, names[i])) continue;
        *out = (int32_t)i + PENNON_COMPACT_REENCODE;
        return PENNON_OK;
    }
    return error_set(err, PENNON_INVALID_ARGUMENT,
                     "Invalid compaction mode \"%.*s\". Valid values: \"reencode\", \"try_binary_copy\", \"force_binary_copy\"",
                     (int)min_u64(text.size, 128), (const char *)text.data);
}

static bool parse_number(struct bytes text, uint64_t *out)
{
    uint64_t v = 0;
    size_t i = text.size > 1 && text.data[0] == '+';
    if (text.size == 0) return false;
    for (; i < text.size; i++) {
        if (text.data[i] < '0' || text.data[i] > '9') return false;
        if (mul_overflows(v, 10, &v) || add_overflows(v, (uint64_t)(text.data[i] - '0'), &v)) return false;
    }
    *out = v;
    return true;
}

static bool parse_bool(struct bytes text, bool *out)
{
    *out = is_word(text, "true");
    return *out || is_word(text, "false");
}

static bool parse_real(struct bytes text, float *out)
{
    double v;
    const size_t sign = text.size > 0 && (text.data[0] == '+' || text.data[0] == '-');
    const struct bytes word = bytes_of(text.data + sign, text.size - sign);
    if (is_word(word, "inf") || is_word(word, "infinity")) {
        *out = text.data[0] == '-' ? -INFINITY : INFINITY;
        return true;
    }
    if (is_word(word, "nan")) {
        *out = NAN;
        return true;
    }
    if (!real_parse(text, &v)) return false;
    *out = (float)v;
    return true;
}

enum value_kind { VALUE_NUMBER, VALUE_BOOL, VALUE_REAL, VALUE_MODE };

struct setting {
    const char *name;
    enum value_kind kind;
    size_t offset; /* in struct compact_settings */
    uint32_t set;
};
#define AT(member) offsetof(struct compact_settings, member)
static const struct setting known[] = {
    {"target_rows_per_fragment", VALUE_NUMBER, AT(target_rows), PENNON_COMPACT_SET_TARGET_ROWS},
    {"max_rows_per_group", VALUE_NUMBER, AT(rows_per_group), PENNON_COMPACT_SET_MAX_ROWS_PER_GROUP},
    {"max_bytes_per_file", VALUE_NUMBER, AT(max_bytes), PENNON_COMPACT_SET_MAX_BYTES},
    {"materialize_deletions", VALUE_BOOL, AT(materialize), PENNON_COMPACT_SET_MATERIALIZE_DELETIONS},
    {"materialize_deletions_threshold", VALUE_REAL, AT(threshold), PENNON_COMPACT_SET_THRESHOLD},
    {"defer_index_remap", VALUE_BOOL, AT(defer), PENNON_COMPACT_SET_DEFER_INDEX_REMAP},
    {"batch_size", VALUE_NUMBER, AT(batch_rows), PENNON_COMPACT_SET_BATCH_SIZE},
    {"io_buffer_size", VALUE_NUMBER, AT(io_buffer), PENNON_COMPACT_SET_IO_BUFFER_SIZE},
    {"compaction_mode", VALUE_MODE, AT(mode), PENNON_COMPACT_SET_MODE},
    {"binary_copy_read_batch_bytes", VALUE_NUMBER, AT(copy_bytes), PENNON_COMPACT_SET_COPY_BYTES},
    {"max_source_fragments", VALUE_NUMBER, AT(max_sources), PENNON_COMPACT_SET_MAX_SOURCE_FRAGMENTS},
};

static pennon_status bad_value(const struct setting *s, struct bytes value, pennon_error *err)
{
    static const char *const expected[] = {"a non-negative integer", "'true' or 'false'", "a float between 0.0 and 1.0"};
    return error_set(err, PENNON_INVALID_ARGUMENT, "Invalid value for " CONFIG_PREFIX "%s: '%.*s' (expected %s)", s->name,
                     (int)min_u64(value.size, 128), (const char *)value.data, expected[s->kind]);
}

static pennon_status read_value(const struct setting *s, struct bytes value, struct compact_settings *out, pennon_error *err)
{
    void *to = (char *)out + s->offset;
    switch (s->kind) {
    case VALUE_NUMBER: return parse_number(value, to) ? PENNON_OK : bad_value(s, value, err);
    case VALUE_BOOL: return parse_bool(value, to) ? PENNON_OK : bad_value(s, value, err);
    case VALUE_REAL: return parse_real(value, to) ? PENNON_OK : bad_value(s, value, err);
    default: ASSERT(s->kind == VALUE_MODE);
    }
    if (compact_mode_parse(value, to, err) == PENNON_OK) return PENNON_OK;
    return error_prefix(err, "Invalid value for " CONFIG_PREFIX "%s", s->name);
}

static pennon_status read_config(const struct call *c, const struct snapshot *s, struct compact_settings *out, pennon_error *err)
{
    const size_t prefix = strlen(CONFIG_PREFIX);
    for (size_t i = 0; i < s->manifest.n_config; i++) {
        const struct map_entry *e = &s->manifest.config[i];
        if (e->key.size < prefix || memcmp(e->key.data, CONFIG_PREFIX, prefix) != 0) continue;
        const struct bytes name = bytes_of(e->key.data + prefix, e->key.size - prefix);
        size_t k = 0;
        while (k < ARRAY_LEN(known) && !bytes_equal(name, bytes_str(known[k].name))) k++;
        if (k < ARRAY_LEN(known)) {
            TRY_RETURN(read_value(&known[k], e->value, out, err));
        } else {
            call_log(c, PENNON_LOG_WARN, "ignoring unknown compaction config key: %.*s", (int)min_u64(e->key.size, 128),
                     (const char *)e->key.data);
        }
    }
    return PENNON_OK;
}

/* ---- the caller ---- */

static void take_given(const pennon_compaction_options *o, struct compact_settings *s)
{
    const uint32_t set = o->set;
    if (set & PENNON_COMPACT_SET_TARGET_ROWS) s->target_rows = o->target_rows_per_fragment;
    if (set & PENNON_COMPACT_SET_MAX_ROWS_PER_GROUP) s->rows_per_group = o->max_rows_per_group;
    if (set & PENNON_COMPACT_SET_MAX_BYTES) s->max_bytes = o->max_bytes_per_file;
    if (set & PENNON_COMPACT_SET_MATERIALIZE_DELETIONS) s->materialize = o->materialize_deletions;
    if (set & PENNON_COMPACT_SET_THRESHOLD) s->threshold = o->materialize_deletions_threshold;
    if (set & PENNON_COMPACT_SET_NUM_THREADS) s->threads = o->num_threads;
    if (set & PENNON_COMPACT_SET_BATCH_SIZE) s->batch_rows = o->batch_size;
    if (set & PENNON_COMPACT_SET_IO_BUFFER_SIZE) s->io_buffer = o->io_buffer_size;
    if (set & PENNON_COMPACT_SET_DEFER_INDEX_REMAP) s->defer = o->defer_index_remap;
    if (set & PENNON_COMPACT_SET_MODE) s->mode = o->compaction_mode;
    if (set & PENNON_COMPACT_SET_COPY_BYTES) s->copy_bytes = o->binary_copy_read_batch_bytes;
    if (set & PENNON_COMPACT_SET_MAX_SOURCE_FRAGMENTS) s->max_sources = o->max_source_fragments;
}

pennon_status compact_settings_make(const struct call *c, const struct snapshot *s, const pennon_compaction_options *o,
                                    struct compact_settings *out, pennon_error *err)
{
    compact_settings_init(out);
    if (o->compaction_mode < PENNON_COMPACT_AUTO || o->compaction_mode > PENNON_COMPACT_FORCE_BINARY_COPY)
        return error_set(err, PENNON_INVALID_ARGUMENT, "compaction_mode %d is not one of the PENNON_COMPACT_ values",
                         o->compaction_mode);
    TRY_RETURN(read_config(c, s, out, err));
    take_given(o, out);
    if (out->materialize && out->threshold >= 1) out->materialize = false;
    return PENNON_OK;
}
