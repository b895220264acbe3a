# Licensed under the Apache License, Version 2.0; see LICENSE.
# The Python extension _pennon: one binary for CPython 3.11 and later (the limited API), with the library linked in. In the build folder python/ is
# the whole package, for tests of what was built (PYTHONPATH); a wheel is made by scikit-build-core, which installs the component "python".

find_package(Python 3.11 REQUIRED COMPONENTS Interpreter Development.Module)

file(GLOB python_sources CONFIGURE_DEPENDS bindings/python/src/*.c)
add_library(_pennon MODULE ${python_sources})
set_target_properties(_pennon PROPERTIES PREFIX "" SUFFIX ".abi3.so" LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/python/pennon)
target_include_directories(_pennon SYSTEM PRIVATE ${Python_INCLUDE_DIRS})
target_link_libraries(_pennon PRIVATE pennon_static pennon_flags)
if(APPLE)
    target_link_options(_pennon PRIVATE -undefined dynamic_lookup)
else()
    target_link_options(_pennon PRIVATE LINKER:--exclude-libs,ALL)
    if(CMAKE_SYSTEM_NAME STREQUAL "Linux" AND PENNON_X86_64)
        target_link_options(_pennon PRIVATE LINKER:--wrap=hypot LINKER:--wrap=hypotf)
    endif()
endif()

file(GLOB_RECURSE python_modules CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR}/bindings/python
    bindings/python/pennon/*.py bindings/python/pennon/*.pyi bindings/python/pennon/py.typed)
foreach(module IN LISTS python_modules)
    add_custom_command(OUTPUT ${CMAKE_BINARY_DIR}/python/${module}
        COMMAND ${CMAKE_COMMAND} -E copy ${CMAKE_SOURCE_DIR}/bindings/python/${module} ${CMAKE_BINARY_DIR}/python/${module}
        DEPENDS ${CMAKE_SOURCE_DIR}/bindings/python/${module} VERBATIM)
    list(APPEND python_copies ${CMAKE_BINARY_DIR}/python/${module})
endforeach()
add_custom_target(python_package ALL DEPENDS ${python_copies})

install(TARGETS _pennon LIBRARY DESTINATION pennon COMPONENT python EXCLUDE_FROM_ALL)

# What is linked in or put beside it keeps its licence. Debian has one file a package, most of them by the name of the -dev package.
if(SKBUILD)
    foreach(package libzstd-dev liblz4-dev libutf8proc-dev libjansson-dev libpcre2-dev libroaring-dev libxxhash-dev liburing-dev)
        if(EXISTS /usr/share/doc/${package}/copyright)
            install(FILES /usr/share/doc/${package}/copyright DESTINATION ${SKBUILD_METADATA_DIR}/licenses RENAME ${package}.txt COMPONENT python)
        endif()
    endforeach()
endif()
