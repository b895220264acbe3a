/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Tables of the messages of lance.table: manifest, fragments, indices, row ids. */
#include "wire/messages.h"

#define F WIRE_FIELD

static const struct wire_field data_file_fields[] = {
    F(struct data_file_message, 1, WIRE_BYTES, path),
    WIRE_LIST(struct data_file_message, 2, WIRE_I32, fields),
    WIRE_LIST(struct data_file_message, 3, WIRE_I32, column_indices),
    F(struct data_file_message, 4, WIRE_U32, file_major_version),
    F(struct data_file_message, 5, WIRE_U32, file_minor_version),
    F(struct data_file_message, 6, WIRE_U64, file_size_bytes),
    WIRE_OPT(struct data_file_message, 7, WIRE_U32, base_id),
};
WIRE_TABLE(data_file_table, struct data_file_message, "DataFile", data_file_fields);

static const struct wire_field deletion_file_fields[] = {
    F(struct deletion_file_message, 1, WIRE_U32, file_type),
    F(struct deletion_file_message, 2, WIRE_U64, read_version),
    F(struct deletion_file_message, 3, WIRE_U64, id),
    F(struct deletion_file_message, 4, WIRE_U64, num_deleted_rows),
    WIRE_OPT(struct deletion_file_message, 7, WIRE_U32, base_id),
};
WIRE_TABLE(deletion_file_table, struct deletion_file_message, "DeletionFile", deletion_file_fields);

static const struct wire_field external_file_fields[] = {
    F(struct external_file_message, 1, WIRE_BYTES, path),
    F(struct external_file_message, 2, WIRE_U64, offset),
    F(struct external_file_message, 3, WIRE_U64, size),
};
WIRE_TABLE(external_file_table, struct external_file_message, "ExternalFile", external_file_fields);

static const struct wire_field fragment_fields[] = {
    F(struct fragment_message, 1, WIRE_U64, id),
    WIRE_SUBS(struct fragment_message, 2, files, &data_file_table),
    WIRE_SUB(struct fragment_message, 3, deletion_file, &deletion_file_table),
    F(struct fragment_message, 4, WIRE_U64, physical_rows),
    WIRE_ONE(struct fragment_message, 5, WIRE_BYTES, inline_row_ids, row_ids_which),
    WIRE_ONE_SUB(struct fragment_message, 6, external_row_ids, row_ids_which, &external_file_table),
    WIRE_ONE(struct fragment_message, 7, WIRE_BYTES, inline_last_updated, last_updated_which),
    WIRE_ONE_SUB(struct fragment_message, 8, external_last_updated, last_updated_which, &external_file_table),
    WIRE_ONE(struct fragment_message, 9, WIRE_BYTES, inline_created, created_which),
    WIRE_ONE_SUB(struct fragment_message, 10, external_created, created_which, &external_file_table),
};
WIRE_TABLE(fragment_table, struct fragment_message, "DataFragment", fragment_fields);

static const struct wire_field writer_version_fields[] = {
    F(struct writer_version_message, 1, WIRE_BYTES, library),
    F(struct writer_version_message, 2, WIRE_BYTES, version),
    WIRE_OPT(struct writer_version_message, 3, WIRE_BYTES, prerelease),
    WIRE_OPT(struct writer_version_message, 4, WIRE_BYTES, build_metadata),
};
WIRE_TABLE(writer_version_table, struct writer_version_message, "WriterVersion", writer_version_fields);

static const struct wire_field data_format_fields[] = {
    F(struct data_format_message, 1, WIRE_BYTES, file_format),
    F(struct data_format_message, 2, WIRE_BYTES, version),
};
WIRE_TABLE(data_format_table, struct data_format_message, "DataStorageFormat", data_format_fields);

static const struct wire_field base_path_fields[] = {
    F(struct base_path_message, 1, WIRE_U32, id),
    WIRE_OPT(struct base_path_message, 2, WIRE_BYTES, name),
    F(struct base_path_message, 3, WIRE_BOOL, is_dataset_root),
    F(struct base_path_message, 4, WIRE_BYTES, path),
};
WIRE_TABLE(base_path_table, struct base_path_message, "BasePath", base_path_fields);

