fm_module(api/opencl KNOWS base api code/opencl) # OpenCL, without a program around it: gates by user events, trackers by markers; guarded launches (level 3)
fm_module(api/opencl/shim KNOWS base cache board api api/opencl code/opencl xqueue local shim) # `libfermata-opencl.so`, an OpenCL layer; what the program has told of its programs and kernels
fm_module(api/opencl/tool KNOWS base api load cmd doctor PACKAGES ${CMAKE_DL_LIBS}) # OpenCL for the commands: the layer, doctor and its probes, work of a chosen length
target_include_directories(fm_api_opencl_tool SYSTEM PRIVATE ${OPENCL_HEADERS_INCLUDE_DIRS})

fm_layer(fermata-opencl api/opencl/shim WITH bind)
install(TARGETS fermata-opencl LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
