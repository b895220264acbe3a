/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* What src/base offers: errors, accounted memory, the running call, the pool, time, compression. */
#ifndef BASE_BASE_H
#define BASE_BASE_H

#include "base/base64.h"
#include "base/call.h"
#include "base/compiler.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/runtime.h"
#include "base/value_range.h"

#endif
