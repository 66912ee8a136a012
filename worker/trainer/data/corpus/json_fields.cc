// Extracts named fields from one line of JSON.
#include "worker/trainer/data/corpus/json_fields.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "nlohmann/json.hpp"
#include "worker/trainer/data/source/text.h"

namespace comera::trainer {
namespace {

using nlohmann::json;

constexpr int kMaxDepth = 64;

class FieldReader : public nlohmann::json_sax<json> {
 public:
  FieldReader(const std::vector<std::string>& fields,
              std::vector<std::string>* values, absl::string_view scalar_field)
      : fields_(fields),
        values_(*values),
        scalar_field_(scalar_field),
        seen_(fields.size(), false) {
    values_.assign(fields.size(), "");
  }

  absl::Status Finish() const {
    RETURN_IF_ERROR(status_);
    const auto missing = std::find(seen_.begin(), seen_.end(), false);
    if (missing == seen_.end()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        "no field '", Printable(fields_[missing - seen_.begin()]), "'"));
  }

  bool key(string_t& name) override {
    wanted_ = fields_.size();
    if (depth_ != 1) return true;
    wanted_ = static_cast<size_t>(
        std::find(fields_.begin(), fields_.end(), name) - fields_.begin());
    if (wanted_ < fields_.size() && seen_[wanted_]) {
      return Fail(absl::StrCat("field '", Printable(name), "' occurs twice"));
    }
    return true;
  }
  bool string(string_t& value) override {
    if (depth_ == 0) return Fail("not an object");
    if (depth_ == 1 && wanted_ < fields_.size()) Take(std::move(value));
    return true;
  }
  bool start_object(size_t) override { return Value() && Enter(); }
  bool end_object() override { return Leave(); }
  bool start_array(size_t) override {
    if (depth_ == 0) return Fail("not an object");
    return Value() && Enter();
  }
  bool end_array() override { return Leave(); }
  bool null() override { return Scalar(); }
  bool boolean(bool value) override { return Scalar(value ? "true" : "false"); }
  bool number_integer(number_integer_t value) override {
    return Scalar(absl::StrCat(value));
  }
  bool number_unsigned(number_unsigned_t value) override {
    return Scalar(absl::StrCat(value));
  }
  bool number_float(number_float_t, const string_t& text) override {
    return Scalar(text);
  }
  bool binary(binary_t&) override { return Scalar(); }
  bool parse_error(size_t, const std::string&,
                   const nlohmann::detail::exception&) override {
    return Fail("malformed JSON");
  }

 private:
  // A value that is not a string.
  bool Value() {
    if (depth_ == 1 && wanted_ < fields_.size()) {
      return Fail(absl::StrCat("field '", Printable(fields_[wanted_]),
                               "' is not a string"));
    }
    return true;
  }
  bool Scalar() {
    if (depth_ == 0) return Fail("not an object");
    return Value();
  }
  // A number or a boolean.
  bool Scalar(std::string text) {
    if (depth_ == 1 && wanted_ < fields_.size() &&
        fields_[wanted_] == scalar_field_) {
      Take(std::move(text));
      return true;
    }
    return Scalar();
  }
  void Take(std::string value) {
    values_[wanted_] = std::move(value);
    seen_[wanted_] = true;
    wanted_ = fields_.size();
  }
  bool Enter() {
    if (++depth_ > kMaxDepth) return Fail("nested too deeply");
    return true;
  }
  bool Leave() {
    --depth_;
    return true;
  }
  bool Fail(const std::string& what) {
    status_ = absl::InvalidArgumentError(what);
    return false;
  }

  const std::vector<std::string>& fields_;
  std::vector<std::string>& values_;
  const absl::string_view scalar_field_;
  std::vector<bool> seen_;
  size_t wanted_ = 0;  // field that the next value at depth 1 belongs to
  int depth_ = 0;
  absl::Status status_;
};

}  // namespace

absl::Status ReadJsonFields(absl::string_view text,
                            const std::vector<std::string>& fields,
                            std::vector<std::string>* values,
                            absl::string_view scalar_field) {
  FieldReader reader(fields, values, scalar_field);
  json::sax_parse(text.begin(), text.end(), &reader);
  return reader.Finish();
}

}  // namespace comera::trainer
