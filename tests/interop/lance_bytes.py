# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Reads Lance's bytes without Lance: protobuf wire format, manifests, data file footers, page layouts.

Layout knowledge is data: MESSAGES holds one line per message of the format (tag, name, type). The decoder
below is generic, keeps what it does not know under "?" and can list the paths of every unknown tag, so a
newer writer that says something new is noticed instead of ignored.

Value forms: a message is a dict by field name; absent fields are absent; "?" holds [(tag, wire type, value)].
Command line: python lance_bytes.py FILE.manifest|FILE.lance|TABLE_DIR
"""
import json
import os
import struct
import sys

# Types: u64 u32 i64 i32 bool str bytes double, or the name of a message. "*" repeated (ints may be packed),
# "map:K:V" a map. Tags that are reserved but may appear on disk are named with a leading "old_".
MESSAGES = {
    # -- lance.table ------------------------------------------------------------------------------------------
    "Manifest": "1 fields *Field; 2 fragments *DataFragment; 3 version u64; 4 version_aux_data u64;"
                "5 schema_metadata map:str:bytes; 6 index_section u64; 7 timestamp Timestamp; 8 tag str;"
                "9 reader_feature_flags u64; 10 writer_feature_flags u64; 11 max_fragment_id u32;"
                "12 transaction_file str; 13 writer_version WriterVersion; 14 next_row_id u64;"
                "15 data_format DataStorageFormat; 16 config map:str:str; 17 old_blob_dataset_version u64;"
                "18 base_paths *BasePath; 19 table_metadata map:str:str; 20 branch str; 21 old_transaction_section u64;"
                "22 fragment_tree FragmentTreeMetadata; 23 transaction_section u64; 24 max_allocated_field_id i32;"
                "25 clustering *Clustering; 26 max_clustering_id u32",
    "FragmentTreeMetadata": "1 tree bytes",
    "Clustering": "1 id u32; 2 columns *i32; 3 provider str; 4 version u64",
    "WriterVersion": "1 library str; 2 version str; 3 prerelease str; 4 build_metadata str",
    "DataStorageFormat": "1 file_format str; 2 version str",
    "Timestamp": "1 seconds i64; 2 nanos i32",
    "DataFragment": "1 id u64; 2 files *DataFile; 3 deletion_file DeletionFile; 4 physical_rows u64;"
                    "5 inline_row_ids RowIdSequence; 6 external_row_ids ExternalFile;"
                    "7 inline_last_updated_at_versions RowDatasetVersionSequence;"
                    "8 external_last_updated_at_versions ExternalFile;"
                    "9 inline_created_at_versions RowDatasetVersionSequence;"
                    "10 external_created_at_versions ExternalFile; 11 overlays *DataOverlayFile;"
                    "12 column_row_ids Empty; 13 column_last_updated_at_versions Empty;"
                    "14 column_created_at_versions Empty; 15 clustering_id u32; 16 metadata map:str:str",
    "DataFile": "1 path str; 2 fields *i32; 3 column_indices *i32; 4 file_major_version u32;"
                "5 file_minor_version u32; 6 file_size_bytes u64; 7 base_id u32",
    "DeletionFile": "1 file_type u32; 2 read_version u64; 3 id u64; 4 num_deleted_rows u64; 7 base_id u32",
    "DataOverlayFile": "1 data_file DataFile; 2 shared_offset_bitmap bytes; 3 committed_version u64;"
                       "4 field_coverage FieldCoverage",
    "FieldCoverage": "1 offset_bitmaps *bytes",
    "UUID": "1 uuid bytes",
    "ExternalFile": "1 path str; 2 offset u64; 3 size u64",
    "BasePath": "1 id u32; 2 name str; 3 is_dataset_root bool; 4 path str",
    "IndexSection": "1 indices *IndexMetadata",
    "IndexMetadata": "1 uuid UUID; 2 fields *i32; 3 name str; 4 dataset_version u64; 5 fragment_bitmap bytes;"
                     "6 index_details Any; 7 index_version i32; 8 created_at u64; 9 base_id u32; 10 files *IndexFile;"
                     "11 covering_fields *i32; 12 clustering_id u32; 13 metadata map:str:str",
    "IndexFile": "1 path str; 2 size_bytes u64",
    "Any": "1 type_url str; 2 value bytes",
    "RowIdSequence": "1 segments *U64Segment",
    "U64Segment": "1 range Range; 2 range_with_holes RangeWithHoles; 3 range_with_bitmap RangeWithBitmap;"
                  "4 sorted_array EncodedU64Array; 5 array EncodedU64Array",
    "Range": "1 start u64; 2 end u64",
    "RangeWithHoles": "1 start u64; 2 end u64; 3 holes EncodedU64Array",
    "RangeWithBitmap": "1 start u64; 2 end u64; 3 bitmap bytes",
    "EncodedU64Array": "1 u16_array U16Array; 2 u32_array U32Array; 3 u64_array U64Array",
    "U16Array": "1 base u64; 2 offsets bytes",
    "U32Array": "1 base u64; 2 offsets bytes",
    "U64Array": "2 values bytes",
    "RowDatasetVersionSequence": "1 runs *RowDatasetVersionRun",
    "RowDatasetVersionRun": "1 span U64Segment; 2 version u64",
    # -- lance.table transactions -----------------------------------------------------------------------------
    "Transaction": "1 read_version u64; 2 uuid str; 3 tag str; 4 transaction_properties map:str:str;"
                   "100 append Append; 101 delete Delete; 102 overwrite Overwrite; 103 create_index CreateIndex;"
                   "104 rewrite Rewrite; 105 merge Merge; 106 restore Restore; 107 reserve_fragments ReserveFragments;"
                   "108 update Update; 109 project Project; 110 update_config UpdateConfig;"
                   "111 data_replacement DataReplacement; 112 update_mem_wal_state UpdateMemWalState; 113 clone Clone;"
                   "114 update_bases UpdateBases; 115 data_overlay DataOverlay",
    "Append": "1 fragments *DataFragment",
    "Delete": "1 updated_fragments *DataFragment; 2 deleted_fragment_ids *u64; 3 predicate str",
    "Overwrite": "1 fragments *DataFragment; 2 schema *Field; 3 schema_metadata map:str:bytes;"
                 "4 config_upsert_values map:str:str; 5 initial_bases *BasePath",
    "CreateIndex": "1 new_indices *IndexMetadata; 2 removed_indices *IndexMetadata; 3 mem_wal_index_catchup_advances *bytes",
    "Rewrite": "1 old_fragments *DataFragment; 2 new_fragments *DataFragment; 3 groups *RewriteGroup;"
               "4 rewritten_indices *RewrittenIndex",
    "RewriteGroup": "1 old_fragments *DataFragment; 2 new_fragments *DataFragment",
    "RewrittenIndex": "1 old_id UUID; 2 new_id UUID; 3 new_index_details Any; 4 new_index_version u32;"
                      "5 new_index_files *IndexFile",
    "Merge": "1 fragments *DataFragment; 2 schema *Field; 3 schema_metadata map:str:bytes; 4 preserves_nullability bool",
    "Project": "1 schema *Field; 2 preserves_nullability bool",
    "Restore": "1 version u64",
    "ReserveFragments": "1 num_fragments u32",
    "Clone": "1 is_shallow bool; 2 ref_name str; 3 ref_version u64; 4 ref_path str; 5 branch_name str",
    "Update": "1 removed_fragment_ids *u64; 2 updated_fragments *DataFragment; 3 new_fragments *DataFragment;"
              "4 fields_modified *u32; 5 merged_generations *MergedGeneration;"
              "6 fields_for_preserving_frag_bitmap *u32; 7 update_mode u32; 8 inserted_rows KeyExistenceFilter;"
              "9 updated_fragment_offsets map:u64:UInt32List; 10 updated_fragment_offset_bitmaps map:u64:bytes",
    "UInt32List": "1 values *u32",
    "UpdateConfig": "1 upsert_values map:str:str; 2 delete_keys *str; 3 schema_metadata map:str:str;"
                    "4 field_metadata map:u32:bytes; 6 config_updates UpdateMap; 7 table_metadata_updates UpdateMap;"
                    "8 schema_metadata_updates UpdateMap; 9 field_metadata_updates map:i32:UpdateMap",
    "UpdateMap": "1 update_entries *UpdateMapEntry; 2 replace bool",
    "UpdateMapEntry": "1 key str; 2 value str",
    "DataReplacement": "1 replacements *DataReplacementGroup",
    "DataReplacementGroup": "1 fragment_id u64; 2 new_file DataFile",
    "UpdateMemWalState": "1 merged_generations *MergedGeneration",
    "MergedGeneration": "1 shard_id UUID; 2 generation u64",
    "UpdateBases": "1 new_bases *BasePath",
    "DataOverlay": "1 groups *DataOverlayGroup",
    "DataOverlayGroup": "1 fragment_id u64; 2 overlays *DataOverlayFile",
    "KeyExistenceFilter": "1 field_ids *i32; 2 exact ExactKeySetFilter; 3 bloom BloomFilter",
    "ExactKeySetFilter": "1 key_hashes *u64",
    "BloomFilter": "1 bitmap bytes; 2 num_bits u32; 3 number_of_items u64; 4 probability double",
    # -- lance.file -------------------------------------------------------------------------------------------
    "FileDescriptor": "1 schema Schema; 2 length u64",
    "Schema": "1 fields *Field; 5 metadata map:str:bytes",
    "Field": "1 type u32; 2 name str; 3 id i32; 4 parent_id i32; 5 logical_type str; 6 nullable bool; 7 encoding u32;"
             "8 dictionary Dictionary; 9 extension_name str; 10 metadata map:str:bytes; 11 old_storage_class str;"
             "12 unenforced_primary_key bool; 13 unenforced_primary_key_position u32;"
             "14 unenforced_clustering_key bool; 15 unenforced_clustering_key_position u32",
    "Dictionary": "1 offset i64; 2 length i64",
    "Metadata": "1 manifest_position u64; 2 batch_offsets *i32; 3 page_table_position u64; 5 statistics StatisticsMetadata",
    "StatisticsMetadata": "1 schema *Field; 2 fields *i32; 3 page_table_position u64",
    "ColumnMetadata": "1 encoding Encoding; 2 pages *Page; 3 buffer_offsets *u64; 4 buffer_sizes *u64",
    "Page": "1 buffer_offsets *u64; 2 buffer_sizes *u64; 3 length u64; 4 encoding Encoding; 5 priority u64",
    "Encoding": "1 indirect DeferredEncoding; 2 direct DirectEncoding; 3 none Empty",
    "DeferredEncoding": "1 buffer_location u64; 2 buffer_length u64",
    "DirectEncoding": "1 encoding Any",
    "Empty": "",
    # -- lance.encodings (2.0) --------------------------------------------------------------------------------
    "ColumnEncoding": "1 values Empty; 2 zone_index ZoneIndex; 3 blob Blob",
    "ZoneIndex": "1 rows_per_zone u32; 2 zone_map_buffer Buffer; 3 inner ColumnEncoding",
    "Blob": "1 inner ColumnEncoding",
    "Buffer": "1 buffer_index u32; 2 type u32",
    "Compression": "1 scheme str; 2 level i32",
    "ArrayEncoding": "1 flat Flat20; 2 nullable Nullable; 3 fixed_size_list FixedSizeList20; 4 list List20;"
                     "5 struct Empty; 6 binary Binary20; 7 dictionary Dictionary20; 8 fsst Fsst20;"
                     "9 packed_struct PackedStruct20; 10 bitpacked Bitpacked20; 11 fixed_size_binary FixedSizeBinary20;"
                     "12 bitpacked_for_non_neg Bitpacked20",
    "Flat20": "1 bits_per_value u64; 2 buffer Buffer; 3 compression Compression",
    "Nullable": "1 no_nulls NoNull; 2 some_nulls SomeNull; 3 all_nulls Empty",
    "NoNull": "1 values ArrayEncoding",
    "SomeNull": "1 validity ArrayEncoding; 2 values ArrayEncoding",
    "FixedSizeList20": "1 dimension u32; 2 items ArrayEncoding; 3 has_validity bool",
    "List20": "1 offsets ArrayEncoding; 2 null_offset_adjustment u64; 3 num_items u64",
    "Binary20": "1 indices ArrayEncoding; 2 bytes ArrayEncoding; 3 null_adjustment u64",
    "Dictionary20": "1 indices ArrayEncoding; 2 items ArrayEncoding; 3 num_dictionary_items u32",
    "Fsst20": "1 binary ArrayEncoding; 2 symbol_table bytes",
    "PackedStruct20": "1 inner *ArrayEncoding; 2 buffer Buffer",
    "Bitpacked20": "1 compressed_bits u64; 2 uncompressed_bits u64; 3 buffer Buffer; 4 signed bool",
    "FixedSizeBinary20": "1 bytes ArrayEncoding; 2 byte_width u32",
    # -- lance.encodings21 ------------------------------------------------------------------------------------
    "PageLayout": "1 mini_block MiniBlockLayout; 2 constant ConstantLayout; 3 full_zip FullZipLayout;"
                  "4 blob BlobLayout; 5 sparse SparseLayout",
    "MiniBlockLayout": "1 rep_compression CE; 2 def_compression CE; 3 value_compression CE; 4 dictionary CE;"
                       "5 num_dictionary_items u64; 6 layers *u32; 7 num_buffers u64; 8 repetition_index_depth u32;"
                       "9 num_items u64; 10 has_large_chunk bool",
    "FullZipLayout": "1 bits_rep u32; 2 bits_def u32; 3 bits_per_value u32; 4 bits_per_offset u32; 5 num_items u32;"
                     "6 num_visible_items u32; 7 value_compression CE; 8 layers *u32",
    "ConstantLayout": "5 layers *u32; 6 inline_value bytes; 7 rep_compression CE; 8 def_compression CE;"
                      "9 num_rep_values u64; 10 num_def_values u64",
    "BlobLayout": "1 inner_layout PageLayout; 2 layers *u32",
    "SparseLayout": "",
    "CE": "1 flat Flat; 2 variable Variable; 3 constant Constant; 4 out_of_line_bitpacking OutOfLineBitpacking;"
          "5 inline_bitpacking InlineBitpacking; 6 fsst Fsst; 7 dictionary DictionaryCE; 8 rle Rle;"
          "9 byte_stream_split ByteStreamSplit; 10 general General; 11 fixed_size_list FixedSizeListCE;"
          "12 packed_struct PackedStruct; 13 variable_packed_struct VariablePackedStruct",
    "BufferCompression": "1 scheme u32; 2 level i32",
    "Flat": "1 bits_per_value u64; 2 data BufferCompression",
    "Variable": "1 offsets CE; 2 values BufferCompression",
    "Constant": "1 value bytes",
    "OutOfLineBitpacking": "1 uncompressed_bits_per_value u64; 3 values CE",
    "InlineBitpacking": "1 uncompressed_bits_per_value u64; 2 values BufferCompression",
    "Fsst": "1 symbol_table bytes; 2 values CE",
    "DictionaryCE": "1 indices CE; 2 items CE; 3 num_dictionary_items u32",
    "Rle": "1 values CE; 2 run_lengths CE",
    "FixedSizeListCE": "1 items_per_value u64; 2 values CE; 3 has_validity bool",
    "PackedStruct": "1 bits_per_value *u64; 2 values CE",
    "VariablePackedStruct": "1 fields *FieldEncoding",
    "FieldEncoding": "1 value CE; 2 bits_per_value u64; 3 bits_per_length u64",
    "General": "1 compression BufferCompression; 3 values CE",
    "ByteStreamSplit": "1 values CE",
}

SCALARS = {"u64", "u32", "i64", "i32", "bool", "str", "bytes", "double"}
LAYERS = ["unspecified", "item", "list", "null-item", "null-list", "empty-list", "null-empty-list"]


class Corrupt(Exception):
    pass


def _tables():
    out = {}
    for name, text in MESSAGES.items():
        rows = {}
        for part in filter(None, (p.strip() for p in text.split(";"))):
            tag, field, kind = part.split()
            rows[int(tag)] = (field, kind)
        out[name] = rows
    return out


TABLES = _tables()


# ---- wire ------------------------------------------------------------------------------------------------------

def varint(data, pos):
    value = shift = 0
    while True:
        if pos >= len(data) or shift > 63:
            raise Corrupt("varint runs past its end")
        byte = data[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & (2**64 - 1), pos
        shift += 7


def wire(data):
    """Yields (tag, wire type, value, start, end); value is an int or bytes."""
    pos = 0
    while pos < len(data):
        start = pos
        key, pos = varint(data, pos)
        tag, kind = key >> 3, key & 7
        if tag == 0:
            raise Corrupt("tag 0")
        if kind == 0:
            value, pos = varint(data, pos)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
            value, pos = bytes(data[pos:pos + size]), pos + size
        elif kind == 2:
            size, pos = varint(data, pos)
            value, pos = bytes(data[pos:pos + size]), pos + size
        else:
            raise Corrupt(f"wire type {kind} of tag {tag}")
        if pos > len(data):
            raise Corrupt(f"tag {tag} runs past its end")
        yield tag, kind, value, start, pos


def _scalar(kind, value):
    if kind in ("i64", "i32"):
        return value - 2**64 if value >= 2**63 else value
    if kind == "bool":
        return bool(value)
    if kind == "str":
        return value.decode("utf-8", "replace")
    if kind == "double":
        return struct.unpack("<d", value)[0]
    return value


def _ints(kind, wire_type, value):
    if wire_type == 0:
        return [_scalar(kind, value)]
    out, pos = [], 0
    while pos < len(value):
        item, pos = varint(value, pos)
        out.append(_scalar(kind, item))
    return out


def _map_entry(kind, value):
    _, key_kind, value_kind = kind.split(":")
    key, item = ("" if key_kind == "str" else 0), None
    for tag, _, raw, _, _ in wire(value):
        if tag == 1:
            key = _scalar(key_kind, raw)
        elif tag == 2:
            item = _scalar(value_kind, raw) if value_kind in SCALARS else decode(value_kind, raw)
    if item is None:
        item = {"str": "", "bytes": b""}.get(value_kind, {})
    return key, item


def decode(name, data):
    """One message as a dict. Unknown tags, and known tags with a surprising wire type, go under "?"."""
    table, out = TABLES[name], {}
    for tag, wire_type, value, _, _ in wire(data):
        if tag not in table:
            out.setdefault("?", []).append((tag, wire_type, value))
            continue
        field, kind = table[tag]
        repeated = kind.startswith("*")
        kind = kind.lstrip("*")
        if kind.startswith("map:"):
            key, item = _map_entry(kind, value)
            out.setdefault(field, {})[key] = item
        elif kind in SCALARS:
            number = kind not in ("str", "bytes", "double")
            if repeated and number:
                out.setdefault(field, []).extend(_ints(kind, wire_type, value))
            elif number != (wire_type == 0) and kind != "double":
                out.setdefault("?", []).append((tag, wire_type, value))
            elif repeated:
                out.setdefault(field, []).append(_scalar(kind, value))
            else:
                out[field] = _scalar(kind, value)
        elif repeated:
            out.setdefault(field, []).append(decode(kind, value))
        else:
            out[field] = decode(kind, value)
    return out


def unknown_paths(value, path=""):
    """Every unknown tag below a decoded value as 'Manifest.fragments.?11'."""
    out = []
    if isinstance(value, dict):
        for tag, wire_type, raw in value.get("?", ()):
            shown = raw if isinstance(raw, int) else f"{len(raw)} bytes {raw[:16].hex()}"
            out.append(f"{path}.?{tag} (wire {wire_type}: {shown})")
        for key, item in value.items():
            if key != "?":
                out += unknown_paths(item, f"{path}.{key}")
    elif isinstance(value, list):
        for item in value:
            out += unknown_paths(item, path)
    return out


# ---- manifests ---------------------------------------------------------------------------------------------------

def _section(data, pos, name):
    if pos + 4 > len(data):
        raise Corrupt(f"{name} starts past the end of the file")
    size = struct.unpack_from("<I", data, pos)[0]
    if pos + 4 + size > len(data):
        raise Corrupt(f"{name} is longer than the file")
    return data[pos + 4:pos + 4 + size]


class ManifestFile:
    """manifest, index section and transaction of one manifest file; raw bytes of each section are kept."""

    def __init__(self, path):
        data = self.data = open(path, "rb").read()
        if len(data) < 16 or data[-4:] != b"LANC":
            raise Corrupt(f"{path}: no manifest footer")
        pos, self.major, self.minor = struct.unpack_from("<qhh", data, len(data) - 16)
        self.path, self.position = path, pos
        self.raw = _section(data, pos, "manifest")
        self.trailing = len(data) - 16 - (pos + 4 + len(self.raw))
        self.manifest = decode("Manifest", self.raw)
        self.indices, self.index_raw, self.transaction, self.transaction_raw = None, None, None, None
        if "index_section" in self.manifest:
            self.index_raw = _section(data, self.manifest["index_section"], "index section")
            self.indices = decode("IndexSection", self.index_raw)
        where = self.manifest.get("transaction_section", self.manifest.get("old_transaction_section"))
        if where is not None:
            self.transaction_raw = _section(data, where, "transaction section")
            self.transaction = decode("Transaction", self.transaction_raw)

    def unknown(self):
        return (unknown_paths(self.manifest, "Manifest") + unknown_paths(self.indices, "IndexSection")
                + unknown_paths(self.transaction, "Transaction"))

    def index_entries(self):
        """Raw bytes of each IndexMetadata, keyed by (name, uuid): what must survive foreign commits unchanged."""
        out = {}
        for tag, _, value, _, _ in wire(self.index_raw or b""):
            if tag == 1:
                entry = decode("IndexMetadata", value)
                out[(entry.get("name", ""), entry["uuid"]["uuid"].hex())] = value
        return out


def manifest_names(table):
    """{version: path} of attached manifests, both naming schemes."""
    out, folder = {}, os.path.join(table, "_versions")
    for name in os.listdir(folder):
        if name.endswith(".manifest") and name.split(".")[0].isdigit():
            number = int(name.split(".")[0])
            out[2**64 - 1 - number if len(name) == 29 else number] = os.path.join(folder, name)
    return out


def latest(table):
    names = manifest_names(table)
    return ManifestFile(names[max(names)])


# ---- data files --------------------------------------------------------------------------------------------------

class DataFile:
    """Footer, schema and page encodings of one 2.x data file."""

    def __init__(self, path):
        data = self.data = open(path, "rb").read()
        if len(data) < 40 or data[-4:] != b"LANC":
            raise Corrupt(f"{path}: no data file footer")
        (self.column_meta_start, self.cmo, self.gbo, self.num_globals, self.num_columns, self.major,
         self.minor) = struct.unpack_from("<QQQIIHH", data, len(data) - 40)
        self.size = len(data)
        self.globals = [struct.unpack_from("<QQ", data, self.gbo + 16 * i) for i in range(self.num_globals)]
        pos, size = self.globals[0]
        self.descriptor = decode("FileDescriptor", data[pos:pos + size])
        self.columns = []
        for i in range(self.num_columns):
            pos, size = struct.unpack_from("<QQ", data, self.cmo + 16 * i)
            self.columns.append(_column(data[pos:pos + size]))

    def unknown(self):
        out = unknown_paths(self.descriptor, "FileDescriptor")
        for i, column in enumerate(self.columns):
            out += unknown_paths(column, f"column{i}")
        return out

    def layouts(self, column):
        """Short names of the pages' encodings, e.g. 'mini(bitpack32) def=flat16 layers=null-item'."""
        return [describe(page["layout"]) if page["layout"] else describe20(page["array"])
                for page in self.columns[column]["pages"]]


