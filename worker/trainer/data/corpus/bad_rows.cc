// Counts the malformed rows that a job tolerates.
#include "worker/trainer/data/corpus/bad_rows.h"

#include "absl/strings/str_cat.h"
#include "common/log.h"
#include "worker/trainer/data/random/text_hash.h"

namespace comera::trainer {
namespace {

constexpr int64_t kLogged = 10;

}  // namespace

absl::Status BadRows::Add(const absl::Status& error) {
  if (limit_ == 0) return error;
  const std::string message(error.message());
  if (!places_.insert(HashText(message)).second) return absl::OkStatus();
  if (first_.empty()) first_ = message;
  if (count() > limit_) {
    return absl::Status(
        error.code(),
        absl::StrCat(message, "; with it there are more than ", limit_,
                     " malformed rows (max_bad_rows), the first: ", first_));
  }
  LOG_IF(WARNING, count() <= kLogged)
      << "event=row_skipped " << message
      << (count() == kLogged ? "; further ones are counted only" : "");
  return absl::OkStatus();
}

std::string BadRows::Summary() const {
  if (count() == 0) return "";
  return absl::StrCat(
      count(), count() == 1 ? " malformed row" : " malformed rows", " skipped",
      first_.empty() ? "" : absl::StrCat(", the first: ", first_));
}

}  // namespace comera::trainer
