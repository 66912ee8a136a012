// Turns StepMetrics events into named values for exporters.
#ifndef COMERA_CLIENT_EXPORT_METRIC_VALUES_H_
#define COMERA_CLIENT_EXPORT_METRIC_VALUES_H_

#include <string>
#include <vector>

#include "comera/v1/progress.pb.h"

namespace comera::client {

struct MetricValue {
  // Group and name, e.g. "loss/validation"; TensorBoard shows groups as panels,
  // MLflow as folders.
  std::string name;
  double value = 0;
};

// The figures that `metrics` holds. Values that are not finite are kept,
// because a loss that became NaN must be visible.
std::vector<MetricValue> ValuesOf(const v1::StepMetrics& metrics);

// The mean rank of the inner bonds per class of layers: "rank/attention".
std::vector<MetricValue> MeanRanks(const v1::RankSnapshot& snapshot);

}  // namespace comera::client

#endif  // COMERA_CLIENT_EXPORT_METRIC_VALUES_H_
