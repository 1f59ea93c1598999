fm_module(api/vpi KNOWS api) # the table of VPI's calls: `calls.def`
fm_module(api/vpi/core KNOWS base api) # VPI's types, and the functions of its library that we call ourselves
fm_module(api/vpi/shim KNOWS base board api api/vpi api/vpi/core xqueue local shim shim/calls shim/lookup) # `libfermata-vpi.so`, preloaded: dlsym, streams, contexts that end
fm_module(api/vpi/tool KNOWS base json api cmd doctor api/vpi/core PACKAGES ${CMAKE_DL_LIBS}) # VPI for the commands: the preload, doctor and its probe

fm_preloaded_api(vpi "vpi[A-Z]*")
