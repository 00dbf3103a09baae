// cooperative_groups/scan.h: for each member of a group what the members up to it, or before it, bring together.
#pragma once
#include "reduce.h"

namespace cooperative_groups {

template <class Group, class T, class Operation>
WARPSCHOOL_DEVICE T inclusive_scan(const Group &group, T value, Operation &&operation) {
  unsigned int rank = group.thread_rank();
  for (unsigned int by = 1; by < group.size(); by *= 2) {
    T before = group.shfl_up(value, by);
    if (rank >= by) value = operation(before, value);
  }
  return value;
}
template <class Group, class T> WARPSCHOOL_DEVICE T inclusive_scan(const Group &group, T value) {
  return inclusive_scan(group, value, plus<T>());
}
// the first member gets T(): what it brings nothing to
template <class Group, class T, class Operation>
WARPSCHOOL_DEVICE T exclusive_scan(const Group &group, T value, Operation &&operation) {
  T before = group.shfl_up(inclusive_scan(group, value, operation), 1);
  return group.thread_rank() ? before : T();
}
template <class Group, class T> WARPSCHOOL_DEVICE T exclusive_scan(const Group &group, T value) {
  return exclusive_scan(group, value, plus<T>());
}

} // namespace cooperative_groups
