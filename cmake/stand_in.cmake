# libcuda.so.1 in a directory of its own, for programs that no LD_PRELOAD reaches. There is no code in it: it needs
# the shim, and then the driver by another name, libcuda-driver.so.1, for which whoever sets it up makes a link. So a
# look-up finds the shim's functions before the driver's, and of the rest exactly what this driver has.
set(stand_in_dir ${CMAKE_BINARY_DIR}/lib/fermata)
file(WRITE ${CMAKE_BINARY_DIR}/empty.c "")

# Stands for the driver at link time alone.
add_library(cuda-driver SHARED ${CMAKE_BINARY_DIR}/empty.c)
set_target_properties(cuda-driver PROPERTIES SOVERSION 1 LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/stand-in)

add_library(fermata-stand-in SHARED ${CMAKE_BINARY_DIR}/empty.c)
target_link_options(fermata-stand-in PRIVATE -Wl,--no-as-needed $<TARGET_FILE:fermata-cuda> -Wl,--enable-new-dtags)
target_link_libraries(fermata-stand-in PRIVATE cuda-driver)
add_dependencies(fermata-stand-in fermata-cuda)
set_target_properties(fermata-stand-in PROPERTIES OUTPUT_NAME cuda SOVERSION 1
    LIBRARY_OUTPUT_DIRECTORY ${stand_in_dir} BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "$ORIGIN:$ORIGIN/..")
set_target_properties(fermata-stand-in PROPERTIES LINK_DEPENDS $<TARGET_FILE:fermata-cuda>)
install(FILES ${stand_in_dir}/libcuda.so.1 ${stand_in_dir}/libcuda.so DESTINATION ${CMAKE_INSTALL_LIBDIR}/fermata)
