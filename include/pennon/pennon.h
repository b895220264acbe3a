/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Pennon: the Lance lakehouse format in C. This header pulls in all others.
 *
 *     status.h     status codes, the error object
 *     runtime.h    runtime, cancel, budget, the call part of options
 *     store.h      object stores
 *     dataset.h    open, facts, count, take, listings, verify
 *     scan.h       scans: filters, expressions, order, aggregates, plans
 *     async.h      scans by callback or poll
 *     blob.h       values of blob columns one by one, and in parts
 *     write.h      create, append, overwrite
 *     appender.h   many threads that append, few commits
 *     maintenance.h cleanup of old versions
 *     refs.h       tags, branches, clones
 *     mutation.h   delete and update rows
 *     evolution.h  add, drop, alter columns
 *     compaction.h fewer, larger fragments
 *     transaction.h transactions, commit, restore, config and metadata, base paths
 *     delta.h      what changed between two versions
 *     ingest.h     CSV, JSON lines and IPC in and out
 *     file.h       single data files
 *     stream.h     the full error of a stream
 */
#ifndef PENNON_PENNON_H
#define PENNON_PENNON_H

#include "pennon/appender.h"
#include "pennon/arrow_abi.h"
#include "pennon/async.h"
#include "pennon/blob.h"
#include "pennon/compaction.h"
#include "pennon/dataset.h"
#include "pennon/delta.h"
#include "pennon/evolution.h"
#include "pennon/file.h"
#include "pennon/ingest.h"
#include "pennon/maintenance.h"
#include "pennon/mutation.h"
#include "pennon/refs.h"
#include "pennon/runtime.h"
#include "pennon/scan.h"
#include "pennon/status.h"
#include "pennon/store.h"
#include "pennon/stream.h"
#include "pennon/transaction.h"
#include "pennon/write.h"

#endif
