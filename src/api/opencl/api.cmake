fm_module(api/opencl KNOWS base api code/opencl)
fm_module(api/opencl/shim KNOWS base cache board api api/opencl code/opencl xqueue local shim)
fm_module(api/opencl/tool KNOWS base api load cmd doctor PACKAGES ${CMAKE_DL_LIBS})
target_include_directories(fm_api_opencl_tool SYSTEM PRIVATE ${OPENCL_HEADERS_INCLUDE_DIRS})

fm_layer(fermata-opencl api/opencl/shim)
install(TARGETS fermata-opencl LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
