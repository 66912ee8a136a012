// The order of a list of jobs.
#ifndef COMERA_SERVER_VIEW_JOB_ORDER_H_
#define COMERA_SERVER_VIEW_JOB_ORDER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "comera/v1/training_service.pb.h"

namespace comera::server {

// A job and its number in order of acceptance.
struct NumberedJob {
  int64_t serial = 0;
  std::shared_ptr<const v1::Job> job;
};

// What ListJobsRequest.order_by asks for.
class JobOrder {
 public:
  // InvalidArgument: the text names no order.
  static absl::StatusOr<JobOrder> Parse(const std::string& text);

  // Whether the newest job comes first, as in lists without an order.
  bool is_newest_first() const {
    return field_ == Field::kCreated && descending_;
  }
  // Sorts the jobs. Those without the value come last, and of equal ones the
  // newest first.
  void Sort(std::vector<NumberedJob>* jobs) const;

 private:
  enum class Field { kCreated, kName, kState, kProgress, kLoss, kSize };

  JobOrder(Field field, bool descending)
      : field_(field), descending_(descending) {}

  Field field_;
  bool descending_;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_VIEW_JOB_ORDER_H_
