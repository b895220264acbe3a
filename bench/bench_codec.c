/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Speed of the codecs, one line each: output bytes a second for decoders, input bytes a second for encoders. Inputs are fixed. */
#include <stdio.h>
#include <stdlib.h>

#include "encoding/codec.h"

#define VALUES ((size_t)1 << 18)
#define MIN_NS INT64_C(200000000)

struct bench {
    struct mem *mem;
    pennon_error err;
    uint8_t *in, *out;
    unsigned t_bits, width;
    int level;
    struct buf first, second, third;
    struct variable_view view;
    struct fsst_decoder decoder;
    struct fsst_encoder *encoder;
    uint32_t *offsets, *more_offsets;
    size_t n;
};

static void must(const struct bench *b, pennon_status st)
{
    if (st == PENNON_OK) return;
    fprintf(stderr, "%s\n", b->err.message);
    exit(1);
}

/* Repeat until a fifth of a second has passed. */
static void measure(struct bench *b, const char *name, void (*fn)(struct bench *), size_t bytes)
{
    fn(b);
    uint64_t runs = 0;
    const int64_t start = clock_monotonic_ns();
    int64_t now = start;
    while (now - start < MIN_NS) {
        fn(b);
        runs++;
        now = clock_monotonic_ns();
    }
    printf("%-36s %9.2f GB/s\n", name, (double)runs * (double)bytes / (double)(now - start));
}

static uint64_t noise(uint64_t x)
{
    x = (x + 1) * UINT64_C(0x9E3779B97F4A7C15);
    return (x ^ x >> 29) * UINT64_C(0xBF58476D1CE4E5B9) >> 7;
}

static void unpack(struct bench *b)
{
    for (size_t g = 0; g < 64; g++) {
        bitunpack_1024_level(b->level, b->t_bits, b->width, b->in + g * b->width * 128, b->out + g * 128 * b->t_bits);
    }
}

static void pack(struct bench *b)
{
    for (size_t g = 0; g < 64; g++) {
        bitpack_1024_level(b->level, b->t_bits, b->width, b->out + g * 128 * b->t_bits, b->in + g * b->width * 128);
    }
}

static void bench_bitpack(struct bench *b)
{
    static const unsigned sizes[] = {8, 16, 32, 64};
    static const char *const levels[] = {"portable", "neon", "avx2", "avx512"};
    char name[64];
    for (size_t s = 0; s < ARRAY_LEN(sizes); s++) {
        b->t_bits = sizes[s];
        for (b->level = CPU_PORTABLE; b->level <= cpu_level(); b->level++) {
            if (b->level == CPU_NEON) continue;
            for (b->width = sizes[s] / 8 + 2; b->width < sizes[s]; b->width += sizes[s] / 2) {
                (void)snprintf(name, sizeof name, "unpack %u bits, width %u, %s", b->t_bits, b->width, levels[b->level]);
                measure(b, name, unpack, (size_t)64 * 128 * b->t_bits);
                (void)snprintf(name, sizeof name, "pack %u bits, width %u, %s", b->t_bits, b->width, levels[b->level]);
                measure(b, name, pack, (size_t)64 * 128 * b->t_bits);
            }
        }
    }
}

static void rle_decode(struct bench *b)
{
    must(b, rle_expand(b->width, bytes_of(b->first.data, b->first.size), bytes_of(b->second.data, b->second.size), true, VALUES,
                       b->out, &b->err));
}

static void rle_count(struct bench *b) { b->n += rle_count_runs(b->width, b->in, VALUES); }

static void rle_code(struct bench *b)
{
    b->first.size = b->second.size = 0;
    must(b, rle_encode(b->width, b->in, VALUES, &b->first, &b->second, &b->err));
}

static void bench_rle(struct bench *b)
{
    static const size_t runs[] = {2, 8, 100};
    char name[64];
    for (size_t r = 0; r < ARRAY_LEN(runs); r++) {
        for (b->width = 1; b->width <= 8; b->width *= 2) {
            size_t i = 0;
            for (uint64_t run = 0; i < VALUES; run++) {
                const uint64_t v = noise(run);
                for (size_t k = noise(run + 7) % (2 * runs[r]) + 1; k > 0 && i < VALUES; k--, i++) {
                    memcpy(b->in + i * b->width, &v, b->width);
                }
            }
            (void)snprintf(name, sizeof name, "rle encode, %u bytes, runs of %zu", b->width, runs[r]);
            measure(b, name, rle_code, VALUES * b->width);
            (void)snprintf(name, sizeof name, "rle expand, %u bytes, runs of %zu", b->width, runs[r]);
            measure(b, name, rle_decode, VALUES * b->width);
            (void)snprintf(name, sizeof name, "rle count, %u bytes, runs of %zu", b->width, runs[r]);
            measure(b, name, rle_count, VALUES * b->width);
        }
    }
}

static void bss_join(struct bench *b)
{
    const size_t n = b->width == 4 ? 1024 : 512;
    for (size_t c = 0; c < 64; c++) bss_decode(b->width, b->in + c * 4096, n, b->out + c * 4096);
}

