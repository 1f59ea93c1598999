fm_module(api/cudla KNOWS api) # the table of cuDLA's calls: `calls.def`
fm_module(api/cudla/core KNOWS base api) # cuDLA's types
fm_module(api/cudla/shim KNOWS base board api api/cuda api/cudla api/cudla/core xqueue local shim shim/calls shim/lookup) # `libfermata-cudla.so`, preloaded: dlsym, tasks on CUDA streams by CUDA's shim, tasks of devices alone
fm_module(api/cudla/tool KNOWS base json api cmd doctor api/cudla/core PACKAGES ${CMAKE_DL_LIBS}) # cuDLA for the commands: the preload, doctor and its probe

fm_layer(fermata-cudla api/cudla/shim WITH shim/calls shim/lookup bind)
# Its table of its own functions means these, also where the library's were loaded before.
target_link_options(fermata-cudla PRIVATE -Wl,-Bsymbolic-functions -Wl,-soname,libfermata-cudla.so)
install(TARGETS fermata-cudla LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
fm_preload(libfermata-cudla.so)