def _any(encoding):
    any_bytes = encoding.get("direct", {}).get("encoding")
    return (any_bytes or {}).get("type_url", ""), (any_bytes or {}).get("value", b"")


def _column(data):
    meta = decode("ColumnMetadata", data)
    url, value = _any(meta.get("encoding", {}))
    out = {"url": url, "encoding": decode("ColumnEncoding", value) if url.endswith("ColumnEncoding") else None,
           "buffers": list(zip(meta.get("buffer_offsets", []), meta.get("buffer_sizes", []))), "pages": []}
    for page in meta.get("pages", []):
        url, value = _any(page.get("encoding", {}))
        out["pages"].append({
            "url": url, "length": page.get("length", 0), "priority": page.get("priority", 0),
            "buffers": list(zip(page.get("buffer_offsets", []), page.get("buffer_sizes", []))),
            "layout": decode("PageLayout", value) if url.endswith("PageLayout") else None,
            "array": decode("ArrayEncoding", value) if url.endswith("ArrayEncoding") else None,
            "raw": value,
        })
    return out


def ce(value):
    """A compressive encoding in a few letters."""
    if value is None:
        return "-"
    kind, body = next(((k, v) for k, v in value.items() if k != "?"), ("none", {}))
    if kind == "flat":
        return f"flat{body.get('bits_per_value', 0)}"
    if kind == "variable":
        return f"var({ce(body.get('offsets'))})"
    if kind == "out_of_line_bitpacking":
        return f"oolpack{body.get('uncompressed_bits_per_value', 0)}({ce(body.get('values'))})"
    if kind == "inline_bitpacking":
        return f"pack{body.get('uncompressed_bits_per_value', 0)}"
    if kind == "general":
        scheme = {1: "lz4", 2: "zstd"}.get(body.get("compression", {}).get("scheme"), "?")
        return f"{scheme}({ce(body.get('values'))})"
    if kind == "rle":
        return f"rle({ce(body.get('values'))},{ce(body.get('run_lengths'))})"
    if kind == "fixed_size_list":
        return f"fsl{body.get('items_per_value', 0)}{'v' if body.get('has_validity') else ''}({ce(body.get('values'))})"
    if kind == "packed_struct":
        return f"packed{body.get('bits_per_value', [])}({ce(body.get('values'))})"
    if kind == "variable_packed_struct":
        return "varpacked(" + ",".join(ce(f.get("value")) for f in body.get("fields", [])) + ")"
    inner = body.get("values")
    short = {"byte_stream_split": "bss"}.get(kind, kind)
    return f"{short}({ce(inner)})" if inner is not None else short


