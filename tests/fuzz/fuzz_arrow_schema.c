/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Format texts, type texts and schema messages: what is accepted is a valid schema that survives being written and read. */
#include "arrow/arrow.h"
#include "codec_fuzz.h"

static void check_format(const char *text, struct mem *mem, pennon_error *err)
{
    struct arrow_type type;
    struct buf format;
    if (arrow_type_parse(text, &type, err) != PENNON_OK) return;
    buf_init(&format, mem, BUF_NO_LIMIT);
    FUZZ_CHECK(arrow_type_format(&type, &format, err) == PENNON_OK);
    /* Not always the same text ("d:5,1,128", "w:007"), but the same type. */
    struct arrow_type again;
    FUZZ_CHECK(arrow_type_parse((const char *)format.data, &again, err) == PENNON_OK);
    FUZZ_CHECK(again.id == type.id && again.bit_width == type.bit_width && again.fixed_size == type.fixed_size &&
               again.scale == type.scale);
    buf_free(&format);
}

/* Written as a message and read back. */
static void check_message(const struct ArrowSchema *schema, struct mem *mem, pennon_error *err)
{
    struct ArrowSchema top;
    struct ArrowSchema back;
    struct buf message;
    buf_init(&message, mem, BUF_NO_LIMIT);
    if (arrow_schema_new(&top, "+s", "", 0, 1, mem, err) != PENNON_OK) return;
    if (arrow_schema_copy(schema, mem, top.children[0], err) == PENNON_OK && arrow_schema_validate(&top, err) == PENNON_OK &&
        ipc_schema_encode(&top, mem, &message, err) == PENNON_OK) {
        FUZZ_CHECK(ipc_schema_decode(bytes_of(message.data, message.size), mem, &back, err) == PENNON_OK);
        FUZZ_CHECK(arrow_schema_equal(&top, &back, SCHEMA_EQUAL_METADATA));
        arrow_schema_release(&back);
    }
    arrow_schema_release(&top);
    buf_free(&message);
}

static void check_text(struct bytes text, struct mem *mem, pennon_error *err)
{
    struct ArrowSchema schema;
    struct ArrowSchema again;
    struct buf written;
    if (arrow_schema_from_text(text, "x", mem, &schema, err) != PENNON_OK) return;
    buf_init(&written, mem, BUF_NO_LIMIT);
    FUZZ_CHECK(arrow_type_text(&schema, &written, err) == PENNON_OK);
    if (arrow_schema_validate(&schema, err) == PENNON_OK) {
        if (arrow_schema_from_text(bytes_of(written.data, written.size), "x", mem, &again, err) == PENNON_OK) {
            FUZZ_CHECK(arrow_schema_equal(&schema, &again, 0));
            arrow_schema_release(&again);
        }
        check_message(&schema, mem, err);
    }
    arrow_schema_release(&schema);
    buf_free(&written);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pennon_error err;
    struct mem *mem = fuzz_mem(&err);
    uint8_t *copy = fuzz_copy(data, size);
    char *text = malloc(size + 1);
    struct ArrowSchema schema;
    FUZZ_CHECK(text != NULL);
    if (size > 0) memcpy(text, data, size);
    text[size] = '\0';
    check_format(text, mem, &err);
    check_text(bytes_of(copy, size), mem, &err);
    if (ipc_schema_decode(bytes_of(copy, size), mem, &schema, &err) == PENNON_OK) {
        FUZZ_CHECK(arrow_schema_validate(&schema, &err) == PENNON_OK);
        arrow_schema_release(&schema);
    }
    FUZZ_CHECK(mem_used(mem) == 0);
    free(text);
    free(copy);
    pennon_error_clear(&err);
    mem_release(mem);
    return 0;
}