static void bss_split(struct bench *b)
{
    const size_t n = b->width == 4 ? 1024 : 512;
    for (size_t c = 0; c < 64; c++) bss_encode(b->width, b->in + c * 4096, n, b->out + c * 4096);
}

static void bench_bss(struct bench *b)
{
    for (b->width = 4; b->width <= 8; b->width += 4) {
        measure(b, b->width == 4 ? "bss decode, 4 bytes" : "bss decode, 8 bytes", bss_join, (size_t)64 * 4096);
        measure(b, b->width == 4 ? "bss encode, 4 bytes" : "bss encode, 8 bytes", bss_split, (size_t)64 * 4096);
    }
}

static void fsst_teach(struct bench *b)
{
    fsst_encoder_free(b->encoder);
    must(b, fsst_train(b->mem, 4, b->offsets, b->n, b->in, &b->encoder, &b->err));
}

static void fsst_code(struct bench *b)
{
    b->first.size = 0;
    must(b, fsst_compress(b->encoder, 4, b->offsets, b->n, b->in, &b->first, b->more_offsets, &b->err));
}

static void fsst_decode(struct bench *b)
{
    b->third.size = 0;
    must(b, fsst_decode_values(&b->decoder, &b->view, 0, b->n, &b->third, 4, b->more_offsets, &b->err));
}

static void bench_fsst(struct bench *b, size_t words_each)
{
    static const char *const words[] = {"http://", "www.", "example", ".com/", "search?", "q=", "lance", "format",
                                        " the ",   "and ", "quick ",  "fox ",  "jumps ",  "0",  "42",    "-"};
    uint8_t table[FSST_TABLE_SIZE];
    char name[64];
    size_t size = 0;
    b->n = 40000;
    for (size_t i = 0; i < b->n; i++) {
        b->offsets[i] = (uint32_t)size;
        for (size_t k = noise(i) % (2 * words_each); k > 0 && size < VALUES * 8 - 16; k--) {
            const char *word = words[noise(i * 50 + k) % ARRAY_LEN(words)];
            memcpy(b->in + size, word, strlen(word));
            size += strlen(word);
        }
    }
    b->offsets[b->n] = (uint32_t)size;
    (void)snprintf(name, sizeof name, "fsst train, %zu bytes a value", size / b->n);
    measure(b, name, fsst_teach, size);
    (void)snprintf(name, sizeof name, "fsst encode, %zu bytes a value", size / b->n);
    measure(b, name, fsst_code, size);
    printf("    to %.3f of the size\n", (double)b->first.size / (double)size);
    fsst_encoder_table(b->encoder, table);
    must(b, fsst_decoder_init(&b->decoder, bytes_of(table, sizeof table), &b->err));
    b->second.size = 0;
    must(b, variable_chunk_encode(4, b->more_offsets, b->n, b->first.data, &b->second, &b->err));
    must(b, variable_chunk_open(bytes_of(b->second.data, b->second.size), 4, b->n, &b->view, &b->err));
    (void)snprintf(name, sizeof name, "fsst decode, %zu bytes a value", size / b->n);
    measure(b, name, fsst_decode, size);
}

static void copy_bits(struct bench *b) { bits_copy(b->out, 3, b->in, 6, VALUES * 8); }
static void count_bits(struct bench *b) { b->n += bits_count(b->in, 5, VALUES * 8); }
static void levels_to_bits(struct bench *b) { bits_from_levels(b->out, 0, (const uint16_t *)(const void *)b->in, 1, VALUES); }

int main(void)
{
    struct bench b = {0};
    pennon_error_init(&b.err);
    b.mem = mem_new(NULL, UINT64_C(1) << 30, NULL, &b.err);
    b.in = malloc(VALUES * 8 + 64);
    b.out = malloc(VALUES * 8 + 64);
    b.offsets = malloc((VALUES + 1) * 4);
    b.more_offsets = malloc((VALUES + 1) * 4);
    if (!b.mem || !b.in || !b.out || !b.offsets || !b.more_offsets) return 1;
    buf_init(&b.first, b.mem, BUF_NO_LIMIT);
    buf_init(&b.second, b.mem, BUF_NO_LIMIT);
    buf_init(&b.third, b.mem, BUF_NO_LIMIT);
    for (size_t i = 0; i < VALUES * 8; i++) b.in[i] = (uint8_t)noise(i);
    bench_bitpack(&b);
    bench_rle(&b);
    bench_bss(&b);
    bench_fsst(&b, 2);
    bench_fsst(&b, 8);
    measure(&b, "copy of bits", copy_bits, VALUES);
    measure(&b, "count of bits", count_bits, VALUES);
    measure(&b, "levels to bits", levels_to_bits, VALUES * 2);
    fsst_encoder_free(b.encoder);
    buf_free(&b.first);
    buf_free(&b.second);
    buf_free(&b.third);
    free(b.in);
    free(b.out);
    free(b.offsets);
    free(b.more_offsets);
    mem_release(b.mem);
    return 0;
}
