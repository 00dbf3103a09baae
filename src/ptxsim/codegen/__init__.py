"""A kernel to LLVM IR and machine code: `full` for whole warps, `masked` for parted ones, helpers in `runtime`."""
