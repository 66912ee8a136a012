// Reads and writes what a target asks of the validation set.

#include "proto/target_quality.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace comera {
namespace {

// The kinds have the same names in both messages, but other numbers.
template <typename Message>
TargetQuality Read(const Message& message) {
  switch (message.target_quality_case()) {
    case Message::kTargetLoss:
      return {v1::Target::kTargetLoss, message.target_loss()};
    case Message::kTargetAccuracy:
      return {v1::Target::kTargetAccuracy, message.target_accuracy()};
    case Message::kTargetF1:
      return {v1::Target::kTargetF1, message.target_f1()};
    case Message::kTargetMcc:
      return {v1::Target::kTargetMcc, message.target_mcc()};
    case Message::kTargetAuc:
      return {v1::Target::kTargetAuc, message.target_auc()};
    case Message::kTargetPerplexity:
      return {v1::Target::kTargetPerplexity, message.target_perplexity()};
    case Message::TARGET_QUALITY_NOT_SET:
      break;
  }
  return {};
}

template <typename Message>
void Write(const TargetQuality& quality, Message* message) {
  switch (quality.kind) {
    case v1::Target::kTargetLoss:
      return message->set_target_loss(quality.value);
    case v1::Target::kTargetAccuracy:
      return message->set_target_accuracy(quality.value);
    case v1::Target::kTargetF1:
      return message->set_target_f1(quality.value);
    case v1::Target::kTargetMcc:
      return message->set_target_mcc(quality.value);
    case v1::Target::kTargetAuc:
      return message->set_target_auc(quality.value);
    case v1::Target::kTargetPerplexity:
      return message->set_target_perplexity(quality.value);
    case v1::Target::TARGET_QUALITY_NOT_SET:
      return message->clear_target_quality();
  }
}

}  // namespace

TargetQuality QualityOf(const v1::Target& target) { return Read(target); }

TargetQuality QualityOf(const v1::LateStage& late) { return Read(late); }

void SetQuality(const TargetQuality& quality, v1::Target* target) {
  Write(quality, target);
}

void SetQuality(const TargetQuality& quality, v1::LateStage* late) {
  Write(quality, late);
}

std::string QualityName(QualityKind kind) {
  switch (kind) {
    case v1::Target::kTargetAccuracy:
      return "accuracy";
    case v1::Target::kTargetF1:
      return "F1";
    case v1::Target::kTargetMcc:
      return "MCC";
    case v1::Target::kTargetAuc:
      return "AUC";
    case v1::Target::kTargetPerplexity:
      return "perplexity";
    default:
      return "loss";
  }
}

std::string QualityField(QualityKind kind) {
  return absl::StrCat("target_", absl::AsciiStrToLower(QualityName(kind)));
}

bool LowerIsBetter(QualityKind kind) {
  return kind == v1::Target::kTargetLoss ||
         kind == v1::Target::kTargetPerplexity ||
         kind == v1::Target::TARGET_QUALITY_NOT_SET;
}

}  // namespace comera
