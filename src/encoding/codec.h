/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Codecs of the data file format as pure functions over bytes, both directions.
 *
 * Nothing here does I/O or keeps state. Inputs are borrowed and may have any alignment; outputs belong to the caller. Packed
 * forms are little endian, plain values are in the byte order of the machine. Bytes of a file are untrusted: functions that
 * return a status check them and give CORRUPT; functions that return nothing are total over any input of the stated size.
 *
 *     bitunpack_1024(32, width, in, out);                  8.4   the FastLanes kernel
 *     inline_bitpack_decode(32, chunk, n, out, err);       8.5   one mini-block chunk
 *     outline_bitpack_decode(16, width, in, n, out, err);  8.6   levels, dictionaries
 *     rle_expand(4, values, lengths, true, n, out, err);   8.7
 *     bss_decode(4, in, n, out);                           8.8
 *     fsst_decode_values(&dec, in, offsets, ...);          8.10
 *     variable_block_open / variable_chunk_open            8.2, 8.3
 *     general_decode(scheme, in, max, out, err);           8.11
 *
 * Source: spec file-format, section 8. */
#ifndef ENCODING_CODEC_H
#define ENCODING_CODEC_H

#include "base/base.h"

/* ---- bit packing, FastLanes order (8.4) ---- */

#define BITPACK_GROUP 1024u

/* Unpack 1024 values of `t_bits` (8, 16, 32, 64) from 128 * width bytes; width 0..t_bits. `out` gets 1024 * t_bits / 8 bytes.
 * Reads and writes exactly these; any alignment; no overlap. */
void bitunpack_1024(unsigned t_bits, unsigned width, const void *in, void *out);
/* The reverse. Bits of a value above `width` are dropped. */
void bitpack_1024(unsigned t_bits, unsigned width, const void *in, void *out);
/* Value `index` (0..1023) of one packed group. */
uint64_t bitunpack_one(unsigned t_bits, unsigned width, const void *in, unsigned index);
/* Width that the widest of `n` values needs, as unsigned; 0 when all are zero or n is 0. */
unsigned bitpack_max_width(unsigned t_bits, const void *values, size_t n);
/* The kernels of one CPU level (base/base.h CPU_*), for the tests: each level at or below cpu_level() may be asked for. */
void bitunpack_1024_level(int level, unsigned t_bits, unsigned width, const void *in, void *out);
void bitpack_1024_level(int level, unsigned t_bits, unsigned width, const void *in, void *out);

/* Inline form (8.5): one word of t_bits with the width, then 128 * width bytes; n in 1..1024. `out` gets n values.
 * CORRUPT: length or width wrong. */
pennon_status inline_bitpack_decode(unsigned t_bits, struct bytes in, size_t n, void *out, pennon_error *err) CHECKED;
/* Value `index` (< 1024) of an inline group; same checks. */
pennon_status inline_bitpack_one(unsigned t_bits, struct bytes in, size_t index, uint64_t *out, pennon_error *err) CHECKED;
/* Appends the inline form of n (1..1024) values, padded with zeros to 1024. */
pennon_status inline_bitpack_encode(unsigned t_bits, const void *values, size_t n, struct buf *out, pennon_error *err) CHECKED;

/* Out-of-line form (8.6): groups of 1024, the tail packed or raw. `out` gets n values. CORRUPT: width > t_bits or length. */
pennon_status outline_bitpack_decode(unsigned t_bits, unsigned width, struct bytes in, size_t n, void *out,
                                     pennon_error *err) CHECKED;
/* Appends the packed form of n values with one width (0..t_bits) that fits them all. */
pennon_status outline_bitpack_encode(unsigned t_bits, unsigned width, const void *values, size_t n, struct buf *out,
                                     pennon_error *err) CHECKED;
/* Bytes that outline_bitpack_encode appends. */
size_t outline_bitpack_size(unsigned t_bits, unsigned width, size_t n);

/* ---- run lengths (8.7) ---- */

/* Expand runs into n values of `width` (1, 2, 4, 8) bytes. `clamp` is the mini-block rule: what goes past n is ignored; the
 * block rule is an exact sum. CORRUPT: zero length, too short, too long without clamp, sizes that disagree. */
pennon_status rle_expand(unsigned width, struct bytes values, struct bytes lengths, bool clamp, size_t n, void *out,
                         pennon_error *err) CHECKED;
