fm_module(api/ze KNOWS api) # the table of Level Zero's calls: `calls.def`
fm_module(api/ze/core KNOWS base board api) # Level Zero, without a program around it: a queue's gates and trackers by events, and how devices are named
fm_module(api/ze/shim KNOWS base board api api/ze api/ze/core proof xqueue local shim shim/calls shim/lookup) # `libfermata-ze.so`, preloaded: dlsym and the loader's own names; queues and immediate lists, and lists that stand behind gates
fm_module(api/ze/tool KNOWS base proof json api cmd doctor api/ze/core PACKAGES ${CMAKE_DL_LIBS}) # Level Zero for the commands: the preload, doctor and its probe

fm_preloaded_api(ze "ze[A-Z]*")
