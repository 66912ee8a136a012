// Parses safetensors files defensively, since they may be hostile, and
// serialises them.

#include "common/safetensors.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/status_macros.h"
#include "nlohmann/json.hpp"

namespace comera {
namespace {

using Json = nlohmann::json;

// The limit on the header that the format itself sets.
constexpr uint64_t kMaxHeaderBytes = 100 << 20;
constexpr int64_t kMaxBytes = int64_t{1} << 46;

struct TypeName {
  Safetensors::Type type;
  const char* name;
  int64_t bytes;
};
constexpr TypeName kTypes[] = {
    {Safetensors::Type::kFloat32, "F32", 4},
    {Safetensors::Type::kFloat16, "F16", 2},
    {Safetensors::Type::kBfloat16, "BF16", 2},
    {Safetensors::Type::kFloat64, "F64", 8},
    {Safetensors::Type::kInt32, "I32", 4},
    {Safetensors::Type::kInt64, "I64", 8},
    {Safetensors::Type::kUint8, "U8", 1},
    {Safetensors::Type::kBool, "BOOL", 1},
};

const TypeName* FindType(const std::string& name) {
  for (const TypeName& t : kTypes) {
    if (name == t.name) return &t;
  }
  return nullptr;
}

const TypeName& FindType(Safetensors::Type type) {
  for (const TypeName& t : kTypes) {
    if (type == t.type) return t;
  }
  return kTypes[0];
}

// The number of elements; nothing if it is negative or absurd.
std::optional<int64_t> Elements(const std::vector<int64_t>& shape) {
  int64_t product = 1;
  for (int64_t n : shape) {
    if (n < 0 || __builtin_mul_overflow(product, n, &product) ||
        product > kMaxBytes) {
      return std::nullopt;
    }
  }
  return product;
}

absl::Status Damaged(const std::string& why) {
  return absl::DataLossError(absl::StrCat("safetensors: ", why));
}

// The array as non-negative integers that fit int64_t; nothing if it is not
// one.
std::optional<std::vector<int64_t>> Integers(const Json& json) {
  if (!json.is_array()) return std::nullopt;
  std::vector<int64_t> values;
  for (const Json& item : json) {
    if (!item.is_number_integer()) return std::nullopt;
    if (item.is_number_unsigned() && item.get<uint64_t>() > INT64_MAX) {
      return std::nullopt;
    }
    values.push_back(item.get<int64_t>());
    if (values.back() < 0) return std::nullopt;
  }
  return values;
}

// Parses the header as JSON. Duplicate keys are refused because readers differ
// in which one they use.
absl::StatusOr<Json> ParseHeader(const std::string& contents,
                                 uint64_t header_bytes) {
  bool duplicate = false;
  std::set<std::string> names;
  auto watch = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (depth == 1 && event == Json::parse_event_t::key) {
      duplicate |= !names.insert(parsed.get<std::string>()).second;
    }
    return true;
  };
  Json header = Json::parse(contents.begin() + 8,
                            contents.begin() + 8 + header_bytes, watch,
                            /*allow_exceptions=*/false);
  if (header.is_discarded() || !header.is_object()) {
    return Damaged("the header is not a JSON object");
  }
  if (duplicate) return Damaged("the header names a tensor twice");
  return header;
}

}  // namespace

absl::StatusOr<Safetensors> Safetensors::Read(const std::string& path) {
  ASSIGN_OR_RETURN(std::string contents, ReadFile(path));
  absl::StatusOr<Safetensors> file = Parse(contents);
  if (!file.ok()) {
    return absl::Status(file.status().code(),
                        absl::StrCat(path, ": ", file.status().message()));
  }
  return file;
}

absl::StatusOr<Safetensors> Safetensors::Parse(const std::string& contents) {
  if (contents.size() < 8) return Damaged("shorter than its length field");
  uint64_t header_bytes;
  std::memcpy(&header_bytes, contents.data(), 8);
  if (header_bytes > kMaxHeaderBytes || header_bytes > contents.size() - 8) {
    return Damaged(absl::StrCat("the header is longer than the file, of ",
                                contents.size(), " bytes, or than ",
                                kMaxHeaderBytes));
  }
  ASSIGN_OR_RETURN(const Json header, ParseHeader(contents, header_bytes));
  const int64_t data_bytes = contents.size() - 8 - header_bytes;
  Safetensors file;
  std::vector<std::pair<int64_t, int64_t>> ranges;
  for (const auto& [name, entry] : header.items()) {
    if (!entry.is_object())
      return Damaged("an entry of the header is not an object");
    if (name == "__metadata__") {
      for (const auto& [key, value] : entry.items()) {
        if (!value.is_string())
          return Damaged("__metadata__: expected texts only");
        file.metadata_[key] = value.get<std::string>();
      }
      continue;
    }
    if (!entry.contains("dtype") || !entry["dtype"].is_string() ||
        !entry.contains("shape") || !entry.contains("data_offsets")) {
      return Damaged("a tensor lacks dtype, shape or data_offsets");
    }
    const TypeName* type = FindType(entry["dtype"].get<std::string>());
    if (type == nullptr) {
      return Damaged("a tensor's dtype is not known");
    }
    const auto shape = Integers(entry["shape"]);
    const auto offsets = Integers(entry["data_offsets"]);
    const auto elements = shape ? Elements(*shape) : std::nullopt;
    if (!elements || !offsets || offsets->size() != 2) {
      return Damaged("a tensor has a malformed shape or data_offsets");
    }
    const int64_t begin = (*offsets)[0], end = (*offsets)[1];
    if (begin > end || end > data_bytes ||
        end - begin != *elements * type->bytes) {
      return Damaged("a tensor's bytes do not hold its shape");
    }
    if (begin < end) ranges.emplace_back(begin, end);
    Tensor& tensor = file.tensors_[name];
    tensor.type = type->type;
    tensor.shape = *shape;
    tensor.bytes = contents.substr(8 + header_bytes + begin, end - begin);
  }
  std::sort(ranges.begin(), ranges.end());
  int64_t covered = 0;
  for (const auto& [begin, end] : ranges) {
    if (begin != covered) return Damaged("tensors overlap or leave a gap");
    covered = end;
  }
  if (covered != data_bytes) return Damaged("bytes after the last tensor");
  return file;
}

