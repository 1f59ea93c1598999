fm_module(api/soft KNOWS base api)
fm_module(api/soft/tool KNOWS api load PACKAGES ${CMAKE_DL_LIBS})
target_link_libraries(fm_api_soft PUBLIC Threads::Threads)
