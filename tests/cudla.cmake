# What the tests of cuDLA are built of.

# A cuDLA library that is a client of the (fake) CUDA driver.
add_library(fake_cudla SHARED ${CMAKE_CURRENT_SOURCE_DIR}/fakes/cudla/cudla.c)
target_include_directories(fake_cudla PRIVATE ${PROJECT_SOURCE_DIR}/src)
target_link_libraries(fake_cudla PRIVATE fake_cuda Threads::Threads)
set_target_properties(fake_cudla PROPERTIES OUTPUT_NAME cudla SOVERSION 1 SKIP_BUILD_RPATH ON
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/fakes/cudla)

add_executable(cudla_worker ${CMAKE_CURRENT_SOURCE_DIR}/integration/cudla/cudla_worker.c)
target_include_directories(cudla_worker PRIVATE ${PROJECT_SOURCE_DIR}/src ${CMAKE_CURRENT_SOURCE_DIR})
target_link_libraries(cudla_worker PRIVATE -Wl,--no-as-needed fake_cudla fake_cuda ${CMAKE_DL_LIBS})
set_target_properties(cudla_worker PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests SKIP_BUILD_RPATH ON)

add_executable(cudla_ends ${CMAKE_CURRENT_SOURCE_DIR}/integration/cudla/cudla_ends.c)
target_include_directories(cudla_ends PRIVATE ${PROJECT_SOURCE_DIR}/src ${CMAKE_CURRENT_SOURCE_DIR})
target_link_libraries(cudla_ends PRIVATE -Wl,--no-as-needed fake_cudla fake_cuda Threads::Threads)
set_target_properties(cudla_ends PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests SKIP_BUILD_RPATH ON)

# One that looks at what it is called with.
add_library(cudla_recorder SHARED ${CMAKE_CURRENT_SOURCE_DIR}/fakes/cudla_recorder/recorder.c)
target_include_directories(cudla_recorder PRIVATE ${PROJECT_SOURCE_DIR}/src)
target_link_options(cudla_recorder PRIVATE -Wl,-Bsymbolic)
set_target_properties(cudla_recorder PROPERTIES OUTPUT_NAME cudla SOVERSION 1
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/fakes/cudla_recorder)

add_executable(cudla_table ${CMAKE_CURRENT_SOURCE_DIR}/integration/cudla/cudla_table.c)
target_include_directories(cudla_table PRIVATE ${PROJECT_SOURCE_DIR}/src ${CMAKE_CURRENT_SOURCE_DIR})
target_compile_options(cudla_table PRIVATE -fPIE) # its functions are looked up at run time
target_link_options(cudla_table PRIVATE -pie)
target_link_libraries(cudla_table PRIVATE -Wl,--no-as-needed cudla_recorder ${CMAKE_DL_LIBS})
set_target_properties(cudla_table PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests SKIP_BUILD_RPATH ON)
