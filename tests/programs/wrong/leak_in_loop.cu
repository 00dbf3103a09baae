// The same line leaks five times: one finding.
// finds: leak 7
void* buffers[5];
int main()
{
    for (int k = 0; k < 5; k++)
        cudaMalloc(&buffers[k], 100);
    return 0;
}
