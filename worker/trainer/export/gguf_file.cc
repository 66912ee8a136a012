// Lays out a GGUF file: header, metadata, directory of tensors, tensors.
#include "worker/trainer/export/gguf_file.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/files.h"

namespace comera::trainer {
namespace {

constexpr uint32_t kVersion = 3;
// Tensors, and the first of them in the file, begin at multiples of this.
constexpr size_t kAlignment = 32;

// Types of values.
constexpr uint32_t kUint8 = 0;
constexpr uint32_t kUint32 = 4;
constexpr uint32_t kInt32 = 5;
constexpr uint32_t kFloat32 = 6;
constexpr uint32_t kBool = 7;
constexpr uint32_t kString = 8;
constexpr uint32_t kArray = 9;

template <typename Number>
void Append(Number value, std::string* bytes) {
  char raw[sizeof(value)];
  std::memcpy(raw, &value, sizeof(value));
  bytes->append(raw, sizeof(value));
}

void AppendString(absl::string_view value, std::string* bytes) {
  Append(uint64_t{value.size()}, bytes);
  bytes->append(value.data(), value.size());
}

void Pad(std::string* bytes) {
  bytes->resize((bytes->size() + kAlignment - 1) / kAlignment * kAlignment);
}

}  // namespace

void GgufFile::StartValue(absl::string_view key, uint32_t type) {
  ++values_;
  AppendString(key, &metadata_);
  Append(type, &metadata_);
}

void GgufFile::StartList(absl::string_view key, uint32_t type, size_t count) {
  StartValue(key, kArray);
  Append(type, &metadata_);
  Append(uint64_t{count}, &metadata_);
}

void GgufFile::Set(absl::string_view key, const char* value) {
  Set(key, absl::string_view(value));
}

void GgufFile::Set(absl::string_view key, absl::string_view value) {
  StartValue(key, kString);
  AppendString(value, &metadata_);
}

void GgufFile::Set(absl::string_view key, uint32_t value) {
  StartValue(key, kUint32);
  Append(value, &metadata_);
}

void GgufFile::Set(absl::string_view key, float value) {
  StartValue(key, kFloat32);
  Append(value, &metadata_);
}

void GgufFile::Set(absl::string_view key, bool value) {
  StartValue(key, kBool);
  Append(static_cast<uint8_t>(value), &metadata_);
}

void GgufFile::Set(absl::string_view key,
                   const std::vector<std::string>& values) {
  StartList(key, kString, values.size());
  for (const std::string& value : values) AppendString(value, &metadata_);
}

void GgufFile::Set(absl::string_view key, const std::vector<float>& values) {
  StartList(key, kFloat32, values.size());
  for (const float value : values) Append(value, &metadata_);
}

void GgufFile::Set(absl::string_view key, const std::vector<int32_t>& values) {
  StartList(key, kInt32, values.size());
  for (const int32_t value : values) Append(value, &metadata_);
}

void GgufFile::SetBytes(absl::string_view key, absl::string_view bytes) {
  StartList(key, kUint8, bytes.size());
  metadata_.append(bytes.data(), bytes.size());
}

absl::Status GgufFile::AddTensor(const std::string& name,
                                 const std::vector<int64_t>& shape,
                                 GgufNumber type,
                                 const std::vector<float>& values) {
  ++tensors_;
  AppendString(name, &directory_);
  Append(static_cast<uint32_t>(shape.size()), &directory_);
  // The format counts dimensions from the one of neighbours in memory.
  for (auto size = shape.rbegin(); size != shape.rend(); ++size) {
    Append(static_cast<uint64_t>(*size), &directory_);
  }
  Append(static_cast<uint32_t>(type), &directory_);
  Append(uint64_t{data_.size()}, &directory_);
  const absl::Status added = AppendNumbers(
      type, values.data(), static_cast<int64_t>(values.size()), &data_);
  if (!added.ok()) {
    return absl::Status(added.code(),
                        absl::StrCat(name, ": ", added.message()));
  }
  Pad(&data_);
  return absl::OkStatus();
}

std::string GgufFile::Serialize() const {
  std::string file;
  file.reserve(metadata_.size() + directory_.size() + data_.size() +
               2 * kAlignment);
  file = "GGUF";
  Append(kVersion, &file);
  Append(tensors_, &file);
  Append(values_, &file);
  absl::StrAppend(&file, metadata_, directory_);
  Pad(&file);
  file += data_;
  return file;
}

absl::Status GgufFile::WriteAtomically(const std::string& path) const {
  return WriteFileAtomically(path, Serialize());
}

}  // namespace comera::trainer
