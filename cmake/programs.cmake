# Licensed under the Apache License, Version 2.0; see LICENSE.
# The command, the examples and the benchmarks. They see the public headers only.

if(NOT TARGET pennon_static)
    return()
endif()

file(GLOB cli_sources CONFIGURE_DEPENDS cli/*.c)
if(cli_sources)
    add_executable(pennon ${cli_sources})
    target_link_libraries(pennon PRIVATE pennon_static pennon_flags)
endif()

file(GLOB example_sources CONFIGURE_DEPENDS examples/*.c)
foreach(source IN LISTS example_sources)
    get_filename_component(name ${source} NAME_WE)
    add_executable(example_${name} ${source})
    set_target_properties(example_${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/examples)
    target_link_libraries(example_${name} PRIVATE pennon_shared pennon_flags)
endforeach()

if(PENNON_BENCH)
    # Benchmarks also measure single kernels, so they see the inside.
    file(GLOB bench_sources CONFIGURE_DEPENDS bench/*.c)
    list(FILTER bench_sources EXCLUDE REGEX count_allocations)
    add_library(count_allocations MODULE bench/count_allocations.c)
    set_target_properties(count_allocations PROPERTIES PREFIX "" LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bench)
    foreach(source IN LISTS bench_sources)
        get_filename_component(name ${source} NAME_WE)
        add_executable(${name} ${source})
        set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bench)
        target_link_libraries(${name} PRIVATE pennon_internal ${CMAKE_DL_LIBS})
    endforeach()
endif()
