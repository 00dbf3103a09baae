// cooperative_groups.h: groups of threads as objects: a block, its tiles of up to 32 threads, the threads that are here
// together, a cluster, the grid. CUDA Programming Guide, "Cooperative groups". Tiles of 64 threads and more are not here.
#pragma once
#include "warpschool/math.h"
#include "warpschool/memory.h"
#include "warpschool/warp.h"

namespace cooperative_groups {

struct warpschool_group {}; // what all groups are

WARPSCHOOL_DEVICE unsigned int warpschool_rank_in_block() {
  return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
}

// ---------------------------------------------------------------- blocks, clusters, the grid

class thread_block : public warpschool_group {
public:
  WARPSCHOOL_DEVICE void sync() { __syncthreads(); }
  WARPSCHOOL_DEVICE unsigned int thread_rank() { return warpschool_rank_in_block(); }
  WARPSCHOOL_DEVICE unsigned int num_threads() { return blockDim.x * blockDim.y * blockDim.z; }
  WARPSCHOOL_DEVICE unsigned int size() { return num_threads(); }
  WARPSCHOOL_DEVICE dim3 group_index() { return dim3(blockIdx.x, blockIdx.y, blockIdx.z); }
  WARPSCHOOL_DEVICE dim3 thread_index() { return dim3(threadIdx.x, threadIdx.y, threadIdx.z); }
  WARPSCHOOL_DEVICE dim3 dim_threads() { return blockDim; }
  WARPSCHOOL_DEVICE dim3 group_dim() { return blockDim; }
};
WARPSCHOOL_DEVICE thread_block this_thread_block() { return thread_block(); }

class grid_group : public warpschool_group {
public:
  WARPSCHOOL_DEVICE dim3 dim_blocks() { return gridDim; }
  WARPSCHOOL_DEVICE dim3 group_dim() { return gridDim; }
  WARPSCHOOL_DEVICE dim3 block_index() { return dim3(blockIdx.x, blockIdx.y, blockIdx.z); }
  WARPSCHOOL_DEVICE unsigned long long num_blocks() { return (unsigned long long)gridDim.x * gridDim.y * gridDim.z; }
  WARPSCHOOL_DEVICE unsigned long long block_rank() {
    return ((unsigned long long)blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  }
  WARPSCHOOL_DEVICE unsigned long long num_threads() { return num_blocks() * this_thread_block().num_threads(); }
  WARPSCHOOL_DEVICE unsigned long long size() { return num_threads(); }
  WARPSCHOOL_DEVICE unsigned long long thread_rank() {
    return block_rank() * this_thread_block().num_threads() + warpschool_rank_in_block();
  }
};
WARPSCHOOL_DEVICE grid_group this_grid() { return grid_group(); }

#if __CUDA_ARCH__ >= 900
#define WARPSCHOOL_CLUSTER(name, reg)                                                                                  \
  WARPSCHOOL_DEVICE unsigned int name() {                                                                              \
    unsigned int value;                                                                                                \
    asm volatile("mov.u32 %0, %%" reg ";" : "=r"(value));                                                              \
    return value;                                                                                                      \
  }
class cluster_group : public warpschool_group {
public:
  WARPSCHOOL_CLUSTER(block_rank, "cluster_ctarank")
  WARPSCHOOL_CLUSTER(num_blocks, "cluster_nctarank")
  WARPSCHOOL_DEVICE void barrier_arrive() { asm volatile("barrier.cluster.arrive.aligned;" ::: "memory"); }
  WARPSCHOOL_DEVICE void barrier_wait() { asm volatile("barrier.cluster.wait.aligned;" ::: "memory"); }
  WARPSCHOOL_DEVICE void sync() { barrier_arrive(), barrier_wait(); }
  WARPSCHOOL_DEVICE unsigned int num_threads() { return num_blocks() * this_thread_block().num_threads(); }
  WARPSCHOOL_DEVICE unsigned int size() { return num_threads(); }
  WARPSCHOOL_DEVICE unsigned int thread_rank() {
    return block_rank() * this_thread_block().num_threads() + warpschool_rank_in_block();
  }
  template <class T> WARPSCHOOL_DEVICE T *map_shared_rank(T *p, int rank) {
    T *there;
    asm("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(p), "r"(rank));
    return there;
  }
};
#undef WARPSCHOOL_CLUSTER
WARPSCHOOL_DEVICE cluster_group this_cluster() { return cluster_group(); }
#endif

// ---------------------------------------------------------------- groups inside a warp

// `lanes`: who is in it. A lane's rank counts the members below it; shuffles name members by their ranks.
class coalesced_group : public warpschool_group {
protected:
  unsigned int lanes, group, groups;

