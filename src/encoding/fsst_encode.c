/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* FSST encoding: a table of up to 255 symbols trained on a sample, and greedy compression with it.
 *
 * Training starts without symbols and runs some rounds over the sample. A round encodes the sample with the table so far,
 * counts the symbols used and the pairs that follow each other, and makes the next table of the candidates that save the most
 * bytes: symbols, and concatenations of pairs. The first rounds look at part of the sample only. In all rounds but the last
 * the first byte of each symbol is counted too, so that a table can fall back to shorter symbols.
 *
 * Lookup: a hash of the next three bytes leads to a chain of symbols of three and more bytes, longest first; a table of the
 * next two bytes gives the symbol of two or one bytes, or says that the byte must be escaped.
 *
 * The sample is taken at places that depend on the input alone: the same values give the same table.
 *
 * Source: spec file-format 8.10; Boncz, Neumann, Leis, "FSST: Fast Random Access String Compression", VLDB 2020. */
#include "encoding/codec.h"

#define SAMPLE_TARGET (1u << 15) /* bytes */
#define SAMPLE_PIECE 128u        /* at most, out of one value; small ones see more values */
#define ROUNDS 6u
#define FRACTION_ONE 128u
#define MAX_SYMBOLS 255u
#define CODE_BASE 256u /* while training, codes below are escaped bytes */
#define CODE_LIMIT 512u
#define HASH_BITS 10u
#define HASH_SLOTS (1u << HASH_BITS)
#define NO_SYMBOL 0xFFFFu
#define CANDIDATE_SLOTS (1u << 16)
#define CANDIDATES (CANDIDATE_SLOTS / 2)

static const uint8_t round_fraction[ROUNDS] = {8, 38, 68, 98, 108, 128};

struct symbol {
    uint64_t bytes; /* first byte lowest, zero above the length */
    uint32_t length;
};

/* A found symbol in one number: code in the low nine bits (256 and more: escape), bytes it covers from bit 12 on. */
#define FOUND(code, length) ((uint16_t)((code) | (length) << 12))
#define FOUND_CODE(found) ((found)&0x1FFu)
#define FOUND_LENGTH(found) ((found) >> 12)
#define FOUND_ESCAPE FOUND(511u, 1u) /* the low byte is the escape code */

/* A symbol of three bytes or more in the hash: sixteen bytes, so that a lookup touches one cache line. */
struct slot {
    uint64_t bytes;
    uint16_t found;
    uint16_t next;   /* in `more`, or NO_SYMBOL; by falling length */
    uint16_t unused; /* high bits of a word that do not count; 64 = empty */
    uint16_t length; /* an empty slot has one that no value has */
};

struct table {
    struct symbol symbols[MAX_SYMBOLS];
    uint32_t n, n_more;
    struct slot slots[HASH_SLOTS]; /* the longest of each chain */
    struct slot more[MAX_SYMBOLS]; /* the others */
    uint16_t pair[65536];          /* FOUND for the next two bytes, of two, one or no symbol bytes */
    uint16_t single[256];          /* FOUND for one byte */
};

struct fsst_encoder {
    struct mem *mem;
    struct table table;
};

struct candidate {
    uint64_t bytes;
    uint64_t gain;
    uint32_t length;
    uint32_t slot; /* where candidate_slots points to this one */
};

struct trainer {
    uint8_t sample[SAMPLE_TARGET + SAMPLE_PIECE + 8];
    uint32_t piece_end[SAMPLE_TARGET + 1]; /* ends of the pieces in the sample */
    uint32_t pieces;
    uint16_t count1[CODE_LIMIT];
    uint16_t count2[CODE_LIMIT][CODE_LIMIT];   /* a row is set (to zero first) once its count1 is not zero */
    uint16_t candidate_slots[CANDIDATE_SLOTS]; /* hash: candidate + 1, 0 = free */
    struct candidate candidates[CANDIDATES];
    uint16_t heap[CANDIDATES];
    uint32_t n_candidates;
};

_Static_assert(sizeof(struct trainer) + sizeof(struct fsst_encoder) <= FSST_TRAINING_BYTES, "what training takes");

static ALWAYS_INLINE uint64_t mask_of(uint32_t length) { return UINT64_MAX >> (64 - 8 * length); }