def _layers(body):
    return "+".join(LAYERS[v] if v < len(LAYERS) else f"?{v}" for v in body.get("layers", []))


def describe(layout):
    kind, body = next(((k, v) for k, v in layout.items() if k != "?"), ("none", {}))
    if kind == "mini_block":
        parts = [f"mini[{ce(body.get('value_compression'))}]"]
        if "dictionary" in body:
            parts.append(f"dict={ce(body['dictionary'])}")
        for name in ("rep", "def"):
            if f"{name}_compression" in body:
                parts.append(f"{name}={ce(body[f'{name}_compression'])}")
        if body.get("has_large_chunk"):
            parts.append("large")
    elif kind == "full_zip":
        width = f"v{body['bits_per_value']}" if "bits_per_value" in body else f"o{body.get('bits_per_offset', 0)}"
        parts = [f"zip[{ce(body.get('value_compression'))}]",
                 f"r{body.get('bits_rep', 0)}d{body.get('bits_def', 0)}{width}"]
    elif kind == "constant":
        parts = [f"const[{len(body['inline_value'])}]" if "inline_value" in body else "const[null]"]
        for name in ("rep", "def"):
            if f"{name}_compression" in body:
                parts.append(f"{name}={ce(body[f'{name}_compression'])}")
    elif kind == "blob":
        return f"blob[{describe(body.get('inner_layout', {}))}] {_layers(body)}"
    else:
        parts = [kind]
    return " ".join(parts + [_layers(body)])


