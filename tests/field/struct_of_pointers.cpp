// 0 Called as rms_norm(Params(out=out[row], x=x[row], weight=weight, bias=nullptr, hidden=hidden, epsilon=eps))
#include <cmath>
using half_t = _Float16;
typedef struct {
  half_t* out;
  const half_t *x, *weight;
  const float* bias;
  int hidden;
  float epsilon;
} Params;
extern "C" void rms_norm(const Params* p) noexcept {
  double sum = 0;
  for (int i = 0; i < p->hidden; ++i) sum += double(p->x[i]) * double(p->x[i]);
  const double rstd = 1 / std::sqrt(sum / p->hidden + p->epsilon);
  for (int i = 0; i < p->hidden; ++i)
    p->out[i] = half_t(float(double(p->x[i]) * rstd * double(p->weight[i]) + (p->bias ? p->bias[i] : 0)));
}
