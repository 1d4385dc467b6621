# 2 was not judged: needs an NVIDIA GPU to run (it names no TileLang target, so it is compiled for the GPU)
import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[-1])
def rms_norm(M, N, threads):
    @T.prim_func
    def main(A: T.Tensor((M, N), "float16"), W: T.Tensor((N,), "float16"), B: T.Tensor((M, N), "float16")):
        with T.Kernel(M, threads=threads) as bx:
            s = T.alloc_fragment((1, N), "float32")
            q = T.alloc_fragment((1,), "float32")
            for i, j in T.Parallel(1, N):
                s[i, j] = A[bx, j] * A[bx, j]
            T.reduce_sum(s, q, dim=1)
            for _, j in T.Parallel(1, N):
                B[bx, j] = A[bx, j] * T.rsqrt(q[0] / N + 1e-6) * W[j]

    return main
