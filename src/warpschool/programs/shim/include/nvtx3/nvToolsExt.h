// nvtx3/nvToolsExt.h: the same by its later name.
#pragma once
#include "../nvToolsExt.h"
