# A room is a folder under src/. fm_room(NAME KNOWS rooms... PACKAGES targets...) makes a static library
# of its sources that sees exactly the rooms it may know. A room without sources is headers only.
function(fm_room room)
    cmake_parse_arguments(R "" "" "KNOWS;PACKAGES" ${ARGN})
    string(REPLACE "/" "_" name "fm_${room}")
    file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${room}/*.c)
    if(sources)
        set(scope PUBLIC)
        add_library(${name} STATIC ${sources})
    else()
        set(scope INTERFACE)
        add_library(${name} INTERFACE)
    endif()
    target_include_directories(${name} ${scope} ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
    foreach(known IN LISTS R_KNOWS)
        string(REPLACE "/" "_" known_name "fm_${known}")
        target_link_libraries(${name} ${scope} ${known_name})
    endforeach()
    target_link_libraries(${name} ${scope} ${R_PACKAGES})
endfunction()

# A program whose main() lives in the room.
function(fm_program program room)
    add_executable(${program} $<TARGET_OBJECTS:fm_${room}>)
    target_link_libraries(${program} PRIVATE fm_${room})
endfunction()

# The room as a shared object: exports what src/ROOM/exports.map names and nothing else.
function(fm_export target room)
    set(map ${PROJECT_SOURCE_DIR}/src/${room}/exports.map)
    target_link_options(${target} PRIVATE -Wl,--version-script=${map} -Wl,--no-undefined -Wl,-z,now
        -Wl,--exclude-libs,ALL)
    set_target_properties(${target} PROPERTIES LINK_DEPENDS ${map})
endfunction()

function(fm_shared library room)
    cmake_parse_arguments(S "" "SOVERSION" "" ${ARGN})
    string(REPLACE "/" "_" name "fm_${room}")
    add_library(${library}_so SHARED $<TARGET_OBJECTS:${name}>)
    target_link_libraries(${library}_so PRIVATE ${name})
    target_include_directories(${library}_so INTERFACE
        $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:include>)
    set_target_properties(${library}_so PROPERTIES OUTPUT_NAME ${library} EXPORT_NAME ${library}
        VERSION ${PROJECT_VERSION} SOVERSION ${S_SOVERSION})
    fm_export(${library}_so ${room})
endfunction()

# An object loaded into other people's programs: needs libc alone (-Wl,--as-needed, checked by a test).
function(fm_layer library room)
    string(REPLACE "/" "_" name "fm_${room}")
    add_library(${library} MODULE $<TARGET_OBJECTS:${name}>)
    target_link_libraries(${library} PRIVATE ${name})
    fm_export(${library} ${room})
    target_link_options(${library} PRIVATE -Wl,--as-needed)
endfunction()
