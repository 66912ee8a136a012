// Reads sweep files: a job file with a `sweep` section.
#ifndef COMERA_CLIENT_SWEEP_FILE_H_
#define COMERA_CLIENT_SWEEP_FILE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "comera/v1/sweep_service.pb.h"

namespace comera::client {

// Reads a sweep file (.yaml, .yml or .json): the base job, and beside it
//
//   sweep:
//     grid:
//       seeds: [1, 2]
//       targets:
//         - {target_loss: 2.9, target_ratio: 0.5}
//       fields:
//         optimizer.learning_rate_cores: [0.001, 0.01]
//     stop_dominated: true
//
// The section has the fields of SweepSpec, except that `fields` may also be a
// map of paths to values; a job whose compression.method is AUTO needs no
// section. Relative data paths become absolute, starting at the
// file's folder. NotFound, PermissionDenied: the file cannot be read.
// InvalidArgument: `file:line: field: problem`. Notes on former names of fields
// are added to `notes` unless it is null.
absl::StatusOr<v1::SweepSpec> ReadSweepFile(
    const std::string& path, std::vector<std::string>* notes = nullptr);

// Parses a sweep file's text without changing data paths. `name` stands for the
// file in errors.
absl::StatusOr<v1::SweepSpec> ParseSweepFile(
    const std::string& contents, const std::string& name,
    std::vector<std::string>* notes = nullptr);

}  // namespace comera::client

#endif  // COMERA_CLIENT_SWEEP_FILE_H_