  WARPSCHOOL_METHOD unsigned int below() const { return lanes & ((1u << __lane_id()) - 1); }
  WARPSCHOOL_METHOD unsigned int lane_of(unsigned int rank) const { // the place of the bit that has `rank` ones below it
    unsigned int left = lanes;
    for (unsigned int i = 0; i < rank && left; ++i) left &= left - 1;
    return left ? (unsigned int)__ffs((int)left) - 1 : __lane_id();
  }

public:
  WARPSCHOOL_METHOD coalesced_group(unsigned int lanes, unsigned int group = 0, unsigned int groups = 1)
      : lanes(lanes), group(group), groups(groups) {}
  WARPSCHOOL_METHOD unsigned int warpschool_lanes() const { return lanes; }
  WARPSCHOOL_METHOD void sync() const { __syncwarp(lanes); }
  WARPSCHOOL_METHOD unsigned int num_threads() const { return __popc(lanes); }
  WARPSCHOOL_METHOD unsigned int size() const { return __popc(lanes); }
  WARPSCHOOL_METHOD unsigned int thread_rank() const { return __popc(below()); }
  WARPSCHOOL_METHOD unsigned int meta_group_rank() const { return group; }
  WARPSCHOOL_METHOD unsigned int meta_group_size() const { return groups; }
  template <class T> WARPSCHOOL_METHOD T shfl(T value, int rank) const {
    return __shfl_sync(lanes, value, (int)lane_of((unsigned int)rank));
  }
  template <class T> WARPSCHOOL_METHOD T shfl_down(T value, unsigned int by) const {
    unsigned int from = thread_rank() + by;
    return __shfl_sync(lanes, value, (int)(from < size() ? lane_of(from) : __lane_id()));
  }
  template <class T> WARPSCHOOL_METHOD T shfl_up(T value, unsigned int by) const {
    unsigned int rank = thread_rank();
    return __shfl_sync(lanes, value, (int)(rank >= by ? lane_of(rank - by) : __lane_id()));
  }
  WARPSCHOOL_METHOD int any(int predicate) const { return __any_sync(lanes, predicate); }
  WARPSCHOOL_METHOD int all(int predicate) const { return __all_sync(lanes, predicate); }
  WARPSCHOOL_METHOD unsigned int ballot(int predicate) const { return packed(__ballot_sync(lanes, predicate)); }
  template <class T> WARPSCHOOL_METHOD unsigned int match_any(T value) const {
    return packed(__match_any_sync(lanes, value));
  }
  template <class T> WARPSCHOOL_METHOD unsigned int match_all(T value, int &agree) const {
    return packed(__match_all_sync(lanes, value, &agree));
  }

private:
  WARPSCHOOL_METHOD unsigned int packed(unsigned int of_lanes) const { // bit r for the member of rank r
    unsigned int result = 0, rank = 0;
    for (unsigned int left = lanes; left; left &= left - 1, ++rank)
      result |= (of_lanes & left & -left) ? 1u << rank : 0;
    return result;
  }
};
WARPSCHOOL_DEVICE coalesced_group coalesced_threads() { return coalesced_group(__activemask()); }

// A tile of a block: `Size` neighbours in the order of ranks, which is a segment of a warp.
template <unsigned int Size, class Parent = void> class thread_block_tile : public warpschool_group {
  static_assert(Size && Size <= 32 && !(Size & (Size - 1)), "with clang a tile has 1, 2, 4, 8, 16 or 32 threads");

public:
  WARPSCHOOL_METHOD unsigned int warpschool_lanes() const {
    return Size == 32 ? ~0u : ((1u << (Size & 31)) - 1) << (__lane_id() & ~(Size - 1));
  }
  WARPSCHOOL_METHOD void sync() const { __syncwarp(warpschool_lanes()); }
  WARPSCHOOL_METHOD static constexpr unsigned int num_threads() { return Size; }
  WARPSCHOOL_METHOD static constexpr unsigned int size() { return Size; }
  WARPSCHOOL_METHOD unsigned int thread_rank() const { return warpschool_rank_in_block() & (Size - 1); }
  WARPSCHOOL_METHOD unsigned int meta_group_rank() const { return warpschool_rank_in_block() / Size; }
  WARPSCHOOL_METHOD unsigned int meta_group_size() const {
    return (blockDim.x * blockDim.y * blockDim.z + Size - 1) / Size;
  }
  template <class T> WARPSCHOOL_METHOD T shfl(T value, int rank) const {
    return __shfl_sync(warpschool_lanes(), value, rank, Size);
  }
  template <class T> WARPSCHOOL_METHOD T shfl_down(T value, unsigned int by) const {
    return __shfl_down_sync(warpschool_lanes(), value, by, Size);
  }
  template <class T> WARPSCHOOL_METHOD T shfl_up(T value, unsigned int by) const {
    return __shfl_up_sync(warpschool_lanes(), value, by, Size);
  }
  template <class T> WARPSCHOOL_METHOD T shfl_xor(T value, unsigned int mask) const {
    return __shfl_xor_sync(warpschool_lanes(), value, (int)mask, Size);
  }
  WARPSCHOOL_METHOD int any(int predicate) const { return __any_sync(warpschool_lanes(), predicate); }
  WARPSCHOOL_METHOD int all(int predicate) const { return __all_sync(warpschool_lanes(), predicate); }
  WARPSCHOOL_METHOD unsigned int ballot(int predicate) const {
    return __ballot_sync(warpschool_lanes(), predicate) >> first() & (~0u >> (32 - Size));
  }
  template <class T> WARPSCHOOL_METHOD unsigned int match_any(T value) const {
    return __match_any_sync(warpschool_lanes(), value) >> first() & (~0u >> (32 - Size));
  }
  template <class T> WARPSCHOOL_METHOD unsigned int match_all(T value, int &agree) const {
    return __match_all_sync(warpschool_lanes(), value, &agree) >> first() & (~0u >> (32 - Size));
  }

private:
  WARPSCHOOL_METHOD unsigned int first() const { return __lane_id() & ~(Size - 1); }
};

template <unsigned int Size, class Parent> WARPSCHOOL_DEVICE thread_block_tile<Size, Parent> tiled_partition(Parent) {
  return {};
}
WARPSCHOOL_DEVICE coalesced_group tiled_partition(thread_block block, unsigned int size) {
  unsigned int first = __lane_id() & ~(size - 1), lanes = size == 32 ? ~0u : ((1u << size) - 1) << first;
  return {lanes & __activemask(), block.thread_rank() / size, (block.size() + size - 1) / size};
}
template <class Group> WARPSCHOOL_DEVICE coalesced_group binary_partition(const Group &group, bool which) {
  unsigned int yes = __ballot_sync(group.warpschool_lanes(), which);
  return {which ? yes : group.warpschool_lanes() & ~yes, which ? 1u : 0u, 2};
}
template <class Group, class Label>
WARPSCHOOL_DEVICE coalesced_group labeled_partition(const Group &group, Label label) {
  return {__match_any_sync(group.warpschool_lanes(), label)};
}

template <class Group> WARPSCHOOL_DEVICE void sync(Group group) { group.sync(); }
template <class Group> WARPSCHOOL_DEVICE unsigned int thread_rank(Group group) { return group.thread_rank(); }
template <class Group> WARPSCHOOL_DEVICE unsigned int group_size(Group group) { return group.size(); }

} // namespace cooperative_groups
