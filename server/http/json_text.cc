// Converts messages from and to JSON, with errors that say where.
#include "server/http/json_text.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "google/protobuf/util/json_util.h"
#include "google/protobuf/util/type_resolver_util.h"
#include "nlohmann/json.hpp"
#include "server/http/former_json_names.h"
#include "server/rpc/rpc_errors.h"

namespace comera::server {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::DescriptorPool;
using nlohmann::json;

constexpr char kTypeUrl[] = "type.googleapis.com";
constexpr int kMaxDepth = 64;
constexpr size_t kMaxMessage = 400;

// Only looks whether the text is JSON, and where it is not.
class Checker : public json::json_sax_t {
 public:
  const std::string& error() const { return error_; }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool key(string_t&) override { return true; }
  bool start_object(size_t) override { return Enter(); }
  bool start_array(size_t) override { return Enter(); }
  bool end_object() override { return Leave(); }
  bool end_array() override { return Leave(); }
  bool parse_error(size_t, const std::string&,
                   const nlohmann::detail::exception& error) override {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: ..."
    std::string text = error.what();
    const size_t at = text.find("at line ");
    error_ = at == std::string::npos ? text : text.substr(at + 3);
    return false;
  }

 private:
  bool Enter() {
    if (++depth_ <= kMaxDepth) return true;
    error_ = absl::StrCat("nested deeper than ", kMaxDepth);
    return false;
  }
  bool Leave() {
    --depth_;
    return true;
  }

  int depth_ = 0;
  std::string error_;
};

google::protobuf::util::TypeResolver* Resolver() {
  static auto* const resolver =
      google::protobuf::util::NewTypeResolverForDescriptorPool(
          kTypeUrl, DescriptorPool::generated_pool());
  return resolver;
}

// Reads the parser's errors: "(spec.seed): invalid value ..." and "(spec)
// famly: Cannot find field.", which may stand behind a code of its own.
absl::Status FieldError(const std::string& text) {
  constexpr char kUnknown[] = ": Cannot find field.";
  const size_t open = text.find('(');
  const size_t close = text.find(')', open);
  const size_t colon = text.find(": ", close);
  if (open == std::string::npos || close == std::string::npos ||
      colon == std::string::npos) {
    const size_t unknown = text.find(kUnknown);
    if (unknown != std::string::npos) {
      return InvalidField(text.substr(0, unknown), "there is no such field");
    }
    return absl::InvalidArgumentError(text.substr(0, kMaxMessage));
  }
  std::string field = text.substr(open + 1, close - open - 1);
  if (colon > close + 2) {
    absl::StrAppend(&field, field.empty() ? "" : ".",
                    text.substr(close + 2, colon - close - 2));
  }
  std::string what = text.substr(colon + 2, kMaxMessage);
  if (what == "Cannot find field.") what = "there is no such field";
  return InvalidField(field, what);
}

}  // namespace

std::optional<std::string> JsonString(std::string_view text) {
  try {
    return json(text).dump();
  } catch (const json::exception&) {
    return std::nullopt;
  }
}

std::string JsonStringOfAny(std::string_view text) {
  return json(text).dump(-1, ' ', false, json::error_handler_t::replace);
}

absl::Status JsonToMessage(std::string_view json_text,
                           google::protobuf::Message* message) {
  Checker checker;
  if (!json::sax_parse(json_text.begin(), json_text.end(), &checker)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the body is no JSON: ", checker.error().substr(0, kMaxMessage)));
  }
  const size_t first = json_text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || json_text[first] != '{') {
    return absl::InvalidArgumentError("the body is no JSON object");
  }
  ASSIGN_OR_RETURN(const std::optional<std::string> renamed,
                   WithCurrentNames(json_text, *message->GetDescriptor()));
  if (renamed) json_text = *renamed;
  const auto status = google::protobuf::util::JsonStringToMessage(
      google::protobuf::StringPiece(json_text.data(), json_text.size()),
      message);
  if (status.ok()) return absl::OkStatus();
  return FieldError(std::string(status.message()));
}

absl::StatusOr<std::string> WireToJson(const Descriptor* descriptor,
                                       const std::string& wire) {
  std::string out;
  const auto status = google::protobuf::util::BinaryToJsonString(
      Resolver(), absl::StrCat(kTypeUrl, "/", descriptor->full_name()), wire,
      &out);
  if (status.ok()) return out;
  return absl::InternalError(
      absl::StrCat("a message cannot be written as JSON: ", status.ToString()));
}

}  // namespace comera::server
