# Licensed under the Apache License, Version 2.0; see LICENSE.
# What a builder can choose.

get_property(multi_config GLOBAL PROPERTY GENERATOR_IS_MULTI_CONFIG)
if(NOT CMAKE_BUILD_TYPE AND NOT multi_config)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "Release, Debug or RelWithDebInfo" FORCE)
endif()

option(PENNON_TESTS "Build unit tests, fuzz replay programs and examples" ON)
option(PENNON_FUZZ "Build libFuzzer programs (clang only)" OFF)
option(PENNON_BENCH "Build the benchmarks" OFF)
option(PENNON_LTO "Link-time optimisation" OFF)
option(PENNON_COVERAGE "Instrument for line coverage (gcov)" OFF)
option(PENNON_WERROR "Warnings are errors" ON)
option(PENNON_IO_URING "Use io_uring where the system has it (checked again at run time)" ON)
set(PENNON_SANITIZE "" CACHE STRING "Sanitizers as a comma separated list: address,undefined or thread or memory")

string(REPLACE ";" "," PENNON_SANITIZE "${PENNON_SANITIZE}")
if(PENNON_FUZZ AND NOT CMAKE_C_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "PENNON_FUZZ needs clang: pass -DCMAKE_C_COMPILER=clang-14")
endif()

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_C_COMPILER_LAUNCHER)
    set(CMAKE_C_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
    set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})

set(PENNON_X86_64 OFF)
set(PENNON_AARCH64 OFF)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|amd64|AMD64)$" AND CMAKE_SIZEOF_VOID_P EQUAL 8)
    set(PENNON_X86_64 ON)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64|ARM64)$")
    set(PENNON_AARCH64 ON)
endif()
