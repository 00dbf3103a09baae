// Host code follows a null pointer. Quick.
// finds: crash 7
// exit: 139
#include <cstdio>
#include <cstdlib>

int sum(const int* x, int n) { return n ? *x + sum(x + 1, n - 1) : 0; }

int main(int argc, char**)
{
    const int* table = argc > 5 ? (const int*)malloc(4) : nullptr;
    printf("%d\n", sum(table, 3));
    return 0;
}