def describe20(value):
    """A 2.0 array encoding tree in a few letters."""
    if not value:
        return "-"
    kind, body = next(((k, v) for k, v in value.items() if k != "?"), ("none", {}))
    if kind == "nullable":
        which, inner = next(iter(body.items()), ("none", {}))
        if which == "no_nulls":
            return describe20(inner.get("values"))
        return "allnull" if which == "all_nulls" else f"null({describe20(inner.get('values'))})"
    if kind == "flat":
        scheme = body.get("compression", {}).get("scheme")
        return f"flat{body.get('bits_per_value', 0)}" + (f":{scheme}" if scheme else "")
    inner = [describe20(body[k]) for k in ("indices", "offsets", "items", "bytes", "binary") if k in body]
    return kind + (f"({','.join(inner)})" if inner else "")


# ---- command ------------------------------------------------------------------------------------------------------

def _plain(value):
    if isinstance(value, bytes):
        return value.hex() if len(value) <= 64 else f"{value[:24].hex()}… ({len(value)} bytes)"
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    return value


def show(path):
    if os.path.isdir(path):
        path = latest(path).path
        print(path)
    if path.endswith(".manifest"):
        file = ManifestFile(path)
        print(f"footer {file.major}.{file.minor} at {file.position}, trailing {file.trailing}, unknown {file.unknown()}")
        for name in ("manifest", "indices", "transaction"):
            print(name, json.dumps(_plain(getattr(file, name)), indent=1, ensure_ascii=False))
        return
    file = DataFile(path)
    print(f"footer {file.major}.{file.minor}, {file.size} bytes, {file.num_columns} columns, "
          f"{file.descriptor.get('length', 0)} rows, globals {file.globals}, unknown {file.unknown()}")
    print(json.dumps(_plain(file.descriptor), ensure_ascii=False))
    for i, column in enumerate(file.columns):
        for page, text in zip(column["pages"], file.layouts(i)):
            print(f"column {i} rows {page['length']} priority {page['priority']} buffers {page['buffers']}: {text}")


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        show(argument)
