# What the tests of Level Zero are built of.

# A loader that looks at what it is called with.
add_library(ze_recorder SHARED ${CMAKE_CURRENT_SOURCE_DIR}/fakes/ze_recorder/recorder.c)
target_include_directories(ze_recorder PRIVATE ${PROJECT_SOURCE_DIR}/src)
target_link_options(ze_recorder PRIVATE -Wl,-Bsymbolic)
set_target_properties(ze_recorder PROPERTIES OUTPUT_NAME ze_loader SOVERSION 1
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/fakes/ze_recorder)
add_executable(ze_table ${CMAKE_CURRENT_SOURCE_DIR}/integration/ze/ze_table.c)
target_include_directories(ze_table PRIVATE ${PROJECT_SOURCE_DIR}/src ${CMAKE_CURRENT_SOURCE_DIR})
target_compile_options(ze_table PRIVATE -fPIE) # its functions are looked up at run time
target_link_options(ze_table PRIVATE -pie)
target_link_libraries(ze_table PRIVATE -Wl,--no-as-needed ze_recorder ${CMAKE_DL_LIBS})
set_target_properties(ze_table PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests SKIP_BUILD_RPATH ON)

# A driver that Debian's loader finds, and programs that are linked to the loader.
find_path(FERMATA_ZE_HEADERS level_zero/ze_ddi.h)
find_library(FERMATA_ZE_LOADER NAMES ze_loader)
if(NOT FERMATA_ZE_HEADERS OR NOT FERMATA_ZE_LOADER)
    message(STATUS "No <level_zero/ze_ddi.h> or no loader (libze-dev): Level Zero's tests are not built")
    return()
endif()

file(GLOB fake_ze CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/fakes/ze/*.c)
add_library(fake_ze MODULE ${fake_ze})
target_include_directories(fake_ze PRIVATE ${FERMATA_ZE_HEADERS})
target_link_libraries(fake_ze PRIVATE Threads::Threads)
set_target_properties(fake_ze PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/fakes)

foreach(name ze_order ze_worker ze_ends ze_types)
    add_executable(${name} ${CMAKE_CURRENT_SOURCE_DIR}/integration/ze/${name}.c)
    target_include_directories(${name} PRIVATE ${FERMATA_ZE_HEADERS} ${PROJECT_SOURCE_DIR}/src)
    target_link_libraries(${name} PRIVATE -Wl,--no-as-needed ${FERMATA_ZE_LOADER} Threads::Threads ${CMAKE_DL_LIBS})
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
endforeach()
