// cuda_pipeline.h: asynchronous copies from global to shared memory. CUDA Programming Guide, "Pipeline primitives";
// PTX ISA 9.7.9.25.
#pragma once
#include "warpschool/memory.h"

#define WARPSCHOOL_COPY(bytes, cache)                                                                                  \
  WARPSCHOOL_DEVICE void warpschool_copy_##bytes(unsigned int to, const void *from, unsigned int used) {               \
    asm volatile("cp.async." cache ".shared.global [%0], [%1], " #bytes ", %2;" ::"r"(to), "l"(from), "r"(used)        \
                 : "memory");                                                                                          \
  }                                                                                                                    \
  WARPSCHOOL_DEVICE void warpschool_copy_##bytes(unsigned int to, const void *from) {                                  \
    asm volatile("cp.async." cache ".shared.global [%0], [%1], " #bytes ";" ::"r"(to), "l"(from) : "memory");          \
  }
WARPSCHOOL_COPY(4, "ca")
WARPSCHOOL_COPY(8, "ca")
WARPSCHOOL_COPY(16, "cg")
#undef WARPSCHOOL_COPY

// `size` is 4, 8 or 16; the last `zfill` bytes become zeros and are not read.
WARPSCHOOL_DEVICE void __pipeline_memcpy_async(
    void *__restrict__ to, const void *__restrict__ from, size_t size, size_t zfill = 0) {
  unsigned int place = (unsigned int)__cvta_generic_to_shared(to), used = (unsigned int)(size - zfill);
  const void *source = (const void *)__cvta_generic_to_global(from);
  bool is_whole = __builtin_constant_p(zfill) && zfill == 0;
  if (size == 4) is_whole ? warpschool_copy_4(place, source) : warpschool_copy_4(place, source, used);
  else if (size == 8) is_whole ? warpschool_copy_8(place, source) : warpschool_copy_8(place, source, used);
  else if (size == 16) is_whole ? warpschool_copy_16(place, source) : warpschool_copy_16(place, source, used);
  else __trap();
}
WARPSCHOOL_DEVICE void __pipeline_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// The number of groups that may still be on their way is a constant of PTX: one is chosen when it is known.
WARPSCHOOL_DEVICE void __pipeline_wait_prior(size_t groups) {
#define WARPSCHOOL_WAIT(n)                                                                                             \
  case n: asm volatile("cp.async.wait_group " #n ";" ::: "memory"); break;
  switch (groups) {
    WARPSCHOOL_WAIT(1)
    WARPSCHOOL_WAIT(2)
    WARPSCHOOL_WAIT(3)
    WARPSCHOOL_WAIT(4)
    WARPSCHOOL_WAIT(5)
    WARPSCHOOL_WAIT(6)
    WARPSCHOOL_WAIT(7)
    default: asm volatile("cp.async.wait_group 0;" ::: "memory");
  }
#undef WARPSCHOOL_WAIT
}
