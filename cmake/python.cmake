# Licensed under the Apache License, Version 2.0; see LICENSE.
# The Python extension _pennon: one binary for CPython 3.11 and later (the limited API), with the library linked in.

find_package(Python 3.11 REQUIRED COMPONENTS Interpreter Development.Module)

file(GLOB python_sources CONFIGURE_DEPENDS bindings/python/src/*.c)
add_library(_pennon MODULE ${python_sources})
set_target_properties(_pennon PROPERTIES PREFIX "" SUFFIX ".abi3.so" LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/python)
target_include_directories(_pennon SYSTEM PRIVATE ${Python_INCLUDE_DIRS})
target_link_libraries(_pennon PRIVATE pennon_static pennon_flags)
if(APPLE)
    target_link_options(_pennon PRIVATE -undefined dynamic_lookup)
else()
    target_link_options(_pennon PRIVATE LINKER:--exclude-libs,ALL)
endif()
install(TARGETS _pennon LIBRARY DESTINATION pennon COMPONENT python)