/* Parts of the block form: u64 size of the values, values, lengths. */
pennon_status rle_block_open(struct bytes in, struct bytes *values, struct bytes *lengths, pennon_error *err) CHECKED;
/* Runs of equal neighbours among n values; width 1, 2, 4, 8 or 16 bytes; 0 for n = 0. */
size_t rle_count_runs(unsigned width, const void *values, size_t n);
/* Appends the runs of n values to `values` and `lengths`, long runs as several entries. */
pennon_status rle_encode(unsigned width, const void *in, size_t n, struct buf *values, struct buf *lengths,
                         pennon_error *err) CHECKED;
/* Appends the block form. */
pennon_status rle_block_encode(unsigned width, const void *in, size_t n, struct buf *out, pennon_error *err) CHECKED;
/* Values of the next mini-block chunk out of `n` remaining ones: all of them when they fit `max_bytes` of runs and `max_values`,
 * else the largest power of two (at least 2) that does (9.6). */
size_t rle_chunk_values(unsigned width, const void *in, size_t n, size_t max_bytes, size_t max_values);

/* ---- byte stream split (8.8) ---- */

/* n values of `width` (4 or 8) bytes; in and out hold n * width bytes and do not overlap. */
void bss_decode(unsigned width, const uint8_t *in, size_t n, uint8_t *out);
void bss_encode(unsigned width, const uint8_t *in, size_t n, uint8_t *out);

/* ---- variable width values (8.2, 8.3) ---- */

/* n values as offsets into `base`: value i is base[offset i, offset i + 1). Opened views have been checked: offsets never
 * decrease and stay inside `base`. */
struct variable_view {
    struct bytes base;      /* what the offsets are relative to */
    const uint8_t *offsets; /* n + 1 little-endian offsets, any alignment */
    unsigned offset_width;  /* 4 or 8 bytes */
    uint64_t n;
};

static inline uint64_t variable_offset(const struct variable_view *v, uint64_t i)
{
    return v->offset_width == 4 ? load_u32(v->offsets + 4 * i) : load_u64(v->offsets + 8 * i);
}
static inline struct bytes variable_value(const struct variable_view *v, uint64_t i)
{
    uint64_t start = variable_offset(v, i);
    return bytes_of(v->base.data + start, (size_t)(variable_offset(v, i + 1) - start));
}

/* Block form of n values, the obsolete head with a count included. CORRUPT: head, length or offsets wrong. */
pennon_status variable_block_open(struct bytes in, uint64_t n, struct variable_view *out, pennon_error *err) CHECKED;
/* Mini-block chunk: offsets of `offset_width` (4, 8) bytes, then values; offsets count from the start of the buffer. */
pennon_status variable_chunk_open(struct bytes in, unsigned offset_width, uint64_t n, struct variable_view *out,
                                  pennon_error *err) CHECKED;
/* Offsets of values [first, first + n) rebased so that the first is `base`: n + 1 entries of `out_width` (4, 8) bytes in
 * machine order at `out`. OVER_BUDGET when the last does not fit a signed offset of that width. */
pennon_status variable_offsets_copy(const struct variable_view *v, uint64_t first, uint64_t n, uint64_t base, unsigned out_width,
                                    void *out, pennon_error *err) CHECKED;
/* Appends the block form. `offsets`: n + 1 of `offset_width` bytes in machine order, need not begin at 0; `data` is what they are
 * relative to. The form has the width of the offsets. */
pennon_status variable_block_encode(unsigned offset_width, const void *offsets, uint64_t n, const uint8_t *data, struct buf *out,
                                    pennon_error *err) CHECKED;
/* Appends one mini-block chunk, padded to the offset width inside (trap 18). */
pennon_status variable_chunk_encode(unsigned offset_width, const void *offsets, uint64_t n, const uint8_t *data, struct buf *out,
                                    pennon_error *err) CHECKED;

/* ---- FSST (8.10) ---- */

#define FSST_TABLE_SIZE 2312u
#define FSST_MAX_EXPANSION 8u /* decoded bytes per code byte, at most */

struct fsst_decoder {
    uint64_t symbols[256]; /* eight bytes in memory order; code 255 is the escape */
    uint8_t lengths[256];  /* 1..8; 0 past the table, and for the escape */
    unsigned n;            /* symbols, at most 255; codes past them make the input CORRUPT */
    bool stored;           /* switch off: data are not compressed */
};

