// cooperative_groups/reduce.h: one value of all that a group's members bring, for each member. A butterfly where the
// group is a tile, which adds in the order of CUDA's documentation: neighbours at a distance of 16, 8, 4, 2, 1 first.
#pragma once
#include "../cooperative_groups.h"

namespace cooperative_groups {

#define WARPSCHOOL_OPERATION(name, expression)                                                                         \
  template <class T = void> struct name {                                                                              \
    WARPSCHOOL_METHOD T operator()(T a, T b) const { return expression; }                                              \
  };                                                                                                                   \
  template <> struct name<void> {                                                                                      \
    template <class T> WARPSCHOOL_METHOD T operator()(T a, T b) const { return expression; }                           \
  };
WARPSCHOOL_OPERATION(plus, a + b)
WARPSCHOOL_OPERATION(less, b < a ? b : a)
WARPSCHOOL_OPERATION(greater, a < b ? b : a)
WARPSCHOOL_OPERATION(bit_and, a & b)
WARPSCHOOL_OPERATION(bit_or, a | b)
WARPSCHOOL_OPERATION(bit_xor, a ^ b)
#undef WARPSCHOOL_OPERATION

template <unsigned int Size, class Parent, class T, class Operation>
WARPSCHOOL_DEVICE T reduce(const thread_block_tile<Size, Parent> &tile, T value, Operation &&operation) {
#pragma unroll
  for (unsigned int by = Size / 2; by; by /= 2) value = operation(value, tile.shfl_xor(value, by));
  return value;
}
template <class T, class Operation>
WARPSCHOOL_DEVICE T reduce(const coalesced_group &group, T value, Operation &&operation) {
  T result = group.shfl(value, 0);
  for (unsigned int rank = 1; rank < group.size(); ++rank) result = operation(result, group.shfl(value, (int)rank));
  return result;
}

} // namespace cooperative_groups
