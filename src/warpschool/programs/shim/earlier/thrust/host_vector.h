// thrust/host_vector.h with what it brought along until CUDA 12.
#pragma once
#include_next <thrust/host_vector.h>
#include <warp_earlier_thrust.h>
