# A shim as `fermata run' names it in LD_PRELOAD: lib/fermata/preload/$PLATFORM/libfermata-cuda.so. The dynamic
# linker of glibc puts in what the kernel, or itself, calls the processor: for a 64-bit program that leads to the shim, for
# a 32-bit one to an object without code, since of one that is missing, or does not fit, the linker would complain. Another
# C library's linker looks for that very name, does not find it, and says nothing.
set(preload_dir ${CMAKE_BINARY_DIR}/lib/fermata/preload)
set(preload_names ${CMAKE_SYSTEM_PROCESSOR})
set(preload_names_32)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
    set(preload_names x86_64 haswell xeon_phi)
    set(preload_names_32 i386 i486 i586 i686)
endif()

# The first name is a directory, the others are links to it.
function(preload_links first)
    file(MAKE_DIRECTORY ${preload_dir}/${first})
    foreach(name IN LISTS ARGN)
        file(CREATE_LINK ${first} ${preload_dir}/${name} SYMBOLIC)
    endforeach()
endfunction()

preload_links(${preload_names})
if(preload_names_32)
    preload_links(${preload_names_32})
endif()
file(WRITE ${CMAKE_BINARY_DIR}/empty.c "")

function(fm_preload file)
    list(GET preload_names 0 name)
    file(CREATE_LINK ../../../${file} ${preload_dir}/${name}/${file} SYMBOLIC)
    # Where a shell has replaced $PLATFORM by nothing, as in sh -c "LD_PRELOAD=$LD_PRELOAD program" or eval.
    file(CREATE_LINK ../../${file} ${preload_dir}/${file} SYMBOLIC)
    if(NOT preload_names_32)
        return()
    endif()
    list(GET preload_names_32 0 name)
    execute_process(
        COMMAND ${CMAKE_C_COMPILER} -m32 -shared -nostdlib -Wl,--hash-style=both
            -o ${preload_dir}/${name}/${file} ${CMAKE_BINARY_DIR}/empty.c
        RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
    if(failed)
        message(STATUS "No 32-bit objects by ${CMAKE_C_COMPILER}: where `fermata run' preloads ${file} the dynamic linker of "
            "32-bit programs complains about it")
    endif()
endfunction()
install(DIRECTORY ${preload_dir} DESTINATION ${CMAKE_INSTALL_LIBDIR}/fermata USE_SOURCE_PERMISSIONS)
