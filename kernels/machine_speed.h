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

  // A GPU, whose call_seconds is a kernel's of a replayed graph, with the gap
  // before it, and whose products with an operand off 16 bytes leave the tensor
  // cores. The numbers below hold for it alone.
  bool gpu = false;
  double misaligned_rate = 0;  // multiply-adds per second of such products
  // Multiply-adds per second of the engine's own kernels on tensor cores.
  double fused_rate = 0;
  double fused_seconds = 0;  // the least that one of these takes
  // Multiply-adds per second of its kernels that use no tensor cores.
  double scalar_rate = 0;
  // How many times as fast products of operands in bfloat16 are; 0: none lie in
  // memory so.
  double bf16_gain = 0;

  // Whether `other` plans alike.
  bool operator==(const MachineSpeed& other) const;
};

// How a GPU takes the operands of products.
enum class GpuProducts { kFp32, kTf32, kBf16 };

// What stands for a GPU where nothing was measured: an H200. Its rates are
// those that give the measured steps of docs/benchmarks.md, from what these
// steps enqueued (tests/worker/trainer/planning/h200_steps.txt).
MachineSpeed TypicalGpu(GpuProducts products);

// Products below this many multiply-adds run on one thread.
inline constexpr double kSerialProduct = 1 << 20;

// Multiply-adds per second of a product whose least size is `side`. On a GPU an
// operand may be off 16 bytes.
double ProductRate(const MachineSpeed& speed, double side,
                   bool misaligned = false);
double GemmSeconds(const MachineSpeed& speed, double m, double n, double k);
// Reading and writing so many bytes.
double MoveSeconds(const MachineSpeed& speed, double bytes);

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_MACHINE_SPEED_H_
