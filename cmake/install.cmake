# Licensed under the Apache License, Version 2.0; see LICENSE.
# Manual pages, and what `cmake --install` puts where: libraries, headers, the command, pennon.pc, the CMake package.

find_program(SCDOC_PROGRAM scdoc)
if(SCDOC_PROGRAM)
    file(GLOB man_sources CONFIGURE_DEPENDS docs/man/*.scd)
    set(man_pages "")
    foreach(source IN LISTS man_sources)
        get_filename_component(page ${source} NAME_WLE)
        set(output ${CMAKE_BINARY_DIR}/man/${page})
        file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/man)
        add_custom_command(OUTPUT ${output} COMMAND sh -c "\"$0\" < \"$1\" > \"$2\"" ${SCDOC_PROGRAM} ${source} ${output}
            DEPENDS ${source} VERBATIM COMMENT "Manual page ${page}")
        list(APPEND man_pages ${output})
        string(REGEX REPLACE ".*\\." "" section ${page})
        install(FILES ${output} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section})
    endforeach()
    add_custom_target(man ALL DEPENDS ${man_pages})
endif()

if(NOT TARGET pennon_shared)
    return()
endif()

install(TARGETS pennon_shared pennon_static
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET pennon)
    install(TARGETS pennon RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(DIRECTORY include/pennon DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

# Both are found from where they stand, so that an installed tree can be moved.
file(RELATIVE_PATH PENNON_PC_TO_PREFIX "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
configure_file(cmake/pennon.pc.in ${CMAKE_BINARY_DIR}/pennon.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/pennon.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

include(CMakePackageConfigHelpers)
set(PENNON_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/Pennon)
string(REPLACE "," "" PENNON_PC_MODULES "${PENNON_PC_REQUIRES}")
set(PENNON_SHARED_NAME ${CMAKE_SHARED_LIBRARY_PREFIX}pennon${CMAKE_SHARED_LIBRARY_SUFFIX})
configure_package_config_file(cmake/PennonConfig.cmake.in ${CMAKE_BINARY_DIR}/PennonConfig.cmake
    INSTALL_DESTINATION ${PENNON_CMAKE_DIR} PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/PennonConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/PennonConfig.cmake ${CMAKE_BINARY_DIR}/PennonConfigVersion.cmake
    DESTINATION ${PENNON_CMAKE_DIR})
