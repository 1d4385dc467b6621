"""The tensors of calls, made alike in a worker and in the judge: inputs, output buffers, what was returned."""
