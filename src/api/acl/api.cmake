fm_module(api/acl KNOWS api) # the table of AscendCL's calls: `calls.def`, with the operators of `aclnn.def`
fm_module(api/acl/core KNOWS base api) # AscendCL's types, and how devices are named
fm_module(api/acl/shim KNOWS base board api api/acl api/acl/core xqueue local shim shim/calls shim/lookup) # `libfermata-acl.so`, preloaded: dlsym and the libraries' own names; streams of contexts, and calls without a stream
fm_module(api/acl/tool KNOWS base json api cmd doctor api/acl/core PACKAGES ${CMAKE_DL_LIBS}) # AscendCL for the commands: the preload, doctor and its probe

fm_preloaded_api(acl "acl*")