static ALWAYS_INLINE uint32_t hash3(uint64_t word)
{
    return (uint32_t)(((word & 0xFFFFFF) * UINT64_C(0x9E3779B97F4A7C15)) >> (64 - HASH_BITS));
}

static ALWAYS_INLINE uint64_t next_random(uint64_t *state)
{
    /* splitmix64 */
    *state += UINT64_C(0x9E3779B97F4A7C15);
    uint64_t z = *state;
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

/* ---- the table ---- */

static const struct slot slot_empty = {0, 0, NO_SYMBOL, 0, UINT16_MAX};

static void table_init(struct table *t)
{
    t->n = t->n_more = 0;
    for (uint32_t i = 0; i < HASH_SLOTS; i++) t->slots[i] = slot_empty;
    for (uint32_t i = 0; i < 256; i++) t->single[i] = FOUND_ESCAPE;
    for (uint32_t i = 0; i < 65536; i += 256) memcpy(t->pair + i, t->single, sizeof t->single);
}

/* Take all symbols out again: only what they touched is written, which is little of the tables. */
static void table_clear(struct table *t)
{
    for (uint32_t c = 0; c < t->n; c++) {
        const struct symbol s = t->symbols[c];
        const uint32_t first = (uint32_t)s.bytes & 0xFF;
        if (s.length == 1) {
            t->single[first] = FOUND_ESCAPE;
            for (uint32_t second = 0; second < 256; second++) t->pair[first | second << 8] = FOUND_ESCAPE;
        } else if (s.length == 2) {
            t->pair[s.bytes & 0xFFFF] = FOUND_ESCAPE;
        } else {
            t->slots[hash3(s.bytes)] = slot_empty;
        }
    }
    t->n = t->n_more = 0;
}

/* Put a symbol in its chain, behind those that are at least as long. */
static void chain_insert(struct table *t, struct slot in)
{
    struct slot *at = &t->slots[hash3(in.bytes)];
    if (at->length == UINT16_MAX) {
        *at = in;
        return;
    }
    for (;;) {
        if (at->length < in.length) {
            const struct slot shorter = *at;
            *at = in;
            at->next = shorter.next;
            in = shorter;
        }
        if (at->next == NO_SYMBOL) break;
        at = &t->more[at->next];
    }
    in.next = NO_SYMBOL;
    at->next = (uint16_t)t->n_more;
    t->more[t->n_more++] = in;
}

static void table_add(struct table *t, uint64_t bytes, uint32_t length)
{
    ASSERT(t->n < MAX_SYMBOLS && length >= 1 && length <= 8);
    const uint32_t code = t->n++;
    const uint16_t found = FOUND(code, length);
    t->symbols[code] = (struct symbol){bytes, length};
    if (length == 1) {
        t->single[bytes & 0xFF] = found;
        for (uint32_t second = 0; second < 256; second++) {
            uint16_t *pair = &t->pair[(bytes & 0xFF) | second << 8];
            if (FOUND_LENGTH(*pair) < 2) *pair = found;
        }
    } else if (length == 2) {
        t->pair[bytes & 0xFFFF] = found;
    } else {
        chain_insert(t, (struct slot){bytes, found, NO_SYMBOL, (uint16_t)(64 - 8 * length), (uint16_t)length});
    }
}

static ALWAYS_INLINE bool slot_matches(const struct slot *s, uint64_t word, size_t left)
{
    return ((word ^ s->bytes) << s->unused) == 0 && s->length <= left;
}

/* The longest symbol that begins the `left` (1..) bytes in `word`, or FOUND_ESCAPE. Bytes of the word past `left` are zero. */
static ALWAYS_INLINE unsigned table_find(const struct table *t, uint64_t word, size_t left)
{
    const struct slot *s = &t->slots[hash3(word)];
    const unsigned shorter = left >= 2 ? t->pair[word & 0xFFFF] : t->single[word & 0xFF];
    if (UNLIKELY(s->next != NO_SYMBOL)) {
        while (!slot_matches(s, word, left)) {
            if (s->next == NO_SYMBOL) return shorter;
            s = &t->more[s->next];
        }
        return s->found;
    }
    return slot_matches(s, word, left) ? s->found : shorter;
}

/* Up to eight bytes from p, zero above the value's end. `readable` is the end of all bytes. */
static ALWAYS_INLINE uint64_t word_at(const uint8_t *p, size_t left, const uint8_t *readable)
{
    if (LIKELY((size_t)(readable - p) >= 8)) {
        const uint64_t word = load_u64(p);
        return left >= 8 ? word : word & mask_of((uint32_t)left);
    }
    uint8_t raw[8] = {0};
    memcpy(raw, p, left < 8 ? left : 8);
    return load_u64(raw);
}

/* ---- the sample ---- */

static uint64_t offset_at(unsigned width, const uint8_t *offsets, uint64_t i)
{
    uint32_t v32;
    uint64_t v64;
    if (width == 4) {
        memcpy(&v32, offsets + 4 * i, 4);
        return v32;
    }
    memcpy(&v64, offsets + 8 * i, 8);
    return v64;
}

/* Add bytes of one value as a piece. */
static void sample_add(struct trainer *t, uint32_t *size, const uint8_t *data, uint64_t length)
{
    ASSERT(length > 0 && *size + length <= SAMPLE_TARGET + SAMPLE_PIECE && t->pieces <= SAMPLE_TARGET);
    memcpy(t->sample + *size, data, (size_t)length);
    *size += (uint32_t)length;
    t->piece_end[t->pieces++] = *size;
}

static void sample_take(struct trainer *t, unsigned width, const uint8_t *offsets, uint64_t n, const uint8_t *data)
{
    const uint64_t begin = offset_at(width, offsets, 0);
    const uint64_t total = offset_at(width, offsets, n) - begin;
    uint64_t random = total ^ n;
    uint32_t size = 0;
    /* All values in pieces when they are few, else pieces of values at random places. */
    const bool all = total <= SAMPLE_TARGET;
    for (uint64_t i = 0, tries = 0; size < SAMPLE_TARGET && (all ? i < n : tries < 8 * (uint64_t)SAMPLE_TARGET); i++, tries++) {
        if (!all) i = next_random(&random) % n;
        const uint64_t start = offset_at(width, offsets, i);
        const uint64_t length = offset_at(width, offsets, i + 1) - start;
        if (length == 0) continue;
        if (all) {
            for (uint64_t at = 0; at < length; at += SAMPLE_PIECE) {
                sample_add(t, &size, data + start + at, min_u64(SAMPLE_PIECE, length - at));
            }
        } else {
            const uint64_t at = SAMPLE_PIECE * (next_random(&random) % div_ceil(length, SAMPLE_PIECE));
            sample_add(t, &size, data + start + at, min_u64(SAMPLE_PIECE, length - at));
        }
    }
}

/* ---- rounds ---- */

static ALWAYS_INLINE void count_up(uint16_t *count)
{
    if (*count < UINT16_MAX) (*count)++;
}

/* The first time that a code occurs its row of pairs becomes zeros: most rows are never touched. */
static ALWAYS_INLINE void count_code(struct trainer *t, unsigned code)
{
    if (t->count1[code] == 0) memset(t->count2[code], 0, sizeof t->count2[code]);
    count_up(&t->count1[code]);
}

/* Encode one piece with the table so far and count. Codes: CODE_BASE + symbol, or the byte itself. */
static void piece_count(struct trainer *t, const struct table *table, const uint8_t *p, const uint8_t *end, bool pairs)
{
    unsigned before = CODE_LIMIT; /* none */
    while (p < end) {
        const size_t left = (size_t)(end - p);
        const unsigned found = table_find(table, word_at(p, left, end), left);
        const unsigned code = found == FOUND_ESCAPE ? *p : CODE_BASE + FOUND_CODE(found);
        const unsigned length = FOUND_LENGTH(found);
        count_code(t, code);
        if (length > 1) count_code(t, *p);
        if (pairs && before != CODE_LIMIT) {
            count_up(&t->count2[before][code]);
            if (length > 1) count_up(&t->count2[before][*p]);
        }
        before = code;
        p += length;
    }
}

static void sample_count(struct trainer *t, const struct table *table, unsigned fraction)
{
    memset(t->count1, 0, sizeof t->count1);
    uint64_t random = fraction;
    uint32_t begin = 0;
    for (uint32_t i = 0; i < t->pieces; i++) {
        const uint32_t end = t->piece_end[i];
        const bool skip = fraction < FRACTION_ONE && next_random(&random) % FRACTION_ONE >= fraction;
        if (!skip) piece_count(t, table, t->sample + begin, t->sample + end, fraction < FRACTION_ONE);
        begin = end;
    }
}

static struct symbol symbol_of(const struct table *table, unsigned code)
{
    return code < CODE_BASE ? (struct symbol){code, 1} : table->symbols[code - CODE_BASE];
}

static void candidate_add(struct trainer *t, struct symbol s, uint64_t count, unsigned fraction)
{
    /* Rare candidates are noise of the sample. */
    if (count < 5 * fraction / FRACTION_ONE) return;
    uint32_t at = (uint32_t)(((s.bytes ^ s.length) * UINT64_C(0x9E3779B97F4A7C15)) >> 48);
    for (; t->candidate_slots[at] != 0; at = (at + 1) % CANDIDATE_SLOTS) {
        struct candidate *c = &t->candidates[t->candidate_slots[at] - 1];
        if (c->bytes == s.bytes && c->length == s.length) {
            c->gain += count * s.length;
            return;
        }
    }
    if (t->n_candidates == CANDIDATES) return;
    t->candidates[t->n_candidates] = (struct candidate){s.bytes, count * s.length, s.length, at};
    t->candidate_slots[at] = (uint16_t)++t->n_candidates;
}

static void candidates_collect(struct trainer *t, const struct table *table, unsigned fraction)
{
    for (uint32_t i = 0; i < t->n_candidates; i++) t->candidate_slots[t->candidates[i].slot] = 0;
    t->n_candidates = 0;
    const unsigned codes = CODE_BASE + table->n;
    for (unsigned a = 0; a < codes; a++) {
        if (t->count1[a] == 0) continue;
        const struct symbol s1 = symbol_of(table, a);
        /* Single bytes weigh more: without them their every occurrence costs an escape. */
        candidate_add(t, s1, (uint64_t)t->count1[a] * (s1.length == 1 ? 8 : 1), fraction);
        if (fraction == FRACTION_ONE || s1.length == 8) continue;
        const uint16_t *row = t->count2[a];
        for (unsigned b = 0; b < codes; b++) {
            uint64_t four;
            memcpy(&four, row + b / 4 * 4, sizeof four);
            if (four == 0) b |= 3; /* pairs are few */
            if (row[b] == 0) continue;
            const struct symbol s2 = symbol_of(table, b);
            const uint32_t length = s1.length + s2.length < 8 ? s1.length + s2.length : 8;
            const uint64_t bytes = (s1.bytes | s2.bytes << (8 * s1.length)) & mask_of(length);
            candidate_add(t, (struct symbol){bytes, length}, row[b], fraction);
        }
    }
}

/* Worse candidates first: by gain, then by bytes, so that the order does not depend on the hash. */
static bool candidate_less(const struct candidate *a, const struct candidate *b)
{
    if (a->gain != b->gain) return a->gain < b->gain;
    if (a->bytes != b->bytes) return a->bytes > b->bytes;
    return a->length < b->length;
}

/* Sift the entry at `i` down a heap of n candidates whose best is on top. */
static void heap_sift(const struct trainer *t, uint16_t *heap, uint32_t i, uint32_t n)
{
    const uint16_t sinking = heap[i];
    for (;;) {
        uint32_t child = 2 * i + 1;
        if (child >= n) break;
        if (child + 1 < n && candidate_less(&t->candidates[heap[child]], &t->candidates[heap[child + 1]])) child++;
        if (!candidate_less(&t->candidates[sinking], &t->candidates[heap[child]])) break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = sinking;
}

/* The table of the best candidates. */
static void table_make(struct trainer *t, struct table *table)
{
    uint16_t *heap = t->heap;
    uint32_t n = t->n_candidates;
    for (uint32_t i = 0; i < n; i++) heap[i] = (uint16_t)i;
    table_clear(table);
    for (uint32_t i = n / 2; i > 0; i--) heap_sift(t, heap, i - 1, n);
    while (n > 0 && table->n < MAX_SYMBOLS) {
        const struct candidate *best = &t->candidates[heap[0]];
        table_add(table, best->bytes, best->length);
        heap[0] = heap[--n];
        heap_sift(t, heap, 0, n);
    }
}

pennon_status fsst_train(struct mem *mem, unsigned offset_width, const void *offsets, uint64_t n, const uint8_t *data,
                         struct fsst_encoder **out, pennon_error *err)
{
    ASSERT(offset_width == 4 || offset_width == 8);
    pennon_status st = PENNON_OK;
    struct fsst_encoder *e = NULL;
    struct trainer *t = NULL;
    TRY_NEW(e, mem_alloc(mem, sizeof *e, err));
    e->mem = mem;
    table_init(&e->table);
    TRY_NEW(t, mem_alloc(mem, sizeof *t, err));
    t->pieces = t->n_candidates = 0;
    memset(t->candidate_slots, 0, sizeof t->candidate_slots);
    if (n > 0) sample_take(t, offset_width, offsets, n, data);
    for (unsigned r = 0; r < ROUNDS; r++) {
        sample_count(t, &e->table, round_fraction[r]);
        candidates_collect(t, &e->table, round_fraction[r]);
        table_make(t, &e->table);
    }
    *out = e;
    e = NULL;
done:
    mem_free(mem, t);
    mem_free(mem, e);
    return st;
}

void fsst_encoder_free(struct fsst_encoder *e)
{
    if (e) mem_free(e->mem, e);
}

void fsst_encoder_table(const struct fsst_encoder *e, uint8_t out[FSST_TABLE_SIZE])
{
    static const uint8_t magic[4] = {0x54, 0x53, 0x53, 0x46};
    const struct table *t = &e->table;
    memset(out, 0, FSST_TABLE_SIZE);
    out[0] = (uint8_t)t->n;
    out[2] = (uint8_t)t->n; /* no symbol is claimed to have no longer one: readers do not use it */
    out[3] = 1;
    memcpy(out + 4, magic, 4);
    for (uint32_t c = 0; c < t->n; c++) {
        store_u64(out + 8 + 8 * (size_t)c, t->symbols[c].bytes);
        out[8 + 8 * (size_t)t->n + c] = (uint8_t)t->symbols[c].length;
    }
}

/* ---- compression ---- */

/* Compress [p, end) to `to`, where twice as many bytes may be written. Returns the end of the codes. */
static ALWAYS_INLINE uint8_t *value_compress(const struct table *t, const uint8_t *p, const uint8_t *end, const uint8_t *readable,
                                             uint8_t *to)
{
    while (p < end) {
        const size_t left = (size_t)(end - p);
        const unsigned found = table_find(t, word_at(p, left, readable), left);
        /* No branch on the escape: the literal is written in any case, and kept or not. */
        to[0] = (uint8_t)found;
        to[1] = *p;
        to += 1 + ((found >> 8) & 1);
        p += FOUND_LENGTH(found);
    }
    return to;
}

pennon_status fsst_compress(const struct fsst_encoder *e, unsigned offset_width, const void *offsets, uint64_t n,
                            const uint8_t *data, struct buf *out, void *out_offsets, pennon_error *err)
{
    ASSERT(offset_width == 4 || offset_width == 8);
    const uint8_t *readable = data + offset_at(offset_width, offsets, n);
    const uint64_t most = offset_width == 4 ? INT32_MAX : INT64_MAX;
    uint8_t *to = out_offsets;
    for (uint64_t i = 0; i <= n; i++) {
        if (out->size > most) {
            return error_set(err, PENNON_OVER_BUDGET, "%zu compressed bytes do not fit %u bit offsets", out->size,
                             offset_width * 8);
        }
        const uint32_t v32 = (uint32_t)out->size;
        const uint64_t v64 = out->size;
        memcpy(to + i * offset_width, offset_width == 4 ? (const void *)&v32 : (const void *)&v64, offset_width);
        if (i == n) break;
        const uint64_t start = offset_at(offset_width, offsets, i);
        const uint64_t end = offset_at(offset_width, offsets, i + 1);
        ASSERT(start <= end);
        if (start == end) continue;
        if (out->cap - out->size < 2 * (end - start)) TRY_RETURN(buf_grow(out, (size_t)(2 * (end - start)), err));
        uint8_t *stop = value_compress(&e->table, data + start, data + end, readable, out->data + out->size);
        out->size = (size_t)(stop - out->data);
    }
    return PENNON_OK;
}
