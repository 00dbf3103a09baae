// assert.h: what of it exists on the device is there without a header, or stands in warpschool_standard.h.
#pragma once
#define WARPSCHOOL_ALL
#include "warpschool_standard.h"
#undef WARPSCHOOL_ALL
