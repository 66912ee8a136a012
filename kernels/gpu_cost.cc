// Turns the work of an operation into seconds by measured rates of a GPU.
#include "kernels/gpu_cost.h"

#include <algorithm>
#include <cstdint>

namespace comera::kernels {

double GpuSeconds(const GpuWork& w, const MachineSpeed& speed) {
  const double memory = MoveSeconds(speed, w.bytes);
  double work = 0;
  switch (w.kind) {
    case GpuWork::kPass:
      // Functions are computed while memory is waited for.
      work = std::max(memory, w.functions / speed.math_rate);
      break;
    case GpuWork::kProduct:
      work = std::max(
          memory, w.multiply_adds / ProductRate(speed, w.side, w.misaligned));
      break;
    case GpuWork::kBf16Product:
      work = std::max(
          memory, w.multiply_adds / (speed.bf16_gain *
                                     ProductRate(speed, w.side, w.misaligned)));
      break;
    case GpuWork::kFused:
      // However little there is, a block of threads walks through its tile.
      work = std::max(speed.fused_seconds,
                      memory + w.multiply_adds / speed.fused_rate);
      break;
    case GpuWork::kScalar:
      work = std::max(memory, w.multiply_adds / speed.scalar_rate);
      break;
  }
  return w.launches * speed.call_seconds + work;
}

bool OnVectors(ConstMatrix m) {
  return reinterpret_cast<uintptr_t>(m.data) % 16 == 0 && m.stride % 4 == 0 &&
         m.cols % 4 == 0;
}

}  // namespace comera::kernels
