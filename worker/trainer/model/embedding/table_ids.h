#ifndef COMERA_WORKER_TRAINER_MODEL_EMBEDDING_TABLE_IDS_H_
#define COMERA_WORKER_TRAINER_MODEL_EMBEDDING_TABLE_IDS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/tensor.h"
#include "worker/trainer/model/plan/plan.h"

namespace comera::trainer {

// The ids of WordEmbedding::SetIds on the device, for tables that are in memory
// as a whole.
class TableIds {
 public:
  // `name` is that of the table, which has `rows` rows.
  TableIds(const Plan& plan, const std::string& name, int64_t rows,
           int64_t max_ids);

  // WordEmbedding::SetIds.
  absl::Status Set(absl::Span<const int32_t> ids, int64_t padded_rows);
  // Returns the ids of the last Set; padding is any rows of the table.
  kernels::ConstIndices get() const {
    return {plan_.saved->Ints(ids_), count_};
  }

 private:
  const Plan plan_;
  const int64_t rows_, max_ids_;
  SavedMemory::Piece ids_;
  std::vector<int32_t> padded_ids_;
  int64_t count_ = 0;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_EMBEDDING_TABLE_IDS_H_
