fm_module(api/hip KNOWS api) # the table of HIP's calls: `calls.def`
fm_module(api/hip/core KNOWS base api) # HIP, without a program around it: gates that the device waits at, by waits for values in signal memory
fm_module(api/hip/shim KNOWS base board api api/hip api/hip/core proof xqueue local shim shim/calls shim/lookup) # `libfermata-hip.so`, preloaded: dlsym, hipGetProcAddress and the runtime's own names; captures; streams of devices and threads
fm_module(api/hip/tool KNOWS base proof json api cmd doctor api/hip/core PACKAGES ${CMAKE_DL_LIBS}) # HIP for the commands: the preload, doctor and its probe

fm_preloaded_api(hip "hip[A-Z]*")