std::string Safetensors::Header::Serialize() const {
  Json header = Json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  int64_t offset = 0;
  for (const Entry& tensor : tensors) {
    const int64_t end = offset + tensor.bytes;
    header[tensor.name] = {{"dtype", FindType(tensor.type).name},
                           {"shape", tensor.shape},
                           {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  // The format wants data aligned to 8 bytes, so spaces pad the header.
  text.append((8 - text.size() % 8) % 8, ' ');
  std::string contents(8, '\0');
  const uint64_t header_bytes = text.size();
  std::memcpy(contents.data(), &header_bytes, 8);
  return contents + text;
}

std::string Safetensors::Serialize() const {
  Header header;
  header.metadata = metadata_;
  size_t bytes = 0;
  for (const auto& [name, tensor] : tensors_) {
    header.tensors.push_back({name, tensor.type, tensor.shape,
                              static_cast<int64_t>(tensor.bytes.size())});
    bytes += tensor.bytes.size();
  }
  std::string contents = header.Serialize();
  contents.reserve(contents.size() + bytes);
  for (const auto& [name, tensor] : tensors_) contents += tensor.bytes;
  return contents;
}

absl::Status Safetensors::WriteAtomically(const std::string& path) const {
  return WriteFileAtomically(path, Serialize());
}

namespace {

template <typename T>
std::vector<T> Values(const std::string& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  // The data pointer of an empty vector may be null, which memcpy does not
  // allow.
  if (!values.empty()) {
    std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  }
  return values;
}

float FromBits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

float FromHalf(uint16_t half) {
  const uint32_t sign = uint32_t{half & 0x8000u} << 16;
  const uint32_t exponent = half >> 10 & 0x1f;
  const uint32_t fraction = half & 0x3ff;
  // The value is 0 or subnormal.
  if (exponent == 0) {
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return sign != 0 ? -magnitude : magnitude;
  }
  // Infinities and NaN keep the largest exponent.
  const uint32_t wide = exponent == 31 ? 255 : exponent + 112;
  return FromBits(sign | wide << 23 | fraction << 13);
}

absl::Status AddTensor(std::map<std::string, Safetensors::Tensor>* tensors,
                       const std::string& name, std::vector<int64_t> shape,
                       Safetensors::Type type, const void* data,
                       int64_t count) {
  const auto elements = Elements(shape);
  if (!elements || *elements != count) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": ", count, " values do not fill its shape"));
  }
  if (name == "__metadata__" || tensors->count(name) > 0) {
    return absl::InvalidArgumentError(name + ": name is taken");
  }
  Safetensors::Tensor& tensor = (*tensors)[name];
  tensor.type = type;
  tensor.shape = std::move(shape);
  if (count > 0) {
    tensor.bytes.assign(static_cast<const char*>(data),
                        count * FindType(type).bytes);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Safetensors::AddFloat(const std::string& name,
                                   std::vector<int64_t> shape,
                                   const float* data, int64_t count) {
  return AddTensor(&tensors_, name, std::move(shape), Type::kFloat32, data,
                   count);
}

absl::Status Safetensors::AddInt64(const std::string& name,
                                   std::vector<int64_t> shape,
                                   const int64_t* data, int64_t count) {
  return AddTensor(&tensors_, name, std::move(shape), Type::kInt64, data,
                   count);
}

absl::StatusOr<std::vector<float>> Safetensors::GetFloat(
    const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) return absl::NotFoundError("no tensor " + name);
  const std::string& bytes = found->second.bytes;
  const auto convert = [](const auto& from, auto value_of) {
    std::vector<float> values(from.size());
    std::transform(from.begin(), from.end(), values.begin(), value_of);
    return values;
  };
  switch (found->second.type) {
    case Type::kFloat32:
      return Values<float>(bytes);
    case Type::kFloat16:
      return convert(Values<uint16_t>(bytes), FromHalf);
    case Type::kBfloat16:
      return convert(Values<uint16_t>(bytes),
                     [](uint16_t x) { return FromBits(uint32_t{x} << 16); });
    case Type::kFloat64:
      return convert(Values<double>(bytes),
                     [](double x) { return static_cast<float>(x); });
    default:
      return absl::InvalidArgumentError(name + " is not of floats");
  }
}

absl::StatusOr<std::vector<int64_t>> Safetensors::GetInt64(
    const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) return absl::NotFoundError("no tensor " + name);
  const std::string& bytes = found->second.bytes;
  if (found->second.type == Type::kInt64) {
    return Values<int64_t>(bytes);
  }
  if (found->second.type == Type::kInt32) {
    const std::vector<int32_t> values = Values<int32_t>(bytes);
    return std::vector<int64_t>(values.begin(), values.end());
  }
  return absl::InvalidArgumentError(name + " is not I64 or I32");
}

absl::StatusOr<std::vector<int64_t>> Safetensors::GetShape(
    const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) return absl::NotFoundError("no tensor " + name);
  return found->second.shape;
}

}  // namespace comera
