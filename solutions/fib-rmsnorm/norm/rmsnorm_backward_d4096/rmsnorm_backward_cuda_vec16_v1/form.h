#pragma once

// The gradients of RMSNorm.

constexpr bool IS_CENTERED = false;   // the mean is subtracted, and the bias has a gradient
constexpr bool HAS_RESIDUAL = false;  // the gradient of the new residual is added to dx
