#ifndef COMERA_SERVER_VIEW_SERIES_TABLE_H_
#define COMERA_SERVER_VIEW_SERIES_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "comera/v1/training_service.pb.h"

namespace comera::server {

// InvalidArgument: max_points, after_sequence, or a metric that is no field of
// StepMetrics.
absl::Status CheckSeriesRequest(const v1::ReadSeriesRequest& request);

// The figures of one job, column by column: what its events tell, ready to be
// thinned for a plot. An attempt that goes on from a checkpoint replaces what
// the one before it told of later steps, so that steps never fall.
//
// A field that can be unset has values where it is set (a target: where it is
// not 0); any other has one for every report, if it was ever set. Booleans are
// 0 and 1, stages their numbers, durations seconds.
//
// Not thread-safe.
class SeriesTable {
 public:
  SeriesTable();

  // In the order of their sequence numbers.
  void Add(const v1::JobEvent& event);

  // What the request, which was checked, asks for, but for `last_sequence`.
  // Stays below the 4 MiB that gRPC clients take by default: thinned further
  // than asked for where that is needed.
  v1::JobSeries Read(const v1::ReadSeriesRequest& request) const;

  // Reports that it holds, and about how much memory.
  size_t rows() const { return steps_.size(); }
  size_t bytes() const;

 private:
  struct Column {
    // Only of fields that can be unset.
    std::vector<uint32_t> rows;
    std::vector<double> values;
    // Some value is not 0.
    bool used = false;
  };
  // Messages of one kind, in the wire format.
  struct Messages {
    std::vector<int64_t> sequences;
    std::vector<int64_t> steps;
    std::vector<std::string> bodies;
    size_t bytes = 0;

    template <typename Message>
    void Add(int64_t sequence, const Message& message);
    void Truncate(int64_t last_step);
  };

  void AddMetrics(const v1::JobEvent& event);
  // Forgets what is told of later steps.
  void Truncate(int64_t last_step);
  void ReadMetric(size_t column, size_t max_points, int64_t after,
                  v1::MetricSeries* series) const;
  template <typename Message>
  static void ReadMessages(const Messages& from, size_t max_points,
                           int64_t after, size_t max_bytes,
                           google::protobuf::RepeatedPtrField<Message>* to);

  // By row.
  std::vector<int64_t> sequences_;
  std::vector<int64_t> steps_;
  std::vector<double> times_;
  // By place in SeriesFields().
  std::vector<Column> columns_;
  Messages snapshots_;
  Messages points_;
  v1::RunInfo run_info_;
  bool has_run_info_ = false;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_VIEW_SERIES_TABLE_H_
