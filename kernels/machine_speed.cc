// Estimates the seconds of products and memory traffic from measured rates.
#include "kernels/machine_speed.h"

#include <algorithm>

namespace comera::kernels {

bool MachineSpeed::operator==(const MachineSpeed& other) const {
  return threads == other.threads && square_rate == other.square_rate &&
         skinny_rate == other.skinny_rate &&
         call_seconds == other.call_seconds &&
         bytes_per_second == other.bytes_per_second &&
         math_rate == other.math_rate && random_rate == other.random_rate &&
         gpu == other.gpu && misaligned_rate == other.misaligned_rate &&
         fused_rate == other.fused_rate &&
         fused_seconds == other.fused_seconds &&
         scalar_rate == other.scalar_rate && bf16_gain == other.bf16_gain;
}

MachineSpeed TypicalGpu(GpuProducts products) {
  MachineSpeed speed;
  speed.threads = 1;
  speed.gpu = true;
  // Operands lie in memory as float32, which halves cuBLAS's rate in bf16 and
  // TF32; its ceilings with operands of their own width are three times that.
  switch (products) {
    case GpuProducts::kFp32:
      speed.square_rate = 25e12;
      speed.misaligned_rate = 7e12;
      speed.fused_rate = 9.3e12;
      speed.fused_seconds = 18e-6;
      break;
    case GpuProducts::kTf32:
      speed.square_rate = 100e12;
      speed.misaligned_rate = 7e12;
      speed.fused_rate = 17.5e12;
      speed.fused_seconds = 11e-6;
      break;
    case GpuProducts::kBf16:
      speed.square_rate = 117e12;
      speed.misaligned_rate = 7e12;
      speed.fused_rate = 27e12;
      speed.fused_seconds = 2e-6;
      speed.bf16_gain = 2.2;
      break;
  }
  speed.skinny_rate = speed.square_rate / 4;
  speed.call_seconds = 5.3e-6;
  speed.bytes_per_second = 4.2e12;
  speed.math_rate = 1e12;
  speed.random_rate = 1e12;
  speed.scalar_rate = 1.6e12;
  return speed;
}

double ProductRate(const MachineSpeed& speed, double side, bool misaligned) {
  const double half = MachineSpeed::kSkinnySide *
                      std::max(speed.square_rate / speed.skinny_rate - 1, 0.0);
  const double rate = speed.square_rate * side / (side + half);
  return misaligned ? std::min(rate, speed.misaligned_rate) : rate;
}

double GemmSeconds(const MachineSpeed& speed, double m, double n, double k) {
  const double products = m * n * k;
  if (products <= 0) return 0;
  double rate = ProductRate(speed, std::min({m, n, k}));
  if (products < kSerialProduct) rate /= std::max(speed.threads, 1);
  const double bytes = 4 * (m * k + k * n + m * n);
  // What fits in the caches is not read from memory.
  const bool cached = bytes < 1 << 20;
  return speed.call_seconds +
         std::max(products / rate, cached ? 0 : MoveSeconds(speed, bytes));
}

double MoveSeconds(const MachineSpeed& speed, double bytes) {
  return bytes / speed.bytes_per_second;
}

}  // namespace comera::kernels
