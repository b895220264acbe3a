/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* What the metadata of a field asks of the page writer.
 *
 * As official: unknown compression names, sizes out of range and unknown layouts are errors; numbers that do not parse and unknown
 * modes of byte stream split are ignored.
 *
 * Source: spec file-format 10. */
#include <math.h>
#include <stdlib.h>

#include "encoding/page_write.h"

#define CHUNK_SIZE_SMALL_MAX 32768u /* 2.1 ignores sizes from here on */

void page_options_init(struct page_options *o)
{
    *o = (struct page_options){
        .dict_divisor = 2,
        .dict_size_ratio = 0.8,
        .dict_values_compression = PAGE_COMPRESSION_LZ4,
    };
}

static bool text_is(struct bytes value, const char *text) { return bytes_equal(value, bytes_str(text)); }

/* ASCII letters of both cases. */
static bool text_is_nocase(struct bytes value, const char *text)
{
    if (value.size != strlen(text)) return false;
    for (size_t i = 0; i < value.size; i++) {
        const uint8_t c = value.data[i];
        if ((c >= 'A' && c <= 'Z' ? c + 32 : c) != text[i]) return false;
    }
    return true;
}

static bool parse_int(struct bytes value, int64_t *out)
{
    char text[32];
    char *end = NULL;
    if (value.size == 0 || value.size >= sizeof text || value.data[0] == ' ') return false;
    memcpy(text, value.data, value.size);
    text[value.size] = 0;
    const long long v = strtoll(text, &end, 10);
    if (end != text + value.size) return false;
    *out = v;
    return true;
}

/* Decimal point whatever the locale: digits, one point, an exponent of ten are all that is taken. */
static bool parse_real(struct bytes value, double *out)
{
    double v = 0;
    int64_t exponent = 0, shift = 0;
    size_t i = 0;
    bool digits = false, point = false, negative = false;
    if (i < value.size && (value.data[i] == '-' || value.data[i] == '+')) negative = value.data[i++] == '-';
    for (; i < value.size; i++) {
        const uint8_t c = value.data[i];
        if (c == '.' && !point) {
            point = true;
        } else if (c >= '0' && c <= '9') {
            v = v * 10 + (c - '0');
            shift -= point;
            digits = true;
        } else {
            break;
        }
    }
    if (!digits) return false;
    if (i < value.size) {
        if (value.data[i] != 'e' && value.data[i] != 'E') return false;
        if (!parse_int(bytes_of(value.data + i + 1, value.size - i - 1), &exponent) || llabs(exponent) > 400) return false;
    }
    v *= pow(10, (double)(exponent + shift));
    *out = negative ? -v : v;
    return true;
}

static pennon_status parse_compression(const char *key, struct bytes value, bool fsst, enum page_compression *out,
                                       pennon_error *err)
{
    if (text_is(value, "none")) {
        *out = PAGE_COMPRESSION_NONE;
    } else if (text_is(value, "lz4")) {
        *out = PAGE_COMPRESSION_LZ4;
    } else if (text_is(value, "zstd")) {
        *out = PAGE_COMPRESSION_ZSTD;
    } else if (fsst && text_is(value, "fsst")) {
        *out = PAGE_COMPRESSION_FSST;
    } else {
        return error_set(err, PENNON_INVALID_ARGUMENT, "%s: unknown compression \"%.*s\"", key, (int)min_u64(value.size, 100),
                         (const char *)value.data);
    }
    return PENNON_OK;
}

static void parse_level(struct bytes value, bool *has, int32_t *out)
{
    int64_t level = 0;
    if (!parse_int(value, &level) || level < INT32_MIN || level > INT32_MAX) return;
    *has = true;
    *out = (int32_t)level;
}

static void parse_bss(struct bytes value, enum page_bss *out)
{
    if (text_is_nocase(value, "off")) *out = PAGE_BSS_OFF;
    if (text_is_nocase(value, "on")) *out = PAGE_BSS_ON;
    if (text_is_nocase(value, "auto")) *out = PAGE_BSS_AUTO;
}

static pennon_status parse_structure(struct bytes value, enum page_structure *out, pennon_error *err)
{
    if (text_is_nocase(value, "miniblock")) {
        *out = PAGE_STRUCTURE_MINI_BLOCK;
    } else if (text_is_nocase(value, "fullzip")) {
        *out = PAGE_STRUCTURE_FULL_ZIP;
    } else {
        return error_set(err, PENNON_INVALID_ARGUMENT, "lance-encoding:structural-encoding: unknown layout \"%.*s\"",
                         (int)min_u64(value.size, 100), (const char *)value.data);
    }
    return PENNON_OK;
}

static pennon_status parse_ratio(struct bytes value, double *out, pennon_error *err)
{
    double v = 0;
    if (!parse_real(value, &v)) return PENNON_OK;
    if (!(v > 0 && v <= 1)) {
        return error_set(err, PENNON_INVALID_ARGUMENT, "lance-encoding:dict-size-ratio: %g is not above 0 and at most 1", v);
    }
    *out = v;
    return PENNON_OK;
}

/* One key; `name` is what stands behind "lance-encoding:". */
static pennon_status option_read(struct page_options *o, const char *name, struct bytes value, uint32_t version, pennon_error *err)
{
    int64_t number = 0;
    if (strcmp(name, "compression") == 0) {
        return parse_compression("lance-encoding:compression", value, true, &o->compression, err);
    }
    if (strcmp(name, "dict-values-compression") == 0) {
        return parse_compression("lance-encoding:dict-values-compression", value, false, &o->dict_values_compression, err);
    }
    if (strcmp(name, "dict-size-ratio") == 0) return parse_ratio(value, &o->dict_size_ratio, err);
    if (strcmp(name, "compression-level") == 0) {
        parse_level(value, &o->has_level, &o->compression_level);
    } else if (strcmp(name, "dict-values-compression-level") == 0) {
        parse_level(value, &o->has_dict_values_level, &o->dict_values_level);
    } else if (strcmp(name, "rle-threshold") == 0) {
        o->has_rle_threshold = parse_real(value, &o->rle_threshold) || o->has_rle_threshold;
    } else if (strcmp(name, "bss") == 0) {
        parse_bss(value, &o->bss);
    } else if (strcmp(name, "minichunk-size") == 0) {
        const bool good = parse_int(value, &number) && number > 0 && number <= INT32_MAX;
        if (good && (version >= STORAGE_2_2 || number < CHUNK_SIZE_SMALL_MAX)) o->chunk_size = (uint64_t)number;
    } else if (strcmp(name, "dict-divisor") == 0) {
        if (parse_int(value, &number) && number >= 0) o->dict_divisor = (uint64_t)number;
    }
    return PENNON_OK;
}

pennon_status page_options_read(struct page_options *o, const struct field_pair *pairs, size_t n, bool top, uint32_t version,
                                pennon_error *err)
{
    static const char prefix[] = "lance-encoding:";
    for (size_t i = 0; i < n; i++) {
        char name[64];
        const struct bytes key = pairs[i].key;
        const size_t skip = sizeof prefix - 1;
        if (key.size <= skip || key.size - skip >= sizeof name || memcmp(key.data, prefix, skip) != 0) continue;
        memcpy(name, key.data + skip, key.size - skip);
        name[key.size - skip] = 0;
        if (top && strcmp(name, "structural-encoding") == 0) {
            TRY_RETURN(parse_structure(pairs[i].value, &o->structure, err));
        } else if (!top) {
            TRY_RETURN(option_read(o, name, pairs[i].value, version, err));
        }
    }
    return PENNON_OK;
}
