/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* FSST decoding: bytes that stand for symbols of one to eight bytes.
 *
 * The table of a column, always 2312 bytes:
 *
 * | offset   | bytes | meaning                                                                          |
 * |----------|-------|----------------------------------------------------------------------------------|
 * | 0        | 1     | n, number of symbols, 0..255                                                     |
 * | 1        | 1     | terminator, not needed                                                           |
 * | 2        | 1     | suffix limit, not needed                                                         |
 * | 3        | 1     | switch: 1 = codes, 0 = values are stored as they are                             |
 * | 4        | 4     | magic `54 53 53 46`                                                              |
 * | 8        | 8 n   | symbols, zero padded                                                             |
 * | 8 + 8 n  | n     | their lengths, 1..8                                                              |
 *
 * In a value, code c < 255 is symbol c and 255 makes the next byte a literal.
 *
 * The loop takes up to eight codes at a time. One test over the word finds escapes and codes past the table together. Where
 * fewer than eight codes are left, the bytes behind are turned into code 255, whose table length is 0: the same eight steps
 * then do the right thing without a branch on the count, which short values would mispredict each time. Every step stores
 * eight bytes and moves on by the length; what is stored too much is overwritten or lies in the slack of the buffer.
 *
 * Many short values are decoded as one stream, whose words know nothing of values: each word keeps where its codes come to lie, as a sum and
 * eight small differences, and the values look their ends up there.
 *
 * Source: spec file-format 8.10. */
#include "encoding/codec.h"

#define FSST_MAGIC 0x46535354u
#define ESCAPE 255u
#define WORD 8u /* codes at a time, and the longest symbol */

pennon_status fsst_decoder_init(struct fsst_decoder *d, struct bytes table, pennon_error *err)
{
    memset(d, 0, sizeof *d);
    CHECK_FILE_RETURN(table.size == FSST_TABLE_SIZE, "fsst table of %zu bytes", table.size);
    CHECK_FILE_RETURN(load_u32(table.data + 4) == FSST_MAGIC, "fsst table without its magic number");
    const unsigned n = table.data[0];
    CHECK_FILE_RETURN(table.data[3] <= 1, "fsst table with switch %u", table.data[3]);
    d->stored = table.data[3] == 0;
    d->n = n;
    const uint8_t *lengths = table.data + 8 + 8 * (size_t)n;
    for (unsigned c = 0; c < n; c++) {
        CHECK_FILE_RETURN(lengths[c] >= 1 && lengths[c] <= 8, "fsst symbol %u has length %u", c, lengths[c]);
        memcpy(&d->symbols[c], table.data + 8 + 8 * (size_t)c, 8);
        d->lengths[c] = lengths[c];
    }
    return PENNON_OK;
}

/* Top bit of each byte of `word` that is at least `n`. With n = 255 only the escape is. */
static ALWAYS_INLINE uint64_t bytes_from(uint64_t word, unsigned n)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    const uint64_t low = word & (ones * 0x7F);
    const uint64_t top = ones * 0x80;
    if (n >= 128) return (low + ones * (256 - n)) & word & top;
    return ((low + ones * (128 - n)) | word) & top;
}

static ALWAYS_INLINE uint8_t *step(const struct fsst_decoder *d, unsigned code, uint8_t *to)
{
    memcpy(to, &d->symbols[code], 8);
    return to + d->lengths[code];
}

/* Decode [p, end) to `to`, where 8 * (end - p) + 64 bytes may be written; `readable` is the end of the bytes that may be read.
 * NULL when a code has no meaning. */
static ALWAYS_INLINE uint8_t *codes_decode(const struct fsst_decoder *d, const uint8_t *p, const uint8_t *end,
                                           const uint8_t *readable, uint8_t *to)
{
    while (p < end) {
        const size_t left = (size_t)(end - p);
        uint64_t word = 0;
        if (LIKELY((size_t)(readable - p) >= WORD)) {
            word = load_u64(p);
        } else {
            uint8_t raw[WORD] = {0};
            memcpy(raw, p, left < WORD ? left : WORD);
            word = load_u64(raw);
        }
        const uint64_t unused = left < WORD ? UINT64_MAX << (8 * left) : 0;
        const uint64_t special = bytes_from(word, d->n) & ~unused;
        if (LIKELY(special == 0)) {
            word |= unused;
            for (unsigned i = 0; i < WORD; i++) to = step(d, (unsigned)(word >> (8 * i)) & 0xFF, to);
            p += left < WORD ? left : WORD;
        } else {
            const unsigned plain = (unsigned)__builtin_ctzll(special) / 8;
            for (unsigned i = 0; i < plain; i++) to = step(d, p[i], to);
            p += plain;
            if (UNLIKELY(*p != ESCAPE || end - p < 2)) return NULL;
            *to++ = p[1];
            p += 2;
        }
    }
    return to;
}

