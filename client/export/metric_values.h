// What a StepMetrics event holds, as names and values.
#ifndef COMERA_CLIENT_EXPORT_METRIC_VALUES_H_
#define COMERA_CLIENT_EXPORT_METRIC_VALUES_H_

#include <string>
#include <vector>

#include "comera/v1/progress.pb.h"

namespace comera::client {

struct MetricValue {
  // Group and name, "loss/validation": panels of TensorBoard, folders of
  // MLflow.
  std::string name;
  double value = 0;
};

// All figures of `metrics` that are known at that step. Not finite ones are
// among them: a loss that became NaN is to be seen.
std::vector<MetricValue> ValuesOf(const v1::StepMetrics& metrics);

// Mean rank of the inner bonds per class of layers: "rank/attention".
std::vector<MetricValue> MeanRanks(const v1::RankSnapshot& snapshot);

}  // namespace comera::client

#endif  // COMERA_CLIENT_EXPORT_METRIC_VALUES_H_
