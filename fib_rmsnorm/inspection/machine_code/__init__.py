"""What disassembled kernels and host functions consist of."""
