"""Looking at a kernel: what each line costs, which bytes each lane touches, how long it takes, step by step."""
