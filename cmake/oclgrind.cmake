# SPDX-License-Identifier: Apache-2.0
# A plug-in of Oclgrind (Debian: liboclgrind-dev) for `fermata-lab idempotence record'; a build without its headers, or
# without a compiler of C++, has none. It is loaded into Oclgrind's process, so that it is built without sanitizers.
find_path(FERMATA_OCLGRIND_INCLUDE oclgrind/Plugin.h)
find_program(FERMATA_CXX NAMES c++ g++ clang++)
if("opencl" IN_LIST FERMATA_APIS AND FERMATA_OCLGRIND_INCLUDE AND FERMATA_CXX)
    set(plugin ${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/libfermata-oclgrind.so)
    set(in ${PROJECT_SOURCE_DIR}/src/idem/oclgrind)
    # Its headers name this class of LLVM's in declarations that we do not use; so they need none of LLVM's headers.
    set(stand_in ${CMAKE_BINARY_DIR}/oclgrind)
    file(WRITE ${stand_in}/llvm/ADT/StringRef.h "namespace llvm\n{\nclass StringRef;\n}\n")
    set(hash ${CMAKE_BINARY_DIR}/oclgrind-blake2b.o)
    add_custom_command(OUTPUT ${plugin}
        COMMAND ${CMAKE_C_COMPILER} -std=gnu11 -O2 -fPIC -fvisibility=hidden -I${PROJECT_SOURCE_DIR}/src
            -c ${PROJECT_SOURCE_DIR}/src/base/blake2b.c -o ${hash}
        COMMAND ${FERMATA_CXX} -std=c++17 -O2 -fPIC -fno-rtti -fvisibility=hidden -Wall -Wextra -Wno-unused-parameter
            -I${PROJECT_SOURCE_DIR}/src -I${stand_in} -idirafter ${FERMATA_OCLGRIND_INCLUDE}
            -shared ${in}/trace.cc ${in}/again.cc ${in}/taint.cc ${hash} -o ${plugin}
        DEPENDS ${in}/trace.cc ${in}/again.cc ${in}/again.hh ${in}/taint.cc ${in}/taint.hh
            ${PROJECT_SOURCE_DIR}/src/base/blake2b.c
        COMMENT "Building the plug-in of Oclgrind" VERBATIM)
    add_custom_target(fermata-oclgrind ALL DEPENDS ${plugin})
    install(PROGRAMS ${plugin} DESTINATION ${CMAKE_INSTALL_LIBDIR})
else()
    message(STATUS "No <oclgrind/Plugin.h> (liboclgrind-dev), or no compiler of C++: no traces of OpenCL programs")
endif()
