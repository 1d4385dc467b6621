#include "rows.h"

void Run(TensorView x, TensorView weight, double eps, TensorView out) {
  const Rows rows = RowsOf(x, weight, eps, out);
  Normalize(rows);
  NormalizeRow(rows, 0, rows.batch);
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, Run)
