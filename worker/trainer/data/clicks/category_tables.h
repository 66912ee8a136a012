#ifndef COMERA_WORKER_TRAINER_DATA_CLICKS_CATEGORY_TABLES_H_
#define COMERA_WORKER_TRAINER_DATA_CLICKS_CATEGORY_TABLES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace comera::trainer {

// The row of its table that each value of the categorical columns has: the
// remains of the dictionaries once a log is read, exported beside the model.
//
// The rows of a table are first those of values of their own, in order; all
// other values share the rest, by hash. Where there is no rest, a value that
// was not seen has the row of the empty value or, without one, the last row.
//
// Thread safety: const methods may be called from several threads.
class CategoryTables {
 public:
  static constexpr char kFile[] = "categories.safetensors";

  struct Table {
    std::vector<uint64_t> own;  // value of row 0, 1, ...
    int64_t rows = 0;
  };

  // InvalidArgument: a table without rows, with more values of their own than
  // rows, or with a value twice.
  static absl::StatusOr<CategoryTables> Create(std::vector<Table> tables);

  int64_t size() const { return static_cast<int64_t>(tables_.size()); }
  const std::vector<Table>& tables() const { return tables_; }
  // Values as Criteo's reader packs them (criteo_cells.h).
  int32_t Row(int64_t table, uint64_t value) const;

  // Into an existing folder; statuses of WriteFileAtomically.
  absl::Status Save(const std::string& directory) const;
  // NotFound; DataLoss: malformed.
  static absl::StatusOr<CategoryTables> Load(const std::string& directory);

 private:
  std::vector<Table> tables_;
  std::vector<absl::flat_hash_map<uint64_t, int32_t>> rows_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_CLICKS_CATEGORY_TABLES_H_