/* All but the fragments, which a reader of many wants as bytes first. */
#define MANIFEST_FIRST WIRE_SUBS(struct manifest_message, 1, fields, &field_table)
#define MANIFEST_REST                                                                                                      \
    F(struct manifest_message, 3, WIRE_U64, version), F(struct manifest_message, 4, WIRE_U64, version_aux_data),           \
        WIRE_SUBS(struct manifest_message, 5, schema_metadata, &map_entry_table),                                          \
        WIRE_OPT(struct manifest_message, 6, WIRE_U64, index_section),                                                     \
        WIRE_SUB(struct manifest_message, 7, timestamp, &timestamp_table), F(struct manifest_message, 8, WIRE_BYTES, tag), \
        F(struct manifest_message, 9, WIRE_U64, reader_feature_flags),                                                     \
        F(struct manifest_message, 10, WIRE_U64, writer_feature_flags),                                                    \
        WIRE_OPT(struct manifest_message, 11, WIRE_U32, max_fragment_id),                                                  \
        F(struct manifest_message, 12, WIRE_BYTES, transaction_file),                                                      \
        WIRE_SUB(struct manifest_message, 13, writer_version, &writer_version_table),                                      \
        F(struct manifest_message, 14, WIRE_U64, next_row_id),                                                             \
        WIRE_SUB(struct manifest_message, 15, data_format, &data_format_table),                                            \
        WIRE_SUBS(struct manifest_message, 16, config, &map_entry_table),                                                  \
        WIRE_SUBS(struct manifest_message, 18, base_paths, &base_path_table),                                              \
        WIRE_SUBS(struct manifest_message, 19, table_metadata, &map_entry_table),                                          \
        WIRE_OPT(struct manifest_message, 20, WIRE_BYTES, branch),                                                         \
        WIRE_OPT(struct manifest_message, 21, WIRE_U64, transaction_section),                                              \
        WIRE_OPT(struct manifest_message, 23, WIRE_U64, transaction_section_new)
static const struct wire_field manifest_fields[] = {
    MANIFEST_FIRST, WIRE_SUBS(struct manifest_message, 2, fragments, &fragment_table), MANIFEST_REST};
WIRE_TABLE(manifest_table, struct manifest_message, "Manifest", manifest_fields);

static const struct wire_field manifest_outline_fields[] = {
    MANIFEST_FIRST, WIRE_LIST(struct manifest_message, 2, WIRE_BYTES, fragment_bytes), MANIFEST_REST};
WIRE_TABLE(manifest_outline_table, struct manifest_message, "Manifest", manifest_outline_fields);

/* Only for encoding: fragments as they were read, then new ones. */
static const struct wire_field manifest_carry_fields[] = {
    MANIFEST_FIRST, WIRE_LIST(struct manifest_message, 2, WIRE_BYTES, fragment_bytes),
    WIRE_SUBS(struct manifest_message, 2, fragments, &fragment_table), MANIFEST_REST};
WIRE_TABLE(manifest_carry_table, struct manifest_message, "Manifest", manifest_carry_fields);

static const struct wire_field index_file_fields[] = {
    F(struct index_file_message, 1, WIRE_BYTES, path),
    F(struct index_file_message, 2, WIRE_U64, size_bytes),
};
WIRE_TABLE(index_file_table, struct index_file_message, "IndexFile", index_file_fields);

static const struct wire_field index_metadata_fields[] = {
    WIRE_SUB(struct index_metadata_message, 1, uuid, &uuid_table),
    WIRE_LIST(struct index_metadata_message, 2, WIRE_I32, fields),
    F(struct index_metadata_message, 3, WIRE_BYTES, name),
    F(struct index_metadata_message, 4, WIRE_U64, dataset_version),
    F(struct index_metadata_message, 5, WIRE_BYTES, fragment_bitmap),
    WIRE_SUB(struct index_metadata_message, 6, index_details, &any_table),
    WIRE_OPT(struct index_metadata_message, 7, WIRE_I32, index_version),
    WIRE_OPT(struct index_metadata_message, 8, WIRE_U64, created_at),
    WIRE_OPT(struct index_metadata_message, 9, WIRE_U32, base_id),
    WIRE_SUBS(struct index_metadata_message, 10, files, &index_file_table),
};
WIRE_TABLE(index_metadata_table, struct index_metadata_message, "IndexMetadata", index_metadata_fields);

