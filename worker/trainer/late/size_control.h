#ifndef COMERA_WORKER_TRAINER_LATE_SIZE_CONTROL_H_
#define COMERA_WORKER_TRAINER_LATE_SIZE_CONTROL_H_

#include <cstdint>
#include <vector>

namespace comera::trainer {

// The state of a SizeController besides the parameters, as checkpoints hold it.
// A value type. The vectors hold one number per rank entry of the current
// layout, by layer, bond, entry.
struct SizeControl {
  // The counted size when the approach to the target began.
  double start_size = 0;
  // The number of gradients seen, and the same exponentially weighted.
  int64_t observations = 0;
  double weight = 0;
  // The weighted sum of (entry x gradient)^2.
  std::vector<float> saliency;
  // How much a size step lowers the entry by; 0: it is to stay; kPruned: it is
  // out.
  std::vector<float> fade;
  static constexpr float kPruned = -1;
  // The size steps until the entries that fade now are 0; 0: none fades.
  int64_t wave_steps_left = 0;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_LATE_SIZE_CONTROL_H_
