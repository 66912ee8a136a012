// Multipliers of dropout (kernels/philox.h) in kernels.
#ifndef COMERA_KERNELS_CUDA_DEVICE_DROPOUT_H_
#define COMERA_KERNELS_CUDA_DEVICE_DROPOUT_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/backend.h"
#include "kernels/philox.h"

namespace comera::kernels {

// A parameter of kernels; made on the host from a checked key.
struct DeviceDropout {
  const StepState* state = nullptr;  // null: keeps everything
  const int32_t* row_ids = nullptr;
  int64_t first_row = 0;
  uint32_t site = 0;
  uint32_t threshold = 0;
  float scale = 1;
};

inline DeviceDropout MakeDeviceDropout(const DropoutKey& key) {
  DeviceDropout d;
  if (key.rate == 0) return d;
  d.state = key.state;
  d.row_ids = key.row_ids;
  d.first_row = key.first_row;
  d.site = key.site;
  d.threshold = DropoutThreshold(key.rate);
  d.scale = static_cast<float>(DropoutKeptScale(key.rate));
  return d;
}

// What Philox counts for row i of the operation; d must be active.
__device__ __forceinline__ DropoutRow RowOf(const DeviceDropout& d, int64_t i) {
  const int64_t row = d.first_row + (d.row_ids == nullptr ? i : d.row_ids[i]);
  return MakeDropoutRow(d.state->seed, d.state->step, d.site,
                        static_cast<uint64_t>(row));
}

// The multipliers of column 8 * group and the seven after it.
__device__ __forceinline__ void DropoutScales(const DeviceDropout& d,
                                              const DropoutRow& row,
                                              uint32_t group,
                                              float (&scales)[8]) {
  const PhiloxWords words = Philox<kDropoutRounds>(
      {{group, row.c1, row.c2, row.c3}}, row.key0, row.key1);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    scales[2 * i] = (words.w[i] & 0xffff) >= d.threshold ? d.scale : 0.0f;
    scales[2 * i + 1] = (words.w[i] >> 16) >= d.threshold ? d.scale : 0.0f;
  }
}

// v times the multipliers of columns 8 * group and on, if there is a dropout.
__device__ __forceinline__ void MaskRun(const DeviceDropout& d, int64_t i,
                                        int64_t group, float (&v)[8]) {
  if (d.state == nullptr) return;
  float scales[8];
  DropoutScales(d, RowOf(d, i), static_cast<uint32_t>(group), scales);
#pragma unroll
  for (int k = 0; k < 8; ++k) v[k] *= scales[k];
}

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_CUDA_DEVICE_DROPOUT_H_
