# Licensed under the Apache License, Version 2.0; see LICENSE.
# Libraries from the system. PENNON_DEPENDENCIES is what the objects compile and link with; PENNON_PC_REQUIRES and
# PENNON_PC_LIBS are the same facts for pennon.pc.

find_package(PkgConfig REQUIRED)
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

pkg_check_modules(ZSTD REQUIRED IMPORTED_TARGET libzstd>=1.4.0)
pkg_check_modules(LZ4 REQUIRED IMPORTED_TARGET liblz4>=1.9.0)
pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc>=2.4)
pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson>=2.12)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8>=10.30)
set(PENNON_DEPENDENCIES "")
set(PENNON_INCLUDE_DIRS "")

# Take the library that pkg-config found as NAME. With PENNON_STATIC_DEPENDENCIES its archive, where there is one that can be linked into a shared
# object: what is loaded into other programs, such as a wheel, then brings its own copy.
macro(pennon_depend_on name archive)
    set(${name}_ARCHIVE_USED OFF)
    if(PENNON_STATIC_DEPENDENCIES)
        find_library(${name}_ARCHIVE ${archive} HINTS ${${name}_LIBRARY_DIRS} ${${name}_LIBDIR})
        if(${name}_ARCHIVE)
            set(CMAKE_REQUIRED_LINK_OPTIONS -shared)
            set(CMAKE_REQUIRED_LIBRARIES -Wl,--whole-archive ${${name}_ARCHIVE} -Wl,--no-whole-archive Threads::Threads)
            check_c_source_compiles("int pennon_probe(void) { return 0; }" ${name}_ARCHIVE_LINKS)
            unset(CMAKE_REQUIRED_LINK_OPTIONS)
            unset(CMAKE_REQUIRED_LIBRARIES)
            set(${name}_ARCHIVE_USED ${${name}_ARCHIVE_LINKS})
        endif()
    endif()
    if(${name}_ARCHIVE_USED)
        list(APPEND PENNON_DEPENDENCIES ${${name}_ARCHIVE})
        list(APPEND PENNON_INCLUDE_DIRS ${${name}_INCLUDE_DIRS})
    else()
        list(APPEND PENNON_DEPENDENCIES PkgConfig::${name})
    endif()
endmacro()

include(CheckCSourceCompiles)
pennon_depend_on(ZSTD libzstd.a)
pennon_depend_on(LZ4 liblz4.a)
pennon_depend_on(UTF8PROC libutf8proc.a)
pennon_depend_on(JANSSON libjansson.a)
pennon_depend_on(PCRE2 libpcre2-8.a)
set(PENNON_PC_REQUIRES "libzstd, liblz4, libutf8proc, jansson, libpcre2-8")
set(PENNON_PC_LIBS "")

# xxhash: only its header is used, inlined into our objects.
find_path(XXHASH_INCLUDE_DIR xxhash.h REQUIRED)
list(APPEND PENNON_INCLUDE_DIRS ${XXHASH_INCLUDE_DIR})

# CRoaring: newer packages bring roaring.pc, Debian 12's does not.
pkg_check_modules(ROARING QUIET IMPORTED_TARGET roaring)
if(ROARING_FOUND)
    pennon_depend_on(ROARING libroaring.a)
    string(APPEND PENNON_PC_REQUIRES ", roaring")
else()
    find_library(ROARING_LIBRARY roaring REQUIRED)
    find_path(ROARING_INCLUDE_DIR roaring/roaring.h REQUIRED)
    list(APPEND PENNON_DEPENDENCIES ${ROARING_LIBRARY})
    list(APPEND PENNON_INCLUDE_DIRS ${ROARING_INCLUDE_DIR})
    string(APPEND PENNON_PC_LIBS " -lroaring")
endif()

set(PENNON_HAVE_URING OFF)
if(PENNON_IO_URING AND CMAKE_SYSTEM_NAME STREQUAL "Linux")
    pkg_check_modules(URING QUIET IMPORTED_TARGET liburing>=2.0)
    if(URING_FOUND)
        set(PENNON_HAVE_URING ON)
        pennon_depend_on(URING liburing.a)
        string(APPEND PENNON_PC_REQUIRES ", liburing")
    endif()
endif()

list(APPEND PENNON_DEPENDENCIES Threads::Threads m)
string(APPEND PENNON_PC_LIBS " -lm -pthread")

if(PENNON_TESTS)
    pkg_check_modules(CMOCKA IMPORTED_TARGET cmocka)
    if(NOT CMOCKA_FOUND)
        message(STATUS "cmocka is missing: unit tests are left out (Debian: libcmocka-dev)")
    endif()
endif()
