# What the tests of VPI are built of.

# A VPI library over the engine of the fake CUDA driver.
file(GLOB fake_vpi CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/fakes/vpi/*.c)
set(fake_vpi_map ${CMAKE_CURRENT_SOURCE_DIR}/fakes/vpi/exports.map)
add_library(fake_vpi SHARED ${fake_vpi} $<TARGET_OBJECTS:fake_cuda_objects>)
target_include_directories(fake_vpi PRIVATE ${PROJECT_SOURCE_DIR}/src)
target_link_libraries(fake_vpi PRIVATE unpackers Threads::Threads ${CMAKE_DL_LIBS} m)
target_link_options(fake_vpi PRIVATE -Wl,-Bsymbolic -Wl,--exclude-libs,ALL -Wl,--version-script=${fake_vpi_map})
set_target_properties(fake_vpi PROPERTIES OUTPUT_NAME nvvpi SOVERSION 3 LINK_DEPENDS ${fake_vpi_map}
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/fakes/vpi)

# One that looks at what it is called with.
add_library(vpi_recorder SHARED ${CMAKE_CURRENT_SOURCE_DIR}/fakes/vpi_recorder/recorder.c)
target_include_directories(vpi_recorder PRIVATE ${PROJECT_SOURCE_DIR}/src)
target_link_options(vpi_recorder PRIVATE -Wl,-Bsymbolic)
set_target_properties(vpi_recorder PROPERTIES OUTPUT_NAME nvvpi SOVERSION 3
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/fakes/vpi_recorder)

foreach(name vpi_order vpi_worker vpi_ends vpi_table)
    add_executable(${name} ${CMAKE_CURRENT_SOURCE_DIR}/integration/vpi/${name}.c)
    target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src ${CMAKE_CURRENT_SOURCE_DIR})
    target_link_libraries(${name} PRIVATE Threads::Threads ${CMAKE_DL_LIBS})
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests SKIP_BUILD_RPATH ON)
    if(name STREQUAL "vpi_table")
        target_compile_options(${name} PRIVATE -fPIE) # its functions are looked up at run time
        target_link_options(${name} PRIVATE -pie)
        target_link_libraries(${name} PRIVATE -Wl,--no-as-needed vpi_recorder)
    else()
        target_link_libraries(${name} PRIVATE -Wl,--no-as-needed fake_vpi)
    endif()
endforeach()
