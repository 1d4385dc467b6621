# 0 Called as CUDARMSNorm(hidden, epsilon=eps)(out, x, weight)
import torch


class CUDARMSNormBase:
    def __init__(self, channels: int, fp_dtype: torch.dtype = torch.float16, epsilon: float = 1e-5):
        self.channels, self.epsilon = channels, epsilon


class CUDARMSNorm(CUDARMSNormBase):
    def __call__(self, output_z, input_x, gamma):
        return output_z.copy_(torch.nn.functional.rms_norm(input_x, gamma.shape, gamma, self.epsilon))