/* Parse and check a symbol table of the file. */
pennon_status fsst_decoder_init(struct fsst_decoder *d, struct bytes table, pennon_error *err) CHECKED;
/* Decoded size of one value; 0 or more. CORRUPT: unknown code, or an escape at the end. */
pennon_status fsst_decoded_size(const struct fsst_decoder *d, struct bytes in, uint64_t *size, pennon_error *err) CHECKED;
/* Append one decoded value. */
pennon_status fsst_decode_value(const struct fsst_decoder *d, struct bytes in, struct buf *out, pennon_error *err) CHECKED;
/* Append n values [first, first + n) of a checked view. `out_offsets` gets n + 1 entries of `out_width` (4, 8) bytes in machine
 * order, the first being the size of `out` before. OVER_BUDGET: past the maximum of `out` or a signed offset of that width. */
pennon_status fsst_decode_values(const struct fsst_decoder *d, const struct variable_view *in, uint64_t first, uint64_t n,
                                 struct buf *out, unsigned out_width, void *out_offsets, pennon_error *err) CHECKED;

struct fsst_encoder;

/* Memory that training takes, whatever the values. */
#define FSST_TRAINING_BYTES ((uint64_t)3 << 20)

/* Train on a sample of n values (offsets as in variable_block_encode). The same input gives the same table. */
pennon_status fsst_train(struct mem *mem, unsigned offset_width, const void *offsets, uint64_t n, const uint8_t *data,
                         struct fsst_encoder **out, pennon_error *err) CHECKED;
void fsst_encoder_free(struct fsst_encoder *e); /* NULL is allowed */
void fsst_encoder_table(const struct fsst_encoder *e, uint8_t out[FSST_TABLE_SIZE]);
/* Append the compressed values; `out_offsets` gets n + 1 entries of `offset_width` bytes, the first being the size of `out`
 * before. OVER_BUDGET when the compressed values do not fit the offsets. */
pennon_status fsst_compress(const struct fsst_encoder *e, unsigned offset_width, const void *offsets, uint64_t n,
                            const uint8_t *data, struct buf *out, void *out_offsets, pennon_error *err) CHECKED;

/* ---- general compression of one buffer (8.11) ---- */

enum general_scheme { GENERAL_NONE = 0, GENERAL_LZ4 = 1, GENERAL_ZSTD = 2 }; /* values of BufferCompression.scheme */

/* Size that the framed buffer says it decodes to; not to be trusted beyond `general_decode`'s check. */
pennon_status general_decoded_size(enum general_scheme scheme, struct bytes in, uint64_t *size, pennon_error *err) CHECKED;
/* Append the decoded bytes, at most `max`: more is CORRUPT. An empty input decodes to nothing. The size word is checked against
 * what the scheme could give before anything is allocated. */
pennon_status general_decode(enum general_scheme scheme, struct bytes in, uint64_t max, struct buf *out, pennon_error *err) CHECKED;
/* Append the framed form. `level` 0 = default. */
pennon_status general_encode(enum general_scheme scheme, int level, struct bytes in, struct buf *out, pennon_error *err) CHECKED;

/* ---- bits, least significant first ---- */

/* Copy n bits between any bit positions; bits of `dst` outside the range stay. No overlap. */
void bits_copy(uint8_t *dst, uint64_t dst_bit, const uint8_t *src, uint64_t src_bit, uint64_t n);
void bits_fill(uint8_t *dst, uint64_t dst_bit, uint64_t n, bool value);
/* Set bits among n from `src_bit` on. */
uint64_t bits_count(const uint8_t *src, uint64_t src_bit, uint64_t n);
/* Bits from `src_bit` on that are equal to the first, at most n (n >= 1). */
uint64_t bits_run(const uint8_t *src, uint64_t src_bit, uint64_t n);
/* One byte a value (zero or not) to bits, and back to 0 or 1. */
void bits_from_bytes(uint8_t *dst, uint64_t dst_bit, const uint8_t *src, uint64_t n);
void bits_to_bytes(uint8_t *dst, const uint8_t *src, uint64_t src_bit, uint64_t n);
/* Bit i = (levels[i] <= limit): validity out of definition levels. */
void bits_from_levels(uint8_t *dst, uint64_t dst_bit, const uint16_t *levels, uint16_t limit, uint64_t n);

#endif
