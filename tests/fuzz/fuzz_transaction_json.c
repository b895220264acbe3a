/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The JSON of a transaction. What is taken goes to protobuf and to JSON, and both give the same transaction again. */
#include <stdint.h>
#include <stdlib.h>

#include "table/transaction.h"

#define REQUIRE(cond)         \
    do {                      \
        if (!(cond)) abort(); \
    } while (0)

static void use_transaction(struct mem *m, const struct transaction *t, pennon_error *err)
{
    struct buf json, bytes, again_bytes;
    struct transaction *again = NULL, *decoded = NULL;
    buf_init(&json, m, BUF_NO_LIMIT);
    buf_init(&bytes, m, BUF_NO_LIMIT);
    buf_init(&again_bytes, m, BUF_NO_LIMIT);
    REQUIRE(transaction_to_json(t, &json, err) == PENNON_OK);
    REQUIRE(transaction_from_json(m, bytes_of(json.data, json.size), &again, err) == PENNON_OK);
    REQUIRE(transaction_encode(t, &bytes, err) == PENNON_OK);
    REQUIRE(transaction_encode(again, &again_bytes, err) == PENNON_OK);
    REQUIRE(bytes_equal(bytes_of(bytes.data, bytes.size), bytes_of(again_bytes.data, again_bytes.size)));
    /* Unknown fields may hold what decoding refuses or brings into the present form. */
    if (transaction_decode(m, bytes_of(bytes.data, bytes.size), &decoded, err) == PENNON_OK) REQUIRE(decoded->which == t->which);
    transaction_free(again);
    transaction_free(decoded);
    buf_free(&json);
    buf_free(&bytes);
    buf_free(&again_bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pennon_error err;
    struct transaction *t = NULL;
    pennon_error_init(&err);
    struct mem *mem = mem_new(NULL, UINT64_C(256) << 20, NULL, &err);
    if (mem == NULL) return 0;
    if (transaction_from_json(mem, bytes_of(data, size), &t, &err) == PENNON_OK) use_transaction(mem, t, &err);
    transaction_free(t);
    REQUIRE(mem_used(mem) == 0);
    mem_release(mem);
    pennon_error_clear(&err);
    return 0;
}
