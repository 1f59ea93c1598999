fm_module(api/vulkan KNOWS api) # the table of Vulkan's calls: `calls.def`
fm_module(api/vulkan/shim KNOWS base board api api/vulkan xqueue local shim) # `libfermata-vulkan.so`, a Vulkan layer: gates by timeline semaphores, trackers by fences; devices, and features that are switched on in them
fm_module(api/vulkan/tool KNOWS base json api cmd doctor PACKAGES ${CMAKE_DL_LIBS}) # Vulkan for the commands: the layer, doctor and its probes

fm_layer(fermata-vulkan api/vulkan/shim WITH bind)
install(TARGETS fermata-vulkan LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})

# Its manifest twice: where `fermata run` finds it beside the library, and where Vulkan's loader looks for layers that
# programs and users ask for by name.
function(fm_vulkan_manifest folder library to)
    set(FERMATA_VULKAN_LIBRARY ${library})
    math(EXPR FERMATA_VULKAN_BITS "8 * ${CMAKE_SIZEOF_VOID_P}")
    configure_file(${PROJECT_SOURCE_DIR}/src/api/vulkan/shim/manifest.json.in ${folder}/VkLayer_fermata.json @ONLY)
    install(FILES ${folder}/VkLayer_fermata.json DESTINATION ${to})
endfunction()
fm_vulkan_manifest(${CMAKE_BINARY_DIR}/lib/fermata/vulkan ../../libfermata-vulkan.so ${CMAKE_INSTALL_LIBDIR}/fermata/vulkan)
file(RELATIVE_PATH vulkan_library ${CMAKE_INSTALL_FULL_DATADIR}/vulkan/explicit_layer.d ${CMAKE_INSTALL_FULL_LIBDIR}/libfermata-vulkan.so)
fm_vulkan_manifest(${CMAKE_BINARY_DIR}/vulkan ${vulkan_library} ${CMAKE_INSTALL_DATADIR}/vulkan/explicit_layer.d)
