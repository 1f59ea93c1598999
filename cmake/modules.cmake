# Programs of an older C library can load what we give them: src/base/glibc.h. Not with a sanitizer, which takes the
# place of functions by their names. Before glibc 2.34 threads and dlopen are in libraries of their own, whose
# names stay.
set(FERMATA_OLD_LIBC OFF)
if(NOT FERMATA_SANITIZE AND NOT FERMATA_FUZZ)
    include(CheckCSourceCompiles)
    set(CMAKE_REQUIRED_FLAGS "-include \"${PROJECT_SOURCE_DIR}/src/base/glibc.h\"")
    set(CMAKE_REQUIRED_LIBRARIES -Wl,--no-as-needed -l:libpthread.so.0 -l:libdl.so.2)
    check_c_source_compiles("
        #include <dlfcn.h>
        #include <pthread.h>
        int main(void) { return pthread_create(0, 0, 0, 0) || dlopen(0, 0); }" FERMATA_HAS_OLD_LIBC)
    unset(CMAKE_REQUIRED_FLAGS)
    unset(CMAKE_REQUIRED_LIBRARIES)
    set(FERMATA_OLD_LIBC ${FERMATA_HAS_OLD_LIBC})
endif()

# A module is a folder under src/. fm_module(NAME KNOWS modules... PARTS folders... PACKAGES targets...) makes a static
# library of its sources that sees exactly the modules it may know. PARTS are sub-folders, each for one subject, whose
# files belong to the module, too. A module without sources is headers only.
function(fm_module module)
    cmake_parse_arguments(M "" "" "KNOWS;PARTS;PACKAGES" ${ARGN})
    string(REPLACE "/" "_" name "fm_${module}")
    set(patterns ${PROJECT_SOURCE_DIR}/src/${module}/*.c)
    foreach(part IN LISTS M_PARTS)
        list(APPEND patterns ${PROJECT_SOURCE_DIR}/src/${module}/${part}/*.c)
    endforeach()
    file(GLOB sources CONFIGURE_DEPENDS ${patterns})
    if(sources)
        set(scope PUBLIC)
        add_library(${name} STATIC ${sources})
        if(FERMATA_OLD_LIBC)
            target_compile_options(${name} PRIVATE "SHELL:-include \"${PROJECT_SOURCE_DIR}/src/base/glibc.h\"")
        endif()
        if(FERMATA_LOCK_ORDER) # src/base/lockorder.h
            target_compile_definitions(${name} PRIVATE FERMATA_LOCK_ORDER)
        endif()
        if(FERMATA_COVERAGE)
            target_compile_options(${name} PRIVATE --coverage -fprofile-update=prefer-atomic)
        endif()
    else()
        set(scope INTERFACE)
        add_library(${name} INTERFACE)
    endif()
    target_include_directories(${name} ${scope} ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
    foreach(known IN LISTS M_KNOWS)
        string(REPLACE "/" "_" known_name "fm_${known}")
        target_link_libraries(${name} ${scope} ${known_name})
    endforeach()
    target_link_libraries(${name} ${scope} ${M_PACKAGES})
endfunction()

# A program whose main() lives in the module.
function(fm_program program module)
    get_target_property(type fm_${module} TYPE)
    if(type STREQUAL INTERFACE_LIBRARY)
        return()
    endif()
    add_executable(${program} $<TARGET_OBJECTS:fm_${module}>)
    target_link_libraries(${program} PRIVATE fm_${module})
endfunction()

# Its threads and dlopen are found with an older C library, too.
function(fm_old_libc target)
    if(FERMATA_OLD_LIBC)
        target_link_libraries(${target} PRIVATE -Wl,--push-state,--no-as-needed -l:libpthread.so.0 -l:libdl.so.2
            -Wl,--pop-state)
    endif()
endfunction()

# The module as a shared object: exports what the map names, by default src/MODULE/exports.map, and nothing else.
function(fm_export target module)
    set(map ${PROJECT_SOURCE_DIR}/src/${module}/exports.map)
    if(ARGN)
        set(map ${ARGN})
    endif()
    target_link_options(${target} PRIVATE -Wl,--version-script=${map} -Wl,-z,now -Wl,-z,nodelete
        -Wl,--exclude-libs,ALL $<$<C_COMPILER_ID:GNU>:-Wl,--no-undefined>)
    set_target_properties(${target} PROPERTIES LINK_DEPENDS ${map})
endfunction()

# What a library exports besides its module's own functions is of the modules WITH.
function(fm_shared library module)
    cmake_parse_arguments(S "" "SOVERSION" "WITH" ${ARGN})
    set(objects)
    foreach(with IN LISTS S_WITH)
        string(REPLACE "/" "_" with_name "fm_${with}")
        list(APPEND objects $<TARGET_OBJECTS:${with_name}>)
    endforeach()
    string(REPLACE "/" "_" name "fm_${module}")
    get_target_property(type ${name} TYPE)
    if(type STREQUAL INTERFACE_LIBRARY)
        return()
    endif()
    add_library(${library}_so SHARED $<TARGET_OBJECTS:${name}> ${objects})
    target_link_libraries(${library}_so PRIVATE ${name})
    target_include_directories(${library}_so INTERFACE
        $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:include>)
    set_target_properties(${library}_so PROPERTIES OUTPUT_NAME ${library} EXPORT_NAME ${library}
        VERSION ${PROJECT_VERSION} SOVERSION ${S_SOVERSION})
    fm_export(${library}_so ${module})
endfunction()

# An object loaded into other people's programs: needs libc alone (-Wl,--as-needed, checked by a test). What it exports
# besides its module's own functions is of the modules WITH. EXPORTS: the API's functions, by a pattern, and what all
# preloaded shims export, in the place of a map of its own.
function(fm_layer library module)
    cmake_parse_arguments(L "" "EXPORTS" "WITH" ${ARGN})
    set(objects)
    foreach(with IN LISTS L_WITH)
        string(REPLACE "/" "_" with_name "fm_${with}")
        list(APPEND objects $<TARGET_OBJECTS:${with_name}>)
    endforeach()
    string(REPLACE "/" "_" name "fm_${module}")
    get_target_property(type ${name} TYPE)
    if(type STREQUAL INTERFACE_LIBRARY)
        return()
    endif()
    add_library(${library} MODULE $<TARGET_OBJECTS:${name}> ${objects})
    target_link_libraries(${library} PRIVATE ${name})
    set(map)
    if(L_EXPORTS)
        set(map ${CMAKE_BINARY_DIR}/exports/${library}.map)
        configure_file(${PROJECT_SOURCE_DIR}/cmake/exports.map.in ${map} @ONLY)
    endif()
    fm_export(${library} ${module} ${map})
    fm_old_libc(${library})
    target_link_options(${library} PRIVATE -Wl,--as-needed)
endfunction()

# The shim of an API with a table of calls, libfermata-API.so, which is preloaded.
function(fm_preloaded_api api exports)
    set(library fermata-${api})
    fm_layer(${library} api/${api}/shim EXPORTS ${exports} WITH shim/calls shim/lookup bind)
    # Its table of its own functions means these, also where the library's were loaded before.
    target_link_options(${library} PRIVATE -Wl,-Bsymbolic-functions -Wl,-soname,lib${library}.so)
    install(TARGETS ${library} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
    fm_preload(lib${library}.so)
endfunction()
