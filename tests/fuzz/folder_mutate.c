/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Changes of a whole dataset folder that is one input, and of the manifests in it. A manifest is taken apart into its sections and messages,
 * row id sequences included, and put together with a length, offsets and a footer that fit:
 *
 *   u32 length, IndexSection | u32 length, Transaction | u32 length, Manifest | u64 place of the manifest's length, u32 version, "LANC"
 *
 * Source: spec table-format 4, 9. */
#include "mutate.h"

#define FOOTER 16u
#define TEXT_MOST ((size_t)1 << 20)

/* ---- manifests ---- */

static bool section_of(struct bytes file, uint64_t at, struct bytes *out)
{
    if (!range_inside(at, 4, file.size)) return false;
    const uint64_t n = load_u32(file.data + at);
    if (!range_inside(at + 4, n, file.size)) return false;
    *out = bytes_of(file.data + at + 4, (size_t)n);
    return true;
}

/* The sequences inside a fragment are messages of their own. */
static void change_fragment(struct mutation *m, struct fragment_message *f)
{
    switch (mutation_below(m, 3)) {
    case 0:
        if (f->row_ids_which == 5) (void)mutation_encoded(m, &row_id_sequence_table, &f->inline_row_ids);
        break;
    case 1:
        if (f->created_which == 9) (void)mutation_encoded(m, &version_sequence_table, &f->inline_created);
        break;
    default:
        if (f->last_updated_which == 7) (void)mutation_encoded(m, &version_sequence_table, &f->inline_last_updated);
    }
}

static void hints_of(struct mutation *m, const struct manifest_message *t)
{
    mutation_hint(m, t->version);
    mutation_hint(m, t->next_row_id);
    mutation_hint(m, t->max_fragment_id);
    for (size_t i = 0; i < t->n_fields; i++) mutation_hint(m, (uint64_t)(int64_t)t->fields[i].id);
    for (size_t i = 0; i < t->n_fragments; i++) {
        const struct fragment_message *f = &t->fragments[i];
        mutation_hint(m, f->physical_rows);
        mutation_hint(m, f->id);
        if (f->deletion_file) mutation_hint(m, f->deletion_file->num_deleted_rows);
    }
}

static uint8_t *append(uint8_t *to, const void *from, size_t n)
{
    if (n > 0) memcpy(to, from, n);
    return to + n;
}

static uint8_t *append_section(uint8_t *to, struct bytes section)
{
    store_u32(to, (uint32_t)section.size);
    return append(to + 4, section.data, section.size);
}

bool mutate_manifest(struct mutation *m, struct bytes file, struct bytes *out)
{
    struct manifest_message t;
    struct bytes text, index = {0}, transaction = {0};
    if (file.size < FOOTER || file.size > TEXT_MOST) return false;
    const uint8_t *footer = file.data + file.size - FOOTER;
    if (memcmp(footer + 12, "LANC", 4) != 0 || !section_of(file, load_u64(footer), &text)) return false;
    if (!mutation_decode(m, &manifest_table, text, &t)) return false;
    const bool has_index = t.has_index_section && section_of(file, t.index_section, &index);
    const bool has_transaction = t.has_transaction_section && section_of(file, t.transaction_section, &transaction);
    hints_of(m, &t);
    for (size_t times = 1 + mutation_below(m, 2); times > 0; times--) {
        const size_t what = mutation_below(m, 10);
        if (what == 0 && has_index) {
            (void)mutation_encoded(m, &index_section_table, &index);
        } else if (what == 1 && has_transaction) {
            (void)mutation_encoded(m, &transaction_table, &transaction);
        } else if (what <= 4 && t.n_fragments > 0) {
            change_fragment(m, &t.fragments[mutation_below(m, t.n_fragments)]);
        } else {
            mutation_message(m, &manifest_table, &t);
        }
    }
    uint64_t at = 0;
    if (has_index && t.has_index_section && !mutation_one_in(m, 32)) t.index_section = at;
    if (has_index) at += 4 + index.size;
    if (has_transaction && t.has_transaction_section && !mutation_one_in(m, 32)) t.transaction_section = at;
    if (has_transaction) at += 4 + transaction.size;
    text = mutation_encode(m, &manifest_table, &t);
    uint8_t *made = mutation_alloc(m, (size_t)at + 4 + text.size + FOOTER), *end = made;
    if (has_index) end = append_section(end, index);
    if (has_transaction) end = append_section(end, transaction);
    end = append_section(end, text);
    store_u64(end, at);
    end = append(end + 8, footer + 8, 8);
    *out = bytes_of(made, (size_t)(end - made));
    return true;
}