static const struct wire_field index_section_fields[] = {
    WIRE_SUBS(struct index_section_message, 1, indices, &index_metadata_table)};
WIRE_TABLE(index_section_table, struct index_section_message, "IndexSection", index_section_fields);

/* ---- row ids ---- */

static const struct wire_field u64_range_fields[] = {F(struct u64_range_message, 1, WIRE_U64, start),
                                                     F(struct u64_range_message, 2, WIRE_U64, end)};
static WIRE_TABLE(u64_range_table, struct u64_range_message, "Range", u64_range_fields);

static const struct wire_field u_array_fields[] = {F(struct u_array_message, 1, WIRE_U64, base),
                                                   F(struct u_array_message, 2, WIRE_BYTES, offsets)};
static WIRE_TABLE(u_array_table, struct u_array_message, "U64 array", u_array_fields);

static const struct wire_field encoded_array_fields[] = {
    WIRE_ONE_SUB(struct encoded_array_message, 1, u16_array, which, &u_array_table),
    WIRE_ONE_SUB(struct encoded_array_message, 2, u32_array, which, &u_array_table),
    WIRE_ONE_SUB(struct encoded_array_message, 3, u64_array, which, &u_array_table),
};
static WIRE_TABLE(encoded_array_table, struct encoded_array_message, "EncodedU64Array", encoded_array_fields);

static const struct wire_field holes_fields[] = {F(struct holes_message, 1, WIRE_U64, start),
                                                 F(struct holes_message, 2, WIRE_U64, end),
                                                 WIRE_SUB(struct holes_message, 3, holes, &encoded_array_table)};
static WIRE_TABLE(holes_table, struct holes_message, "RangeWithHoles", holes_fields);

static const struct wire_field bitmap_range_fields[] = {F(struct bitmap_range_message, 1, WIRE_U64, start),
                                                        F(struct bitmap_range_message, 2, WIRE_U64, end),
                                                        F(struct bitmap_range_message, 3, WIRE_BYTES, bitmap)};
static WIRE_TABLE(bitmap_range_table, struct bitmap_range_message, "RangeWithBitmap", bitmap_range_fields);

static const struct wire_field segment_fields[] = {
    WIRE_ONE_SUB(struct segment_message, 1, range, which, &u64_range_table),
    WIRE_ONE_SUB(struct segment_message, 2, range_with_holes, which, &holes_table),
    WIRE_ONE_SUB(struct segment_message, 3, range_with_bitmap, which, &bitmap_range_table),
    WIRE_ONE_SUB(struct segment_message, 4, sorted_array, which, &encoded_array_table),
    WIRE_ONE_SUB(struct segment_message, 5, array, which, &encoded_array_table),
};
WIRE_TABLE(segment_table, struct segment_message, "U64Segment", segment_fields);

static const struct wire_field row_id_sequence_fields[] = {WIRE_SUBS(struct row_id_sequence_message, 1, segments, &segment_table)};
WIRE_TABLE(row_id_sequence_table, struct row_id_sequence_message, "RowIdSequence", row_id_sequence_fields);

static const struct wire_field version_run_fields[] = {WIRE_SUB(struct version_run_message, 1, span, &segment_table),
                                                       F(struct version_run_message, 2, WIRE_U64, version)};
static WIRE_TABLE(version_run_table, struct version_run_message, "RowDatasetVersionRun", version_run_fields);

static const struct wire_field version_sequence_fields[] = {
    WIRE_SUBS(struct version_sequence_message, 1, runs, &version_run_table)};
WIRE_TABLE(version_sequence_table, struct version_sequence_message, "RowDatasetVersionSequence", version_sequence_fields);
