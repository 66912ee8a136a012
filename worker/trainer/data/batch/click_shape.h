#ifndef COMERA_WORKER_TRAINER_DATA_BATCH_CLICK_SHAPE_H_
#define COMERA_WORKER_TRAINER_DATA_BATCH_CLICK_SHAPE_H_

#include <cstdint>
#include <vector>

namespace comera::trainer {

// What a row of a click log holds: numbers, and one value of each categorical
// column as a row of that column's table.
struct ClickShape {
  int64_t dense_features = 0;
  std::vector<int64_t> table_rows;

  int64_t tables() const { return static_cast<int64_t>(table_rows.size()); }
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_BATCH_CLICK_SHAPE_H_
