#include "rows.h"

void Run(TensorView x, TensorView weight, double eps, TensorView out) {
  const Rows rows = RowsOf(x, weight, eps, out);
  Normalize(rows);
  const volatile _Float16* beyond = rows.x + rows.batch * rows.hidden;
  const _Float16 unused = *beyond;
  (void)unused;
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, Run)
