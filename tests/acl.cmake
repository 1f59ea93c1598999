# What the tests of AscendCL are built of.

# AscendCL over the same engine; and operators over that, in a library of their own.
file(GLOB fake_acl CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/fakes/acl/*.c)
set(fake_acl_map ${CMAKE_CURRENT_SOURCE_DIR}/fakes/acl/exports.map)
add_library(fake_acl SHARED ${fake_acl} $<TARGET_OBJECTS:fake_cuda_objects>)
target_include_directories(fake_acl PRIVATE ${PROJECT_SOURCE_DIR}/src)
target_link_libraries(fake_acl PRIVATE unpackers Threads::Threads ${CMAKE_DL_LIBS} m)
target_link_options(fake_acl PRIVATE -Wl,-Bsymbolic -Wl,--exclude-libs,ALL -Wl,--version-script=${fake_acl_map})
set_target_properties(fake_acl PROPERTIES OUTPUT_NAME ascendcl LINK_DEPENDS ${fake_acl_map}
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/fakes/acl)
# The same operators once more, as a program may have of its own.
foreach(name opapi cust_opapi)
    add_library(fake_${name} SHARED ${CMAKE_CURRENT_SOURCE_DIR}/fakes/acl_operators/opapi.c)
    target_link_libraries(fake_${name} PRIVATE fake_acl)
    set_target_properties(fake_${name} PROPERTIES OUTPUT_NAME ${name} SKIP_BUILD_RPATH ON
        LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/fakes/acl)
endforeach()

# One that looks at what it is called with: all of it in one library.
add_library(acl_recorder SHARED ${CMAKE_CURRENT_SOURCE_DIR}/fakes/acl_recorder/recorder.c)
target_include_directories(acl_recorder PRIVATE ${PROJECT_SOURCE_DIR}/src)
target_link_options(acl_recorder PRIVATE -Wl,-Bsymbolic)
set_target_properties(acl_recorder PROPERTIES OUTPUT_NAME ascendcl
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/fakes/acl_recorder)

# CUDA's conformance sets over AscendCL.
foreach(set order graph)
    integration_source(source cuda_${set})
    cuda_program(acl_${set} ${source})
    target_compile_definitions(acl_${set} PRIVATE CONFORM_ACL)
    target_link_libraries(acl_${set} PRIVATE -Wl,--no-as-needed fake_acl)
endforeach()
cuda_program(acl_worker ${CMAKE_CURRENT_SOURCE_DIR}/fault/cuda_worker.c)
target_compile_definitions(acl_worker PRIVATE CONFORM_ACL)

foreach(name acl_runtime acl_ends acl_lookups_linked)
    string(REPLACE _linked "" source ${name})
    cuda_program(${name} ${CMAKE_CURRENT_SOURCE_DIR}/integration/acl/${source}.c)
    target_link_libraries(${name} PRIVATE -Wl,--no-as-needed fake_acl fake_opapi)
endforeach()
cuda_program(acl_lookups ${CMAKE_CURRENT_SOURCE_DIR}/integration/acl/acl_lookups.c)
cuda_program(acl_table ${CMAKE_CURRENT_SOURCE_DIR}/integration/acl/acl_table.c)
target_include_directories(acl_table PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
target_compile_options(acl_table PRIVATE -fPIE) # its functions are looked up at run time
target_link_options(acl_table PRIVATE -pie)
target_link_libraries(acl_table PRIVATE -Wl,--no-as-needed acl_recorder)
