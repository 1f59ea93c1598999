# What the tests of CUDA are built of.

# A CUDA driver without a device. Programs find it, or the real one, as they find any library: no run path.
file(GLOB fake_cuda CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/fakes/cuda/*.c)
add_library(fake_cuda_objects OBJECT ${fake_cuda} ${PROJECT_SOURCE_DIR}/src/device/digest.c)
target_include_directories(fake_cuda_objects PRIVATE ${PROJECT_SOURCE_DIR}/src)
if(FERMATA_SANITIZE) # a device digests 60 MiB in less than a second, however busy the processors are
    set_source_files_properties(${PROJECT_SOURCE_DIR}/src/device/digest.c PROPERTIES COMPILE_OPTIONS "-O2;-fno-sanitize=all")
endif()
target_link_libraries(fake_cuda_objects PRIVATE unpackers)
add_library(fake_cuda SHARED $<TARGET_OBJECTS:fake_cuda_objects>)
target_link_libraries(fake_cuda PRIVATE unpackers Threads::Threads ${CMAKE_DL_LIBS} m)
target_link_options(fake_cuda PRIVATE -Wl,-Bsymbolic -Wl,--exclude-libs,ALL) # as a driver: what is preloaded is not between its functions
set_target_properties(fake_cuda PROPERTIES OUTPUT_NAME cuda SOVERSION 1
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/fakes)
# The same of before CUDA 11.7, and of before 12.4, as far as symbols go.
foreach(age old of_12_3)
    add_library(fake_cuda_${age} SHARED $<TARGET_OBJECTS:fake_cuda_objects>)
    target_link_libraries(fake_cuda_${age} PRIVATE unpackers Threads::Threads ${CMAKE_DL_LIBS} m)
    target_link_options(fake_cuda_${age} PRIVATE -Wl,-Bsymbolic -Wl,--exclude-libs,ALL
        -Wl,--version-script=${CMAKE_CURRENT_SOURCE_DIR}/fakes/cuda/${age}.map)
    set_target_properties(fake_cuda_${age} PROPERTIES OUTPUT_NAME cuda SOVERSION 1
        LINK_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/fakes/cuda/${age}.map
        LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/fakes/${age})
endforeach()
# NVML beside it.
add_library(fake_nvml SHARED ${CMAKE_CURRENT_SOURCE_DIR}/fakes/nvml/nvml.c
    ${CMAKE_CURRENT_SOURCE_DIR}/fakes/cuda/capacity.c)
target_include_directories(fake_nvml PRIVATE ${PROJECT_SOURCE_DIR}/src)
target_link_libraries(fake_nvml PRIVATE Threads::Threads ${CMAKE_DL_LIBS})
target_link_options(fake_nvml PRIVATE -Wl,-Bsymbolic)
set_target_properties(fake_nvml PROPERTIES OUTPUT_NAME nvidia-ml SOVERSION 1
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/fakes)
# The Compute Sanitizer beside it.
add_library(fake_sanitizer_public MODULE ${CMAKE_CURRENT_SOURCE_DIR}/fakes/sanitizer/sanitizer.c)
target_include_directories(fake_sanitizer_public PRIVATE ${PROJECT_SOURCE_DIR}/src)
target_link_libraries(fake_sanitizer_public PRIVATE Threads::Threads ${CMAKE_DL_LIBS})
set_target_properties(fake_sanitizer_public PROPERTIES OUTPUT_NAME sanitizer-public
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/fakes/sanitizer)
# Libraries of network cards.
foreach(name ibverbs gdrapi)
    add_library(fake_${name} SHARED ${CMAKE_CURRENT_SOURCE_DIR}/fakes/verbs/verbs.c)
    target_include_directories(fake_${name} PRIVATE ${PROJECT_SOURCE_DIR}/src)
    target_link_libraries(fake_${name} PRIVATE ${CMAKE_DL_LIBS})
    set_target_properties(fake_${name} PROPERTIES OUTPUT_NAME ${name} LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/fakes)
endforeach()
set_target_properties(fake_ibverbs PROPERTIES SOVERSION 1 LINK_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/fakes/verbs/verbs.map)
target_link_options(fake_ibverbs PRIVATE -Wl,-Bsymbolic -Wl,--version-script=${CMAKE_CURRENT_SOURCE_DIR}/fakes/verbs/verbs.map)
set_target_properties(fake_gdrapi PROPERTIES SOVERSION 2)
target_compile_definitions(fake_gdrapi PRIVATE GDRAPI)
# One that notes down what it is called with.
add_library(cuda_recorder SHARED ${CMAKE_CURRENT_SOURCE_DIR}/fakes/recorder/recorder.c)
target_include_directories(cuda_recorder PRIVATE ${PROJECT_SOURCE_DIR}/src)
target_link_options(cuda_recorder PRIVATE -Wl,-Bsymbolic)
set_target_properties(cuda_recorder PROPERTIES OUTPUT_NAME cuda SOVERSION 1
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/fakes/recorder)
# What is behind CUDA's in the kernel, for time slices: preloaded.
add_library(fake_rm MODULE ${CMAKE_CURRENT_SOURCE_DIR}/fakes/rm/rm.c)
target_link_libraries(fake_rm PRIVATE ${CMAKE_DL_LIBS})
set_target_properties(fake_rm PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/fakes)
set(cuda_ptx ${CMAKE_CURRENT_SOURCE_DIR}/integration/cuda/cuda_kernels.ptx)
function(cuda_program name source)
    add_executable(${name} ${source})
    target_compile_definitions(${name} PRIVATE CUDA_PTX="${cuda_ptx}"
        GUARD_IMAGES="${CMAKE_CURRENT_SOURCE_DIR}/data/guard")
    set_source_files_properties(${source} PROPERTIES OBJECT_DEPENDS ${cuda_ptx})
    target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
    target_link_libraries(${name} PRIVATE Threads::Threads ${CMAKE_DL_LIBS})
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests SKIP_BUILD_RPATH ON)
endfunction()

# Those that are linked with the shim, as a server may be, in front of the driver.
foreach(name cuda_server cuda_server_binding cuda_server_pad cuda_server_partition)
    integration_source(source ${name})
    cuda_program(${name}_linked ${source})
    target_link_libraries(${name}_linked PRIVATE -Wl,--no-as-needed $<TARGET_FILE:fermata-cuda> fake_cuda)
    add_dependencies(${name}_linked fermata-cuda)
endforeach()

# One that finds the driver by a path of its own.
cuda_program(cuda_runpath ${CMAKE_CURRENT_SOURCE_DIR}/integration/cuda/cuda_order.c)
target_link_libraries(cuda_runpath PRIVATE -Wl,--no-as-needed fake_cuda)
target_link_options(cuda_runpath PRIVATE -Wl,--enable-new-dtags,-rpath,${CMAKE_BINARY_DIR}/tests/fakes)

# One that is linked with it, and asks the loader as if it were not.
cuda_program(cuda_lookups_linked ${CMAKE_CURRENT_SOURCE_DIR}/integration/cuda/cuda_lookups.c)
target_link_libraries(cuda_lookups_linked PRIVATE -Wl,--no-as-needed fake_cuda)

# Programs that scripts drive.
file(GLOB_RECURSE programs CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/integration/cuda_*.c
    ${CMAKE_CURRENT_SOURCE_DIR}/fault/cuda_*.c)
foreach(source IN LISTS programs)
    get_filename_component(name ${source} NAME_WE)
    if(name STREQUAL "cuda_plugin")
        add_library(${name} MODULE ${source})
        target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src)
        target_link_libraries(${name} PRIVATE fake_cuda)
        set_target_properties(${name} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests
            SKIP_BUILD_RPATH ON)
        continue()
    endif()
    cuda_program(${name} ${source})
    if(name STREQUAL "cuda_table")
        target_include_directories(${name} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
        target_link_libraries(${name} PRIVATE -Wl,--no-as-needed cuda_recorder)
    elseif(NOT name MATCHES "^cuda_(worker|faults|forks|storm|access|readonly|lookups)$")
        target_link_libraries(${name} PRIVATE -Wl,--no-as-needed fake_cuda)
    endif()
    if(name STREQUAL "cuda_foretold")
        target_link_libraries(${name} PRIVATE fm_predict fm_code_cuda)
    endif()
    if(name STREQUAL "cuda_account")
        target_link_libraries(${name} PRIVATE fake_nvml)
    endif()
    if(name MATCHES "^cuda_(want|gpu_set|gpu_graphs|gpu_stops|gpu_resident|gpu_rows|gpu_load|gpu_missed)$")
        target_link_libraries(${name} PRIVATE $<TARGET_FILE:fermata_so>)
        add_dependencies(${name} fermata_so)
        target_link_options(${name} PRIVATE -Wl,--enable-new-dtags,-rpath,${CMAKE_BINARY_DIR}/lib)
    endif()
    if(name STREQUAL "cuda_gpu_load")
        target_link_libraries(${name} PRIVATE m)
    endif()
    if(name MATCHES "^cuda_(server|pad_probe)")
        target_compile_definitions(${name} PRIVATE FERMATA_CUDA_OPTIONAL)
    endif()
    # As compilers do on their own: what is not there is looked for at run time.
    if(name MATCHES "^cuda_(server.*|pad_probe|table|forks)$")
        target_compile_options(${name} PRIVATE -fPIE)
        target_link_options(${name} PRIVATE -pie)
    endif()
endforeach()

# The shim with a thread that puts its process to rest again and again.
fm_layer(rests_cuda api/cuda/shim WITH shim/lookup)
target_sources(rests_cuda PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/fakes/mover/mover.c)
target_include_directories(rests_cuda PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
set_target_properties(rests_cuda PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)

# Unit tests with a driver around them.
target_link_libraries(test_image_run PRIVATE fake_cuda)
target_compile_definitions(test_image_run PRIVATE GUARD_IMAGES="${guard_images}")
foreach(name gates resident)
    target_link_libraries(test_cuda_${name} PRIVATE fake_cuda ${CMAKE_DL_LIBS})
endforeach()
# The driver itself: what tests that are made of it rely on.
foreach(name test_fake_vmm test_fake_capacity test_fake_engines test_fake_pools test_fake_launches)
    target_link_libraries(${name} PRIVATE fake_cuda fake_nvml Threads::Threads)
    target_compile_definitions(${name} PRIVATE CUDA_PTX="${cuda_ptx}")
endforeach()
# NVIDIA's kernel driver, for who talks to it.
target_sources(test_timeslice PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/fakes/rm/rm.c)
target_link_libraries(test_timeslice PRIVATE fm_api_cuda_core ${CMAKE_DL_LIBS})
target_link_libraries(test_turnstile PRIVATE fm_api_cuda_core)
# A disk that is full, for who writes to one.
target_link_options(test_image_cache PRIVATE -Wl,--wrap=write)
set_tests_properties(unit/test_image_refuse PROPERTIES LABELS "unit;one-thread")
if(FERMATA_SANITIZE)
    target_compile_options(test_image_refuse PRIVATE -O1)
endif()

# For machines with a GPU (script/gpu-test); needs no toolkit to be built.
file(GLOB gpu_guardian CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/gpu/guardian/*.c)
add_executable(gpu_guardian ${gpu_guardian})
target_link_libraries(gpu_guardian PRIVATE fm_code_cuda ${CMAKE_DL_LIBS})
set_target_properties(gpu_guardian PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
file(GLOB gpu_memory CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/gpu/memory/*.c)
cuda_program(gpu_memory "${gpu_memory}")
target_include_directories(gpu_memory PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
