// Checks a target's figure against its range and against the model.

#include "proto/validation/target_validation.h"

#include "absl/strings/str_cat.h"
#include "proto/model_family.h"
#include "proto/target_quality.h"

namespace comera {
namespace {

// Says why no model of this specification has the figure; empty: it has.
std::string WhyNot(const v1::JobSpec& spec, QualityKind kind) {
  const v1::ModelSpec& model = spec.model();
  switch (kind) {
    case v1::Target::kTargetF1:
    case v1::Target::kTargetMcc:
      return model.family() == v1::ModelSpec::ENCODER_CLASSIFIER
                 ? ""
                 : "is for ENCODER_CLASSIFIER only";
    case v1::Target::kTargetAuc:
      if (model.family() == v1::ModelSpec::DLRM) return "";
      if (model.family() != v1::ModelSpec::ENCODER_CLASSIFIER) {
        return "is for DLRM, and for ENCODER_CLASSIFIER with two classes";
      }
      // Classes that are found in the data are counted there.
      return model.classes() == 2 || model.classes() == 0
                 ? ""
                 : absl::StrCat("is for two classes, model.classes is ",
                                model.classes());
    case v1::Target::kTargetPerplexity:
      return IsLanguageModel(model) ? ""
                                    : "is for MASKED_LM and CAUSAL_LM only";
    case v1::Target::kTargetAccuracy:
      return model.family() == v1::ModelSpec::CAUSAL_LM
                 ? "is not for CAUSAL_LM: it takes target_loss or "
                   "target_perplexity"
                 : "";
    default:
      return "";
  }
}

}  // namespace

void CheckTargetQuality(const v1::JobSpec& spec, const v1::Target& target,
                        const std::string& prefix, SpecChecker& check) {
  const TargetQuality quality = QualityOf(target);
  const std::string field =
      absl::StrCat(prefix, ".", QualityField(quality.kind));
  if (const std::string why = WhyNot(spec, quality.kind); !why.empty()) {
    check.Add(field, why);
    return;
  }
  switch (quality.kind) {
    case v1::Target::TARGET_QUALITY_NOT_SET:
      return check.Add(field,
                       "is missing: target_loss, target_accuracy, target_f1, "
                       "target_mcc, target_auc or target_perplexity");
    case v1::Target::kTargetLoss:
      return check.Require(quality.value > 0 && quality.value <= 1e6, field,
                           "must be above 0 (nats of validation loss)");
    case v1::Target::kTargetPerplexity:
      return check.Require(quality.value > 1 && quality.value <= 1e9, field,
                           "must be above 1 (exp of the validation loss)");
    default:
      break;
  }
  check.Require(quality.value > 0 && quality.value <= 1, field,
                "must be above 0 and at most 1");
  check.Require(spec.objective().kind() != v1::ObjectiveSpec::REFERENCE, field,
                "is not for the REFERENCE objective: it needs target_loss or "
                "target_perplexity");
}

}  // namespace comera
