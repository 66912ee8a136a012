#ifndef COMERA_SERVER_DATASET_FILE_DESCRIPTION_H_
#define COMERA_SERVER_DATASET_FILE_DESCRIPTION_H_

#include <cstdint>
#include <optional>
#include <string>

#include "comera/v1/dataset_service.pb.h"

namespace comera::server {

struct DescribeLimits {
  // How much of a file is read, unpacked; what comes after is ignored.
  int64_t max_bytes = int64_t{1} << 30;
  int64_t max_line_bytes = int64_t{16} << 20;
};

// Looks into the file at `path`, whose contents may be anything: format, rows,
// labels, lengths. `name` is its path in the dataset. What cannot be read is
// told in `problem`. Blocks for as long as reading takes.
v1::FileDescription DescribeFile(const std::string& path,
                                 const std::string& name,
                                 std::optional<int64_t> label_column,
                                 const DescribeLimits& limits);

}  // namespace comera::server

#endif  // COMERA_SERVER_DATASET_FILE_DESCRIPTION_H_
