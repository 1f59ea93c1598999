fm_module(api/cudla KNOWS api) # the table of cuDLA's calls: `calls.def`
fm_module(api/cudla/core KNOWS base api) # cuDLA's types
fm_module(api/cudla/shim KNOWS base board api api/cuda api/cudla api/cudla/core xqueue local shim shim/calls shim/lookup) # `libfermata-cudla.so`, preloaded: dlsym, tasks on CUDA streams by CUDA's shim, tasks of devices alone
fm_module(api/cudla/tool KNOWS base json api cmd doctor api/cudla/core PACKAGES ${CMAKE_DL_LIBS}) # cuDLA for the commands: the preload, doctor and its probe

fm_preloaded_api(cudla "cudla[A-Z]*")
