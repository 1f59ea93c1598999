include(CMakePackageConfigHelpers)

install(TARGETS fermata fermatad RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS fermata_so EXPORT fermata LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS fermata-opencl LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/fermata DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

install(EXPORT fermata NAMESPACE fermata:: FILE fermata-targets.cmake
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/fermata)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/fermata-config.cmake.in
    ${CMAKE_BINARY_DIR}/fermata-config.cmake
    INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/fermata)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/fermata-config-version.cmake
    COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/fermata-config.cmake ${CMAKE_BINARY_DIR}/fermata-config-version.cmake
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/fermata)
configure_file(${PROJECT_SOURCE_DIR}/cmake/fermata.pc.in ${CMAKE_BINARY_DIR}/fermata.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/fermata.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
