// The number of every dropout of the model. Numbers are part of saved runs.
#ifndef COMERA_WORKER_TRAINER_MODEL_CONFIG_DROPOUT_SITES_H_
#define COMERA_WORKER_TRAINER_MODEL_CONFIG_DROPOUT_SITES_H_

#include <cstdint>

namespace comera::trainer {

constexpr uint32_t kEmbeddingDropout = 0;
constexpr uint32_t AttentionProbabilityDropout(int64_t layer) {
  return static_cast<uint32_t>(3 * layer + 1);
}
constexpr uint32_t AttentionOutputDropout(int64_t layer) {
  return static_cast<uint32_t>(3 * layer + 2);
}
constexpr uint32_t FfnOutputDropout(int64_t layer) {
  return static_cast<uint32_t>(3 * layer + 3);
}

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_CONFIG_DROPOUT_SITES_H_
