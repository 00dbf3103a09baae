// warpschool_cuda.h: what CUDA C++ has without any include. The compiler reads it before the source.
#pragma once
#include "warpschool/language.h"
#include "warpschool/warp.h"
#include "warpschool/memory.h"
#include "warpschool/integer.h"
#include "warpschool/math.h"
