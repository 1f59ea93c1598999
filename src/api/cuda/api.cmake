fm_module(api/cuda KNOWS api) # the table of CUDA's calls (`calls.def`), and the newest version in it
fm_module(api/cuda/core KNOWS base api predict code/cuda PARTS guard memory) # CUDA, without a program around it: gates that the device looks at, by stream memory operations; guarded launches (`guard`, level 3, `cuda-guardian.md`); the time slice of the process's channel groups; partitions; memory at addresses of its own, which moves to the host and back (`memory`)
fm_module(api/cuda/gpusched KNOWS base gpusched device api/cuda/core) # sets of tasks that decide on the device: streams behind gates, the warp that opens them, and the one that resides
fm_module(api/cuda/cache KNOWS base cache code/cuda) # rewritten images, kept on disk by their contents
fm_module(api/cuda/shim KNOWS base cache board api predict api/cuda api/cuda/core code/cuda api/cuda/cache api/cuda/gpusched gpusched versions idem/kill xqueue local shim shim/lookup PARTS graph guard managed memory) # `libfermata-cuda.so`, preloaded or linked: dlsym and dlerror, cuGetProcAddress and the driver's own names; which graphs hold gates (`graph`), which functions are rewritten kernels (`guard`); what is allocated, and limits of it (`memory`); `<fermata/cuda.h>` (`cuda-server.md`). `cmake/stand_in.cmake`: the same under the driver's name
fm_module(api/cuda/tool KNOWS base json board api load cmd doctor device code/cuda gpusched api/cuda api/cuda/core api/cuda/cache api/cuda/gpusched PACKAGES ${CMAKE_DL_LIBS}) # CUDA for the commands: the preload, doctor and its probes, work of a chosen length

fm_module(api/cuda/tap KNOWS base api/cuda/core shim/lookup) # what stands in front of the driver and only looks: how a program comes to it, and parameters of kernels
fm_module(api/cuda/profile KNOWS base api predict device profile code/cuda api/cuda/core api/cuda/tap shim/lookup) # `libfermata-profile.so', preloaded by `fermata-lab profile': launches that are looked at, by the Compute Sanitizer, marks in their text, or hashes
fm_module(api/cuda/record KNOWS base api predict device code/cuda api/cuda api/cuda/core api/cuda/tap shim/lookup) # `libfermata-record.so', preloaded by `fermata-lab idempotence record': operations of each stream, with what kernels read and write, by marks in their text

fm_layer(fermata-cuda api/cuda/shim WITH shim/lookup bind gpusched gpusched/seat)
# Its table of its own functions means these, also where the driver's were loaded before.
target_link_options(fermata-cuda PRIVATE -Wl,-Bsymbolic-functions -Wl,-soname,libfermata-cuda.so
    -Wl,--defsym=dlvsym=fm_look_up_dlvsym)
install(TARGETS fermata-cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
include(cmake/stand_in.cmake)
fm_preload(libfermata-cuda.so)
fm_layer(fermata-profile api/cuda/profile WITH shim/lookup)
target_link_options(fermata-profile PRIVATE -Wl,-Bsymbolic-functions -Wl,-soname,libfermata-profile.so)
install(TARGETS fermata-profile LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
fm_preload(libfermata-profile.so)
fm_layer(fermata-record api/cuda/record WITH shim/lookup)
target_link_options(fermata-record PRIVATE -Wl,-Bsymbolic-functions -Wl,-soname,libfermata-record.so)
install(TARGETS fermata-record LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
fm_preload(libfermata-record.so)
