// paste fib-rmsnorm define rmsnorm --hidden 4096 --dtype float32
#include <cmath>
#include <vector>

class RMSNorm {
 public:
  explicit RMSNorm(float epsilon) : epsilon_(epsilon) {}

  std::vector<float> operator()(const std::vector<float>& x, const std::vector<float>& weight) const {
    double sum = 0;
    for (float each : x) sum += double(each) * each;
    std::vector<float> y;
    for (size_t i = 0; i < x.size(); ++i) y.push_back(x[i] / std::sqrt(sum / x.size() + epsilon_) * weight[i]);
    return y;
  }

 private:
  float epsilon_;
};
