// Estimates the seconds of products and memory traffic from measured rates.
#include "kernels/machine_speed.h"

#include <algorithm>

namespace comera::kernels {

bool MachineSpeed::operator==(const MachineSpeed& other) const {
  return threads == other.threads && square_rate == other.square_rate &&
         skinny_rate == other.skinny_rate &&
         call_seconds == other.call_seconds &&
         bytes_per_second == other.bytes_per_second &&
         math_rate == other.math_rate && random_rate == other.random_rate;
}

MachineSpeed TypicalGpu(GpuProducts products) {
  MachineSpeed speed;
  speed.threads = 1;
  switch (products) {
    case GpuProducts::kFp32:
      speed.square_rate = 25e12;
      break;
    case GpuProducts::kTf32:
      speed.square_rate = 185e12;
      break;
    case GpuProducts::kBf16:
      speed.square_rate = 370e12;
      break;
  }
  // A side of 30 wastes little of the tensor cores' 8-wide tiles; what thin
  // products wait for is memory.
  speed.skinny_rate = speed.square_rate / 4;
  speed.call_seconds = 3e-6;
  speed.bytes_per_second = 4.3e12;
  speed.math_rate = 1e12;
  speed.random_rate = 1e12;
  return speed;
}

double GemmSeconds(const MachineSpeed& speed, double m, double n, double k) {
  const double products = m * n * k;
  if (products <= 0) return 0;
  const double side = std::min({m, n, k});
  const double half = MachineSpeed::kSkinnySide *
                      std::max(speed.square_rate / speed.skinny_rate - 1, 0.0);
  double rate = speed.square_rate * side / (side + half);
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
