# Licensed under the Apache License, Version 2.0; see LICENSE.
# The library, four ways: objects; libpennon.so.0; libpennon.a, which is one object whose hidden names are local; and
# pennon_internal, an archive for our tests in which every name can be reached.

file(GLOB PENNON_SOURCES CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR} src/*/*.c src/index/*/*.c)
if(NOT PENNON_X86_64)
    list(FILTER PENNON_SOURCES EXCLUDE REGEX "_(avx2|avx512)\\.c$")
endif()
if(NOT PENNON_AARCH64)
    list(FILTER PENNON_SOURCES EXCLUDE REGEX "_neon\\.c$")
endif()
if(NOT PENNON_SOURCES)
    message(STATUS "no sources yet: nothing to build")
    return()
endif()

# Later options win: the per-file ones stand behind the target's.
foreach(source IN LISTS PENNON_SOURCES)
    set(extra "")
    if(source MATCHES "^src/(encoding|expr)/")
        list(APPEND extra $<$<CONFIG:Release,RelWithDebInfo>:-O3>)
    endif()
    if(source MATCHES "_avx2\\.c$")
        list(APPEND extra -mavx2 -mbmi2 -mfma)
    elseif(source MATCHES "_avx512\\.c$")
        list(APPEND extra -mavx2 -mbmi2 -mfma -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vbmi)
    endif()
    # Training of symbols parses nothing: reports of its many comparisons would take most of the fuzzer's time.
    if(PENNON_FUZZ AND source MATCHES "/fsst_encode\\.c$")
        list(APPEND extra -fno-sanitize-coverage=trace-cmp)
    endif()
    if(extra)
        set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "${extra}")
    endif()
endforeach()

add_library(pennon_objects OBJECT ${PENNON_SOURCES})
target_include_directories(pennon_objects PUBLIC
    $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/src> $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include>)
target_include_directories(pennon_objects SYSTEM PUBLIC ${PENNON_INCLUDE_DIRS})
target_compile_definitions(pennon_objects PRIVATE PENNON_VERSION="${PROJECT_VERSION}")
if(PENNON_HAVE_URING)
    target_compile_definitions(pennon_objects PUBLIC PENNON_HAVE_URING=1)
endif()
target_link_libraries(pennon_objects PUBLIC pennon_flags ${PENNON_DEPENDENCIES})

add_library(pennon_shared SHARED $<TARGET_OBJECTS:pennon_objects>)
set_target_properties(pennon_shared PROPERTIES
    OUTPUT_NAME pennon EXPORT_NAME pennon VERSION ${PROJECT_VERSION} SOVERSION 0
    LINK_DEPENDS ${CMAKE_SOURCE_DIR}/cmake/pennon.map)
target_include_directories(pennon_shared PUBLIC
    $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(pennon_shared PRIVATE $<BUILD_INTERFACE:pennon_flags> ${PENNON_DEPENDENCIES})
if(NOT APPLE)
    target_link_options(pennon_shared PRIVATE
        "LINKER:--version-script=${CMAKE_SOURCE_DIR}/cmake/pennon.map" LINKER:--no-undefined-version)
    if(NOT PENNON_SANITIZE AND NOT PENNON_FUZZ)
        target_link_options(pennon_shared PRIVATE LINKER:-z,defs)
    endif()
endif()

add_library(pennon_internal STATIC $<TARGET_OBJECTS:pennon_objects>)
set_target_properties(pennon_internal PROPERTIES OUTPUT_NAME pennon_internal)
target_include_directories(pennon_internal PUBLIC ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include)
target_include_directories(pennon_internal SYSTEM PUBLIC ${PENNON_INCLUDE_DIRS})
if(PENNON_HAVE_URING)
    target_compile_definitions(pennon_internal PUBLIC PENNON_HAVE_URING=1)
endif()
target_link_libraries(pennon_internal PUBLIC pennon_flags ${PENNON_DEPENDENCIES})

if(PENNON_INSTRUMENTED OR APPLE)
    add_library(pennon_static STATIC $<TARGET_OBJECTS:pennon_objects>)
else()
    set(merged ${CMAKE_BINARY_DIR}/pennon_merged.o)
    set(merge_flags -r -nostdlib)
    if(PENNON_LTO AND CMAKE_C_COMPILER_ID STREQUAL "GNU")
        list(APPEND merge_flags -O2 -flto=auto -flinker-output=nolto-rel)
    elseif(PENNON_LTO)
        message(FATAL_ERROR "PENNON_LTO with the merged archive needs gcc")
    endif()
    add_custom_command(OUTPUT ${merged}
        COMMAND ${CMAKE_C_COMPILER} ${merge_flags} -o ${merged} $<TARGET_OBJECTS:pennon_objects>
        COMMAND ${CMAKE_OBJCOPY} --localize-hidden ${merged}
        DEPENDS pennon_objects $<TARGET_OBJECTS:pennon_objects>
        COMMAND_EXPAND_LISTS VERBATIM COMMENT "Merging libpennon.a into one object")
    add_library(pennon_static STATIC ${merged})
    set_target_properties(pennon_static PROPERTIES LINKER_LANGUAGE C)
endif()
set_target_properties(pennon_static PROPERTIES OUTPUT_NAME pennon EXPORT_NAME pennon_static)
target_include_directories(pennon_static PUBLIC
    $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(pennon_static PRIVATE ${PENNON_DEPENDENCIES})
