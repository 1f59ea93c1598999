include(CMakePackageConfigHelpers)

install(TARGETS fermata fermata-lab fermatad fermata-exporter RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS fermata_so fermata-rta_so EXPORT fermata LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/fermata DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

# What a policy of one's own needs: the header (include/fermata/policy.h).
add_library(fermata_policy INTERFACE)
target_include_directories(fermata_policy INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
set_target_properties(fermata_policy PROPERTIES EXPORT_NAME policy)
install(TARGETS fermata_policy EXPORT fermata)

install(EXPORT fermata NAMESPACE fermata:: FILE fermata-targets.cmake
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/fermata)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/fermata-config.cmake.in
    ${CMAKE_BINARY_DIR}/fermata-config.cmake
    INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/fermata
    PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/fermata-config-version.cmake
    COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/fermata-config.cmake ${CMAKE_BINARY_DIR}/fermata-config-version.cmake
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/fermata)
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
    set(pc_prefix ${CMAKE_INSTALL_PREFIX})
else() # wherever it is installed
    file(RELATIVE_PATH pc_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
    string(REGEX REPLACE "/$" "" pc_prefix "\${pcfiledir}/${pc_prefix}")
endif()
configure_file(${PROJECT_SOURCE_DIR}/cmake/fermata.pc.in ${CMAKE_BINARY_DIR}/fermata.pc @ONLY)
configure_file(${PROJECT_SOURCE_DIR}/cmake/fermata-rta.pc.in ${CMAKE_BINARY_DIR}/fermata-rta.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/fermata.pc ${CMAKE_BINARY_DIR}/fermata-rta.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
if(TARGET fermata-cuda)
    configure_file(${PROJECT_SOURCE_DIR}/cmake/fermata-cuda.pc.in ${CMAKE_BINARY_DIR}/fermata-cuda.pc @ONLY)
    install(FILES ${CMAKE_BINARY_DIR}/fermata-cuda.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endif()

install(PROGRAMS ${PROJECT_SOURCE_DIR}/contrib/fermata-active-window DESTINATION ${CMAKE_INSTALL_BINDIR})

# Manual pages, each into the section that its name ends with.
file(GLOB pages CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/man/*.[1-8])
foreach(page IN LISTS pages)
    string(REGEX REPLACE ".*\\.([1-8])$" "\\1" section ${page})
    install(FILES ${page} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section})
endforeach()

# What the pages name as docs/... and examples/..., and what these name in turn.
install(FILES ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/CHANGELOG.md ${PROJECT_SOURCE_DIR}/LICENSE
    DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs ${PROJECT_SOURCE_DIR}/examples DESTINATION ${CMAKE_INSTALL_DOCDIR})

# The module for Python, for pip.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/python DESTINATION ${CMAKE_INSTALL_DATADIR}/fermata
    PATTERN __pycache__ EXCLUDE)

# bash looks for a file by the command's name; one file completes both programs.
foreach(program fermata fermata-lab)
    install(FILES ${PROJECT_SOURCE_DIR}/contrib/completion/fermata RENAME ${program}
        DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
endforeach()
install(FILES ${PROJECT_SOURCE_DIR}/contrib/completion/_fermata
    DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)

# Units (of the system in systemd/, of a user in systemd/user/), with @CMAKE_INSTALL_FULL_BINDIR@ and
# the like filled in where a file ends in .in.
set(FERMATA_UNITDIR lib/systemd CACHE STRING "Directory of systemd's units, with system/ and user/ in it")
function(install_units from to)
    file(GLOB units CONFIGURE_DEPENDS ${from}/*.service ${from}/*.socket ${from}/*.service.in ${from}/*.socket.in)
    foreach(unit IN LISTS units)
        get_filename_component(name ${unit} NAME)
        if(name MATCHES "\\.in$")
            string(REGEX REPLACE "\\.in$" "" name ${name})
            configure_file(${unit} ${CMAKE_BINARY_DIR}/units/${to}/${name} @ONLY)
            set(unit ${CMAKE_BINARY_DIR}/units/${to}/${name})
        endif()
        install(FILES ${unit} DESTINATION ${FERMATA_UNITDIR}/${to})
    endforeach()
endfunction()
install_units(${PROJECT_SOURCE_DIR}/contrib/systemd system)
install_units(${PROJECT_SOURCE_DIR}/contrib/systemd/user user)
set(FERMATA_SYSUSERSDIR lib/sysusers.d CACHE STRING "Directory of systemd's lists of users")
install(FILES ${PROJECT_SOURCE_DIR}/contrib/systemd/fermata.sysusers DESTINATION ${FERMATA_SYSUSERSDIR}
    RENAME fermata.conf)

# The daemon's settings, where it looks for them (with the prefix /usr that is /etc), and never over those that are there.
set(conf_dir ${CMAKE_INSTALL_SYSCONFDIR})
if(NOT CMAKE_INSTALL_FULL_SYSCONFDIR STREQUAL "${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_SYSCONFDIR}")
    set(conf_dir ${CMAKE_INSTALL_FULL_SYSCONFDIR})
endif()
install(CODE "
    get_filename_component(conf_dir \"${conf_dir}/fermata\" ABSOLUTE BASE_DIR \"\${CMAKE_INSTALL_PREFIX}\")
    if(EXISTS \"\$ENV{DESTDIR}\${conf_dir}/fermatad.conf\")
        message(STATUS \"Kept: \$ENV{DESTDIR}\${conf_dir}/fermatad.conf\")
    else()
        file(INSTALL \"${PROJECT_SOURCE_DIR}/contrib/fermatad.conf\" DESTINATION \"\${conf_dir}\")
    endif()
    if(NOT CMAKE_INSTALL_PREFIX STREQUAL \"${CMAKE_INSTALL_PREFIX}\")
        message(NOTICE \"systemd's units and the daemon look below ${CMAKE_INSTALL_PREFIX} all the same: \"
            \"for another place configure with -DCMAKE_INSTALL_PREFIX=\${CMAKE_INSTALL_PREFIX}\")
    endif()" COMPONENT settings)

# Takes away what the last installation of this build has put there, but for settings that were edited.
configure_file(${PROJECT_SOURCE_DIR}/cmake/uninstall.cmake.in ${CMAKE_BINARY_DIR}/uninstall.cmake @ONLY)
add_custom_target(uninstall COMMAND ${CMAKE_COMMAND} -P ${CMAKE_BINARY_DIR}/uninstall.cmake VERBATIM)
