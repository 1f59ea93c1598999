fm_module(api/soft KNOWS base api) # a device in software, exact in virtual time
fm_module(api/soft/tool KNOWS api load PACKAGES ${CMAKE_DL_LIBS}) # the software device for the commands
target_link_libraries(fm_api_soft PUBLIC Threads::Threads)