/* ---- folders ---- */

size_t folder_split(struct bytes in, struct folder_entry *out)
{
    size_t n = 0;
    while (n < FOLDER_MAX && in.size >= 5) {
        const size_t length = in.data[0];
        if (in.size < 5 + length) break;
        const struct bytes path = bytes_of(in.data + 1, length);
        const uint32_t size = load_u32(in.data + 1 + length);
        in = bytes_of(in.data + 5 + length, in.size - 5 - length);
        const size_t have = size < in.size ? size : in.size;
        out[n++] = (struct folder_entry){path, bytes_of(in.data, have)};
        in = bytes_of(in.data + have, in.size - have);
    }
    return n;
}

static bool folder_join(struct mutation *m, const struct folder_entry *entries, size_t n, struct bytes *out)
{
    size_t size = 0;
    for (size_t i = 0; i < n; i++) size += 5 + 255 + entries[i].data.size;
    uint8_t *made = mutation_alloc(m, size), *end = made;
    for (size_t i = 0; i < n; i++) {
        const size_t length = entries[i].path.size < 255 ? entries[i].path.size : 255;
        *end++ = (uint8_t)length;
        end = append(end, entries[i].path.data, length);
        end = append_section(end, entries[i].data);
    }
    *out = bytes_of(made, (size_t)(end - made));
    return true;
}

static bool has(struct bytes path, const char *part) { return memmem(path.data, path.size, part, strlen(part)) != NULL; }

static void change_entry(struct mutation *m, struct folder_entry *e)
{
    struct bytes made;
    bool ok = false;
    if (has(e->path, ".manifest")) {
        ok = mutate_manifest(m, e->data, &made);
    } else if (has(e->path, ".lance")) {
        ok = mutate_file(m, e->data, &made);
    } else if (has(e->path, ".txn")) {
        made = e->data;
        ok = mutation_encoded(m, &transaction_table, &made);
    }
    e->data = ok && !mutation_one_in(m, 40) ? made : mutation_bytes(m, e->data);
}

bool mutate_folder(struct mutation *m, struct bytes in, struct bytes *out)
{
    struct folder_entry entries[FOLDER_MAX + 1];
    size_t n = folder_split(in, entries);
    if (n == 0) return false;
    size_t i = mutation_below(m, n);
    const size_t j = mutation_below(m, n);
    for (size_t tries = 0; tries < 3 && !has(entries[i].path, ".manifest") && mutation_one_in(m, 2); tries++)
        i = mutation_below(m, n);
    for (size_t k = 0; k < n; k++) mutation_hint(m, entries[k].data.size);
    switch (mutation_below(m, 24)) {
    case 0: /* an object is missing */
        memmove(entries + i, entries + i + 1, (n - i - 1) * sizeof *entries);
        n--;
        break;
    case 1: /* two objects change places */
        in = entries[i].data;
        entries[i].data = entries[j].data;
        entries[j].data = in;
        break;
    case 2: entries[i].path = mutation_bytes(m, entries[i].path); break;
    case 3:
        if (n < FOLDER_MAX) {
            entries[n] = entries[i];
            entries[n++].path = mutation_bytes(m, entries[i].path);
        }
        break;
    default: change_entry(m, &entries[i]);
    }
    return folder_join(m, entries, n, out);
}
