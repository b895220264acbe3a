/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Mutators that know the format: what they make is framed as a writer would frame it, so that a change gets past the container and is seen by the
 * parser that it was meant for. Sometimes they lie about places and sizes, too.
 *
 * All memory of a mutation lives in its arena. A function that cannot do its work (input that does not parse) says so, and the caller falls back
 * to LLVMFuzzerMutate. */
#ifndef TESTS_FUZZ_MUTATE_H
#define TESTS_FUZZ_MUTATE_H

#include "wire/messages.h"
#include "wire/wire.h"

/* libFuzzer's; absent in the programs that only replay. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size) __attribute__((weak));
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);
size_t LLVMFuzzerCustomCrossOver(const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size, uint8_t *out, size_t max_size,
                                 unsigned seed);

#define HINTS_MAX 64u

struct mutation {
    uint64_t state;
    struct mem *mem;
    struct arena arena;
    pennon_error err;
    uint64_t hints[HINTS_MAX]; /* counts and sizes of this input: numbers near them are likely to matter */
    size_t n_hints;
};

void mutation_begin(struct mutation *m, unsigned seed);
void mutation_end(struct mutation *m);
/* Below n; 0 for n = 0. */
size_t mutation_below(struct mutation *m, size_t n);
static inline bool mutation_one_in(struct mutation *m, size_t n) { return mutation_below(m, n) == 0; }
void mutation_hint(struct mutation *m, uint64_t number);
/* A number that may hurt where `old` stands. */
uint64_t mutation_number(struct mutation *m, uint64_t old);
/* Zeroed, from the arena. */
void *mutation_alloc(struct mutation *m, size_t size);
/* A changed copy: bytes replaced, cut out, put in, repeated; numbers of 1 to 8 bytes replaced. */
struct bytes mutation_bytes(struct mutation *m, struct bytes old);
/* One field anywhere in the message becomes another value, appears, disappears, is doubled, or is taken from elsewhere in the message. */
void mutation_message(struct mutation *m, const struct wire_message *table, void *message);
/* Decode, change, encode; false when the bytes are no such message. */
bool mutation_encoded(struct mutation *m, const struct wire_message *table, struct bytes *message);
/* The encoded message. Empty when it cannot be encoded. */
struct bytes mutation_encode(struct mutation *m, const struct wire_message *table, const void *message);
bool mutation_decode(struct mutation *m, const struct wire_message *table, struct bytes in, void *out);

/* A changed data file; false when `file` does not parse as one. Neither grows by much more than it has. */
bool mutate_file(struct mutation *m, struct bytes file, struct bytes *out);
/* The same of a file of 0.1: of the same size, changed in the pages, the page table (by its numbers), the metadata, or the footer. */
bool mutate_legacy(struct mutation *m, struct bytes file, struct bytes *out);
/* `a` with a page, or a buffer, of `b`. */
bool mutate_file_cross(struct mutation *m, struct bytes a, struct bytes b, struct bytes *out);
bool mutate_manifest(struct mutation *m, struct bytes file, struct bytes *out);

/* ---- a folder as one input: u8 length of the path, path, u32 size, bytes; and so on. A size past the end means the rest. ---- */

#define FOLDER_MAX 32u
struct folder_entry {
    struct bytes path;
    struct bytes data;
};
/* Entries that could be cut off the input: at most FOLDER_MAX. */
size_t folder_split(struct bytes in, struct folder_entry *out);
bool mutate_folder(struct mutation *m, struct bytes in, struct bytes *out);

#endif
