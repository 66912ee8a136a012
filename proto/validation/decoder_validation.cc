// Checks the architecture of decoders, and keeps their fields from other
// families.

#include "proto/validation/decoder_validation.h"

#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/model_family.h"

namespace comera {
namespace {

constexpr double kMaxRopeTheta = 1e12;

void CheckLlama(const v1::ModelSpec& model, SpecChecker& check) {
  const int64_t heads = model.heads();
  if (model.kv_heads() < 1) {
    check.Add("model.kv_heads",
              absl::StrCat("must be a divisor of model.heads, at least 1, not ",
                           model.kv_heads()));
  } else if (heads > 0) {
    check.Require(heads % model.kv_heads() == 0, "model.kv_heads",
                  absl::StrCat("must be a divisor of model.heads ", heads,
                               ", not ", model.kv_heads()));
  }
  // Rotary positions turn the entries of a head in pairs.
  if (heads > 0 && model.hidden() > 0 && model.hidden() % heads == 0) {
    const int64_t width = model.hidden() / heads;
    check.Require(width % 2 == 0, "model.heads",
                  absl::StrCat("must make heads of an even width, as the "
                               "rotary positions of LLAMA need: hidden ",
                               model.hidden(), " / ", heads, " = ", width));
  }
  check.Require(model.rope_theta() > 1 && model.rope_theta() <= kMaxRopeTheta,
                "model.rope_theta",
                absl::StrCat("must be above 1 and at most ", kMaxRopeTheta,
                             ", not ", model.rope_theta()));
}

}  // namespace

void CheckDecoder(const v1::JobSpec& spec, SpecChecker& check) {
  const v1::ModelSpec& model = spec.model();
  check.Require(model.segments() == 0, "model.segments",
                "is for encoders: a CAUSAL_LM has no segments");
  check.Require(
      model.norm_epsilon() > 0 && model.norm_epsilon() < 1,
      "model.norm_epsilon",
      absl::StrCat("must be above 0 and below 1, not ", model.norm_epsilon()));
  if (IsLlama(model)) {
    CheckLlama(model, check);
  } else {
    check.Require(model.kv_heads() == 0, "model.kv_heads",
                  "is for LLAMA only: a head of GPT2 has its own keys and "
                  "values");
    check.Require(!model.has_rope_theta(), "model.rope_theta",
                  "is for LLAMA only: GPT2 has learned positions");
  }
  check.Require(spec.objective().kind() != v1::ObjectiveSpec::REFERENCE,
                "objective.kind",
                "REFERENCE is the published rule, which is for encoders; "
                "CAUSAL_LM takes PARETO");
}

void CheckNothingOfDecoders(const v1::JobSpec& spec, SpecChecker& check) {
  const v1::ModelSpec& model = spec.model();
  const std::pair<const char*, bool> fields[] = {
      {"model.architecture",
       model.architecture() != v1::ModelSpec::ARCHITECTURE_UNSPECIFIED},
      {"model.kv_heads", model.kv_heads() != 0},
      {"model.rope_theta", model.has_rope_theta()},
      {"model.norm_epsilon", model.has_norm_epsilon()},
      {"training.max_tokens", spec.training().max_tokens() != 0},
  };
  for (const auto& [field, is_set] : fields) {
    check.Require(!is_set, field, "is for CAUSAL_LM only");
  }
}

}  // namespace comera
