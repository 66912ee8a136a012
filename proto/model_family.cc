// Tells families and architectures of models apart.

#include "proto/model_family.h"

#include <algorithm>

namespace comera {
namespace {

bool IsDecoder(const v1::ModelSpec& model) {
  return model.family() == v1::ModelSpec::CAUSAL_LM;
}

}  // namespace

bool IsLanguageModel(const v1::ModelSpec& model) {
  return model.family() == v1::ModelSpec::MASKED_LM || IsDecoder(model);
}

bool IsLlama(const v1::ModelSpec& model) {
  return IsDecoder(model) && !IsGpt2(model);
}

bool IsGpt2(const v1::ModelSpec& model) {
  return IsDecoder(model) && model.architecture() == v1::ModelSpec::GPT2;
}

int64_t KvWidth(const v1::ModelSpec& model) {
  const int64_t heads = model.heads();
  if (!IsLlama(model) || heads < 1 || model.kv_heads() < 1) {
    return model.hidden();
  }
  return model.hidden() / heads * std::min<int64_t>(model.kv_heads(), heads);
}

bool TiesOutput(const v1::ModelSpec& model) {
  return model.tie_output() || IsGpt2(model);
}

bool HasOutputLayer(const v1::ModelSpec& model) {
  return IsLanguageModel(model) && !TiesOutput(model);
}

bool HasHeadLayer(const v1::ModelSpec& model) {
  return !IsDecoder(model) && model.family() != v1::ModelSpec::DLRM;
}

int64_t HeadWidth(const v1::ModelSpec& model) {
  return model.heads() > 0 ? model.hidden() / model.heads() : 0;
}

}  // namespace comera
