# What CUDA's images are packed with: liblz4 and libzstd (Debian: liblz4-dev, libzstd-dev). Static, since what is
# loaded into programs needs libc alone, and uses no other's copy of a library: that may be of any version.
find_library(LZ4_A NAMES liblz4.a REQUIRED)
find_library(ZSTD_A NAMES libzstd.a REQUIRED)
find_path(LZ4_INCLUDE lz4.h REQUIRED)
find_path(ZSTD_INCLUDE zstd.h REQUIRED)
add_library(unpackers INTERFACE)
target_include_directories(unpackers SYSTEM INTERFACE ${LZ4_INCLUDE} ${ZSTD_INCLUDE})
target_link_libraries(unpackers INTERFACE ${LZ4_A} ${ZSTD_A})
