// A dataset version's list of files: checks of what clients send, and look-up.
#ifndef COMERA_SERVER_DATASET_DATASET_MANIFEST_H_
#define COMERA_SERVER_DATASET_DATASET_MANIFEST_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "comera/v1/dataset_service.pb.h"
#include "proto/data_paths.h"

namespace comera::server {

struct ManifestLimits {
  int64_t max_files = 100000;
  int64_t max_bytes = int64_t{256} << 30;
};

// Bytes of a manifest as stored, at most.
inline constexpr int64_t kMaxManifestBytes = int64_t{128} << 20;

// The files by path. InvalidArgument: none, a bad path, digest or size, a path
// twice, or a file where another path has a folder. ResourceExhausted: too many
// files or bytes.
absl::StatusOr<v1::DatasetManifest> MakeManifest(
    const google::protobuf::RepeatedPtrField<v1::DatasetFile>& files,
    const ManifestLimits& limits);

// DataLoss: not a manifest.
absl::StatusOr<v1::DatasetManifest> ParseManifest(const std::string& bytes);

int64_t TotalBytes(const v1::DatasetManifest& manifest);

// Null: no such file.
const v1::DatasetFile* FindFile(const v1::DatasetManifest& manifest,
                                const std::string& path);
// Whether there are files below the folder; "" is that of all.
bool HasFolder(const v1::DatasetManifest& manifest, const std::string& path);
// Whether there is what a path of this kind stands for.
bool HasPath(const v1::DatasetManifest& manifest, const std::string& path,
             PathKind kind);

}  // namespace comera::server

#endif  // COMERA_SERVER_DATASET_DATASET_MANIFEST_H_
