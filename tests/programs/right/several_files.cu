// A program of two files: this one has the host code.
// with: several_files_kernels.cu
#include <cstdio>
#include "several_files.h"

int main()
{
    printf("%d\n", doubled(21));
    return 0;
}
/* prints
42
*/
