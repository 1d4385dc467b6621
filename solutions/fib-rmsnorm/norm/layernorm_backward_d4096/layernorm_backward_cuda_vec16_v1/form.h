#pragma once

// The gradients of LayerNorm.

constexpr bool IS_CENTERED = true;    // the mean is subtracted, and the bias has a gradient
constexpr bool HAS_RESIDUAL = false;  // the gradient of the new residual is added to dx
