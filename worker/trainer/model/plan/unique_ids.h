#ifndef COMERA_WORKER_TRAINER_MODEL_PLAN_UNIQUE_IDS_H_
#define COMERA_WORKER_TRAINER_MODEL_PLAN_UNIQUE_IDS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/contraction/stable_order.h"

namespace comera::trainer {

// The distinct ids of a batch, ascending, and the places that use each: a table
// is looked up once per distinct id and scattered back by the places. Linear in
// the ids whatever the size of the table; allocates when made and never again.
// Not thread-safe.
class UniqueIds {
 public:
  // `what` names an id in errors, e.g. "token id". Set takes at most max_ids
  // ids, repetitions included, each below `limit`. Ids below `always` are among
  // the distinct ones even where no place uses them.
  UniqueIds(std::string what, int64_t max_ids, int64_t limit,
            int64_t always = 0);

  // InvalidArgument, leaving the previous ids in place: there are more than
  // max_ids, or one is outside [0, limit).
  absl::Status Set(absl::Span<const int32_t> ids);

  // Extends start() to describe `padded` ids, at most as many as there can be.
  // No place uses the added ones, and count() is unchanged.
  void PadTo(int64_t padded);

  int64_t count() const { return static_cast<int64_t>(unique_.size()); }
  // The distinct ids, ascending.
  absl::Span<const int32_t> unique() const { return unique_; }
  // ids[i] is unique()[index()[i]].
  absl::Span<const int32_t> index() const { return index_; }
  // unique()[u] is at the places order()[k] of ids, ascending, for k from
  // start()[u] to before start()[u + 1]; start() has count() + 1 elements,
  // unless padded.
  absl::Span<const int32_t> order() const { return order_; }
  absl::Span<const int32_t> start() const { return start_; }

 private:
  const std::string what_;
  const int64_t max_ids_, limit_, always_;
  kernels::StableOrder sorter_;
  std::vector<int32_t> unique_, index_, start_;
  absl::Span<const int32_t> order_;
};

// InvalidArgument unless `ids` are ascending and distinct and all below `rows`,
// and there are at most max_ids of them.
absl::Status CheckUniqueIds(absl::Span<const int32_t> ids, int64_t max_ids,
                            int64_t rows);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_PLAN_UNIQUE_IDS_H_
