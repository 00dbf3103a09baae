// cooperative_groups.h with the names that groups of several warps had until CUDA 12.
#pragma once
#include_next <cooperative_groups.h>
#if defined(__cplusplus) && defined(__CUDACC__) && CUDART_VERSION >= 13000
namespace cooperative_groups {
namespace experimental {
using cooperative_groups::this_thread_block;
using cooperative_groups::tiled_partition;
template <unsigned ValueBytes, unsigned MaxBlockSize = 1024>
using block_tile_memory = cooperative_groups::block_tile_memory<MaxBlockSize>;
}  // namespace experimental
}  // namespace cooperative_groups
#endif
