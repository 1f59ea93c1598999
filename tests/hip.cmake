# What the tests of HIP are built of.

# A HIP runtime over the same engine, with the versions of symbols that the real one has.
file(GLOB fake_hip CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/fakes/hip/*.c)
set(fake_hip_map ${CMAKE_CURRENT_SOURCE_DIR}/fakes/hip/versions.map)
add_library(fake_hip SHARED ${fake_hip} $<TARGET_OBJECTS:fake_cuda_objects>)
target_include_directories(fake_hip PRIVATE ${PROJECT_SOURCE_DIR}/src)
target_link_libraries(fake_hip PRIVATE unpackers Threads::Threads ${CMAKE_DL_LIBS} m)
target_link_options(fake_hip PRIVATE -Wl,-Bsymbolic -Wl,--exclude-libs,ALL -Wl,--version-script=${fake_hip_map})
set_target_properties(fake_hip PROPERTIES OUTPUT_NAME amdhip64 SOVERSION 6 LINK_DEPENDS ${fake_hip_map}
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/fakes/hip)

# One that looks at what it is called with.
add_library(hip_recorder SHARED ${CMAKE_CURRENT_SOURCE_DIR}/fakes/hip_recorder/recorder.c)
target_include_directories(hip_recorder PRIVATE ${PROJECT_SOURCE_DIR}/src)
target_link_options(hip_recorder PRIVATE -Wl,-Bsymbolic)
set_target_properties(hip_recorder PROPERTIES OUTPUT_NAME amdhip64 SOVERSION 6
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/fakes/hip_recorder)

# CUDA's conformance sets over HIP.
foreach(set order graph)
    integration_source(source cuda_${set})
    cuda_program(hip_${set} ${source})
    target_compile_definitions(hip_${set} PRIVATE CONFORM_HIP)
    target_link_libraries(hip_${set} PRIVATE -Wl,--no-as-needed fake_hip)
endforeach()
cuda_program(hip_lookups_linked ${CMAKE_CURRENT_SOURCE_DIR}/integration/hip/hip_lookups.c)
target_link_libraries(hip_lookups_linked PRIVATE -Wl,--no-as-needed fake_hip)
cuda_program(hip_worker ${CMAKE_CURRENT_SOURCE_DIR}/fault/cuda_worker.c)
target_compile_definitions(hip_worker PRIVATE CONFORM_HIP)

foreach(name hip_runtime hip_ends)
    cuda_program(${name} ${CMAKE_CURRENT_SOURCE_DIR}/integration/hip/${name}.c)
    target_link_libraries(${name} PRIVATE -Wl,--no-as-needed fake_hip)
endforeach()
cuda_program(hip_lookups ${CMAKE_CURRENT_SOURCE_DIR}/integration/hip/hip_lookups.c)
cuda_program(hip_table ${CMAKE_CURRENT_SOURCE_DIR}/integration/hip/hip_table.c)
target_include_directories(hip_table PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
target_compile_options(hip_table PRIVATE -fPIE) # its functions are looked up at run time
target_link_options(hip_table PRIVATE -pie)
target_link_libraries(hip_table PRIVATE -Wl,--no-as-needed hip_recorder)
