constexpr int TILE = @TILE@;    // results of a tile along each axis
constexpr int FILTER = @FILTER@;  // weights of a filter along each axis
constexpr int SIDE = TILE + FILTER - 1;
constexpr int THREADS = 128;

// One matrix times one column or row.
__device__ void transform(float (&to)[@COUNT@], const float (&of)[@LENGTH@])
{
    @BODY@
}
