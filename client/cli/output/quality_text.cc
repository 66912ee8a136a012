// Formats each kind of figure as readers expect it.

#include "client/cli/output/quality_text.h"

#include "absl/strings/str_format.h"
#include "client/cli/output/text_format.h"

namespace comera::client {

std::string QualityText(QualityKind kind, double value) {
  switch (kind) {
    case v1::Target::kTargetAccuracy:
      return absl::StrFormat("%.2f%%", 100 * value);
    case v1::Target::kTargetF1:
    case v1::Target::kTargetMcc:
    case v1::Target::kTargetAuc:
      return absl::StrFormat("%.4f", value);
    default:
      return FormatFigure(value);
  }
}

}  // namespace comera::client
