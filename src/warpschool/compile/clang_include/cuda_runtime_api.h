// cuda_runtime_api.h: all of it that device code can use is there without a header.
#pragma once
#include "warpschool_cuda.h"
