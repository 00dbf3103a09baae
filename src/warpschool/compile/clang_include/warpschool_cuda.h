// warpschool_cuda.h: what CUDA C++ has without any include. The compiler reads it before the source.
#pragma once
#include "warpschool/language.h"
#include "warpschool/warp.h"
#include "warpschool/memory.h"
#include "warpschool/integer.h"
#include "warpschool/math.h"
#include "warpschool/texture.h"

#ifdef WARPSCHOOL_DEFAULT_DEVICE // a file with host code: what says neither is for both sides, as nvcc has it in part
#pragma clang force_cuda_host_device begin
#endif
