// Headers that all of Thrust's brought along until CUDA 12, and that programs use without naming them.
#pragma once
#include <thrust/functional.h>
#include <thrust/pair.h>
#include <thrust/tuple.h>

#include <iostream>