pennon_status fsst_decoded_size(const struct fsst_decoder *d, struct bytes in, uint64_t *size, pennon_error *err)
{
    uint64_t total = 0;
    *size = in.size;
    if (d->stored) return PENNON_OK;
    for (size_t i = 0; i < in.size; i++) {
        const unsigned code = in.data[i];
        if (code == ESCAPE) {
            i++;
            CHECK_FILE_RETURN(i < in.size, "fsst value ends in an escape");
            total++;
        } else {
            CHECK_FILE_RETURN(code < d->n, "fsst code %u of %u", code, d->n);
            total += d->lengths[code];
        }
    }
    *size = total;
    return PENNON_OK;
}

/* Room behind the bytes in use for anything that `codes` codes can give: the most, or near the maximum of the buffer exactly
 * what they do give, decoded in a buffer of its own. */
static pennon_status decode_near_limit(const struct fsst_decoder *d, struct bytes in, struct buf *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    uint64_t size = 0;
    struct buf whole;
    buf_init(&whole, out->mem, BUF_NO_LIMIT);
    TRY(fsst_decoded_size(d, in, &size, err));
    TRY(buf_reserve(&whole, in.size * FSST_MAX_EXPANSION, err));
    TRY(buf_grow(out, (size_t)size, err));
    ASSERT(whole.data || in.size == 0);
    uint8_t *end = codes_decode(d, in.data, in.data + in.size, in.data + in.size, whole.data);
    ASSERT(end && (uint64_t)(end - whole.data) == size);
    UNUSED(end);
    TRY(buf_append(out, whole.data, (size_t)size, err));
done:
    buf_free(&whole);
    return st;
}

/* Append one value; `readable` as above. */
static ALWAYS_INLINE pennon_status append_value(const struct fsst_decoder *d, struct bytes in, const uint8_t *readable,
                                                struct buf *out, pennon_error *err)
{
    const size_t most = in.size * FSST_MAX_EXPANSION;
    if (in.size == 0) return PENNON_OK;
    if (UNLIKELY(d->stored)) return buf_append(out, in.data, in.size, err);
    if (UNLIKELY(out->cap - out->size < most)) {
        if (in.size > SIZE_MAX / FSST_MAX_EXPANSION || most > out->max - out->size) {
            return decode_near_limit(d, in, out, err);
        }
        TRY_RETURN(buf_grow(out, most, err));
    }
    uint8_t *end = codes_decode(d, in.data, in.data + in.size, readable, out->data + out->size);
    CHECK_FILE_RETURN(end != NULL, "fsst value with a code past the %u symbols, or an escape at its end", d->n);
    out->size = (size_t)(end - out->data);
    return PENNON_OK;
}

pennon_status fsst_decode_value(const struct fsst_decoder *d, struct bytes in, struct buf *out, pennon_error *err)
{
    return append_value(d, in, in.data + in.size, out, err);
}

/* ---- many values as a stream ---- */

/* Codes that are decoded at once. */
#define STREAM_CODES 4096u
#define STREAM_WORDS (STREAM_CODES / WORD)

struct stream {
    uint32_t base[STREAM_WORDS + 1];   /* bytes given before the word */
    uint64_t above[STREAM_WORDS + 1];  /* byte i: what codes 0..i-1 of the word gave */
    uint8_t literal[STREAM_WORDS + 1]; /* bit i: byte i of the word belongs to the escape before it */
};

/* A word with escapes: byte by byte. NULL: a code has no meaning. */
static uint8_t *odd_word(const struct fsst_decoder *d, uint64_t word, unsigned n, bool *escaped, struct stream *s, size_t w,
                         uint8_t *to)
{
    const uint8_t *const start = to;
    for (unsigned i = 0; i < n; i++) {
        const unsigned code = (unsigned)(word >> (8 * i)) & 0xFF;
        s->above[w] |= (uint64_t)(to - start) << (8 * i);
        if (*escaped) {
            s->literal[w] = (uint8_t)(s->literal[w] | 1u << i);
            *to++ = (uint8_t)code;
            *escaped = false;
        } else if (code == ESCAPE) {
            *escaped = true;
        } else {
            if (code >= d->n) return NULL;
            to = step(d, code, to);
        }
    }
    return to;
}

/* At most STREAM_CODES codes to `out`, which has room for eight times as many and a word. NULL as above. */
static uint8_t *stream_decode(const struct fsst_decoder *d, struct bytes in, const uint8_t *readable, struct stream *s,
                              uint8_t *out)
{
    uint8_t *to = out;
    bool escaped = false;
    size_t w = 0;
    for (size_t at = 0; at < in.size; at += WORD, w++) {
        const size_t left = in.size - at;
        uint64_t word = 0;
        if (LIKELY((size_t)(readable - (in.data + at)) >= WORD)) {
            word = load_u64(in.data + at);
        } else {
            memcpy(&word, in.data + at, left < WORD ? left : WORD);
        }
        const uint64_t unused = left < WORD ? UINT64_MAX << (8 * left) : 0;
        s->base[w] = (uint32_t)(to - out);
        s->above[w] = s->literal[w] = 0;
        if (UNLIKELY(escaped || (bytes_from(word, d->n) & ~unused) != 0)) {
            to = odd_word(d, word, left < WORD ? (unsigned)left : WORD, &escaped, s, w, to);
            if (!to) return NULL;
            continue;
        }
        word |= unused;
        uint64_t lengths = 0;
        for (unsigned i = 0; i < WORD; i++) {
            const unsigned code = (unsigned)(word >> (8 * i)) & 0xFF, length = d->lengths[code];
            memcpy(to, &d->symbols[code], 8);
            lengths |= (uint64_t)length << (8 * i);
            to += length;
        }
        s->above[w] = lengths * UINT64_C(0x0101010101010101) << 8;
    }
    s->base[w] = (uint32_t)(to - out);
    s->above[w] = s->literal[w] = 0;
    return escaped ? NULL : to;
}

