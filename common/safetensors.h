// Reads and writes the safetensors format: a little-endian uint64 header
// length, a JSON header, then raw tensor bytes.
#ifndef COMERA_COMMON_SAFETENSORS_H_
#define COMERA_COMMON_SAFETENSORS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace comera {

// The tensors of one file, held in memory. A value type.
//
//   Safetensors file;
//   RETURN_IF_ERROR(file.AddFloat("w", {2, 3}, w));
//   RETURN_IF_ERROR(file.WriteAtomically(path));
class Safetensors {
 public:
  enum class Type {
    kFloat32,
    kFloat16,
    kBfloat16,
    kFloat64,
    kInt32,
    kInt64,
    kUint8,
    kBool,
  };

  struct Tensor {
    Type type = Type::kFloat32;
    std::vector<int64_t> shape;
    std::string bytes;  // little-endian, row-major
  };

  // What a file begins with: its length, the metadata, and where each tensor
  // lies, padded so that the data are aligned.
  struct Header {
    struct Entry {
      std::string name;
      Type type = Type::kFloat32;
      std::vector<int64_t> shape;
      int64_t bytes = 0;
    };
    std::map<std::string, std::string> metadata;
    std::vector<Entry> tensors;  // in the order of their data

    std::string Serialize() const;
  };

  // DataLoss: the file is truncated; offsets overlap, are out of range or
  // inconsistent; the header is malformed; or a type is unknown. NotFound:
  // there is no such file.
  static absl::StatusOr<Safetensors> Read(const std::string& path);
  static absl::StatusOr<Safetensors> Parse(const std::string& contents);

  std::string Serialize() const;
  // Replaces `path` durably, as WriteFileAtomically does (files.h).
  absl::Status WriteAtomically(const std::string& path) const;

  // InvalidArgument: the data do not fill the shape, or the name is taken.
  absl::Status AddFloat(const std::string& name, std::vector<int64_t> shape,
                        const float* data, int64_t count);
  absl::Status AddInt64(const std::string& name, std::vector<int64_t> shape,
                        const int64_t* data, int64_t count);

  // NotFound: there is no such tensor. InvalidArgument: it has another type.
  // GetFloat also converts from the other floating-point types, GetInt64 widens
  // int32.
  absl::StatusOr<std::vector<float>> GetFloat(const std::string& name) const;
  absl::StatusOr<std::vector<int64_t>> GetInt64(const std::string& name) const;
  absl::StatusOr<std::vector<int64_t>> GetShape(const std::string& name) const;

  const std::map<std::string, Tensor>& tensors() const { return tensors_; }
  std::map<std::string, std::string>& metadata() { return metadata_; }
  const std::map<std::string, std::string>& metadata() const {
    return metadata_;
  }

 private:
  std::map<std::string, Tensor> tensors_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace comera

#endif  // COMERA_COMMON_SAFETENSORS_H_
