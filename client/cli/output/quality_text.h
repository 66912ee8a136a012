// Words the figures that targets ask for.
#ifndef COMERA_CLIENT_CLI_OUTPUT_QUALITY_TEXT_H_
#define COMERA_CLIENT_CLI_OUTPUT_QUALITY_TEXT_H_

#include <string>

#include "proto/target_quality.h"

namespace comera::client {

// The figure alone, e.g. "81.23%" for an accuracy, "0.7654" for an AUC, "4.948"
// for a loss.
std::string QualityText(QualityKind kind, double value);

}  // namespace comera::client

#endif  // COMERA_CLIENT_CLI_OUTPUT_QUALITY_TEXT_H_