static ALWAYS_INLINE void put_offset(uint8_t *offsets, uint64_t i, unsigned width, uint64_t v)
{
    const uint32_t narrow = (uint32_t)v;
    memcpy(offsets + i * width, width == 4 ? (const void *)&narrow : (const void *)&v, width);
}

/* Values from `first` on whose codes are at most STREAM_CODES together, of at most n. */
static uint64_t values_in_stream(const struct variable_view *in, uint64_t first, uint64_t n)
{
    uint64_t some = n < STREAM_CODES / 4 ? n : STREAM_CODES / 4;
    const uint64_t start = variable_offset(in, first);
    while (some > 0 && variable_offset(in, first + some) - start > STREAM_CODES) some /= 2;
    return some;
}

/* Values [first, first + n), which are a stream; the ends of all but the last are written. */
static ALWAYS_INLINE pennon_status decode_stream(const struct fsst_decoder *d, const struct variable_view *in, uint64_t first,
                                                 uint64_t n, struct stream *s, struct buf *out, unsigned width, uint8_t *offsets,
                                                 pennon_error *err)
{
    const uint64_t start = variable_offset(in, first);
    const struct bytes codes = bytes_of(in->base.data + start, (size_t)(variable_offset(in, first + n) - start));
    ASSERT(codes.size <= STREAM_CODES && out->cap - out->size >= codes.size * FSST_MAX_EXPANSION);
    const uint8_t *end = stream_decode(d, codes, in->base.data + in->base.size, s, out->data + out->size);
    CHECK_FILE_RETURN(end != NULL, "fsst values with a code past the %u symbols, or an escape at their end", d->n);
    unsigned split = 0;
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t at = variable_offset(in, first + i) - start, w = at / WORD;
        const unsigned byte = (unsigned)(at % WORD);
        split |= s->literal[w] >> byte & 1;
        put_offset(offsets, i, width, out->size + s->base[w] + (s->above[w] >> (8 * byte) & 0xFF));
    }
    CHECK_FILE_RETURN(split == 0, "fsst value ends in an escape");
    out->size = (size_t)(end - out->data);
    return PENNON_OK;
}

/* ---- one by one, or as streams ---- */

/* `width` is a constant in each caller. */
static ALWAYS_INLINE pennon_status decode_values(const struct fsst_decoder *d, const struct variable_view *in, uint64_t first,
                                                 uint64_t n, struct buf *out, unsigned width, uint8_t *offsets, pennon_error *err)
{
    struct stream s;
    const uint64_t most = width == 4 ? INT32_MAX : INT64_MAX;
    const uint8_t *readable = in->base.data + in->base.size;
    for (uint64_t i = 0; i < n;) {
        uint64_t some = d->stored ? 0 : values_in_stream(in, first + i, n - i);
        const size_t room = STREAM_CODES * FSST_MAX_EXPANSION;
        if (some > 1 && out->cap - out->size < room) {
            if (room > out->max - out->size)
                some = 0;
            else
                TRY_RETURN(buf_grow(out, room, err));
        }
        if (some > 1) {
            TRY_RETURN(decode_stream(d, in, first + i, some, &s, out, width, offsets + i * width, err));
            i += some;
        } else {
            put_offset(offsets, i, width, out->size);
            TRY_RETURN(append_value(d, variable_value(in, first + i), readable, out, err));
            i++;
        }
        if (UNLIKELY(out->size > most)) {
            return error_set(err, PENNON_OVER_BUDGET, "%zu bytes of values do not fit %u bit offsets", out->size, width * 8);
        }
    }
    put_offset(offsets, n, width, out->size);
    return PENNON_OK;
}

pennon_status fsst_decode_values(const struct fsst_decoder *d, const struct variable_view *in, uint64_t first, uint64_t n,
                                 struct buf *out, unsigned out_width, void *out_offsets, pennon_error *err)
{
    ASSERT(range_inside(first, n, in->n) && (out_width == 4 || out_width == 8));
    const uint64_t codes = variable_offset(in, first + n) - variable_offset(in, first);
    /* One growth for the whole where it fits: text rarely expands more than fourfold. */
    if (codes <= (out->max - out->size) / FSST_MAX_EXPANSION) TRY_RETURN(buf_grow(out, (size_t)codes * 2, err));
    return out_width == 4 ? decode_values(d, in, first, n, out, 4, out_offsets, err)
                          : decode_values(d, in, first, n, out, 8, out_offsets, err);
}
