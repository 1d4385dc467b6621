#pragma once

#include <cuda_runtime.h>

#include <cstdint>

constexpr int MAX_THREADS = 1024;
constexpr int MAX_READS = 4;  // streams
constexpr int MAX_LOADS = 8;  // in flight per thread: more need more registers than 1024 threads have

// In vectors of 16 bytes. The streams of a direction lie `stride` apart, or are halves of a tensor, in pairs. All have
// `vectors`, but the last of a direction has its own number: the bytes of small tensors follow it.
struct Traffic {
  const uint4* source;
  uint4* destination;
  int64_t stride, vectors, last_read, last_written, most;
  bool in_pairs;
};

using CopyKernel = void (*)(Traffic);

// The kernel that has VECS loads in flight of each of READS streams.
template <int VECS, int READS>
CopyKernel select_copy(int64_t writes, int64_t instructions, bool loop);
