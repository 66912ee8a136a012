#ifndef COMERA_PROTO_TARGET_QUALITY_H_
#define COMERA_PROTO_TARGET_QUALITY_H_

#include <string>

#include "comera/v1/job.pb.h"

namespace comera {

// The kinds of figure that a target can ask for.
using QualityKind = v1::Target::TargetQualityCase;

// What a target asks of the validation set; a kind of
// TARGET_QUALITY_NOT_SET where it asks for nothing.
struct TargetQuality {
  QualityKind kind = v1::Target::TARGET_QUALITY_NOT_SET;
  double value = 0;
};

TargetQuality QualityOf(const v1::Target& target);
// The quality of the single target in `late` itself, not of its list.
TargetQuality QualityOf(const v1::LateStage& late);
void SetQuality(const TargetQuality& quality, v1::Target* target);
// Replaces the quality of the single target in `late`.
void SetQuality(const TargetQuality& quality, v1::LateStage* late);

// "loss", "accuracy", "F1", "MCC", "AUC" or "perplexity"; loss for no kind.
std::string QualityName(QualityKind kind);
// The field of a target, e.g. "target_accuracy".
std::string QualityField(QualityKind kind);
// Whether smaller figures are better.
bool LowerIsBetter(QualityKind kind);

}  // namespace comera

#endif  // COMERA_PROTO_TARGET_QUALITY_H_
