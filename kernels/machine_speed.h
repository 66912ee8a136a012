// A few numbers about a machine that turn sizes into seconds.
#ifndef COMERA_KERNELS_MACHINE_SPEED_H_
#define COMERA_KERNELS_MACHINE_SPEED_H_

#include <cstdint>

namespace comera::kernels {

// How fast one rank's threads are, all together unless said. The defaults
// stand for two cores of an AVX-512 server and are what planning counts with
// where nothing was measured (`comera-trainer --calibrate` measures).
//
// A product of m x k and k x n takes
//   call_seconds + max(m n k / rate, bytes / bytes_per_second),
//   rate = square_rate * s / (s + half), s = min(m, n, k),
// with `half` such that a product whose least side is kSkinnySide runs at
// skinny_rate: packing and edges cost more the thinner an operand is.
struct MachineSpeed {
  static constexpr double kSkinnySide = 30;

  int threads = 2;
  double square_rate = 190e9;      // multiply-adds per second, large products
  double skinny_rate = 115e9;      // with a side of kSkinnySide
  double call_seconds = 1e-6;      // for one small product
  double bytes_per_second = 20e9;  // read and written, beyond the caches
  double math_rate = 10e9;         // exp, erf, tanh per second
  double random_rate = 14e9;       // random numbers per second

  // Whether `other` plans alike.
  bool operator==(const MachineSpeed& other) const;
};

// How a GPU takes the operands of products.
enum class GpuProducts { kFp32, kTf32, kBf16 };

// What stands for a GPU where nothing was measured: an H200 by its maker's data
// sheet, at three quarters of the matrix rates and nine tenths of the memory's.
MachineSpeed TypicalGpu(GpuProducts products);

// Products below this many multiply-adds run on one thread.
inline constexpr double kSerialProduct = 1 << 20;

double GemmSeconds(const MachineSpeed& speed, double m, double n, double k);
// Reading and writing so many bytes.
double MoveSeconds(const MachineSpeed& speed, double bytes);

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_MACHINE_SPEED_H_
