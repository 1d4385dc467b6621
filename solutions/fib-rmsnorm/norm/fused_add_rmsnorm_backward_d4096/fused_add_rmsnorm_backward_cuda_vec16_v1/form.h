#pragma once

// The gradients of add + RMSNorm.

constexpr bool IS_CENTERED = false;  // the mean is subtracted, and the bias has a gradient
constexpr bool HAS_RESIDUAL = true;  // the gradient of the new residual is added to dx
