// Turns exit statuses into failures, and arbitrary bytes into valid UTF-8.

#include "worker/gang/member_failure.h"

#include <string.h>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/util/time_util.h"

namespace comera::worker {
namespace {

constexpr char kFailureClassUrl[] = "type.comera/failure_class";

// The length of the UTF-8 character at text[i]; 0 if there is none.
size_t CharacterLength(const std::string& text, size_t i) {
  const auto byte = [&](size_t at) {
    return at < text.size() ? static_cast<unsigned char>(text[at]) : 0u;
  };
  const auto follows = [&](size_t count) {
    for (size_t k = 1; k <= count; ++k) {
      if ((byte(i + k) & 0xC0) != 0x80) return false;
    }
    return true;
  };
  const unsigned first = byte(i), second = byte(i + 1);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return follows(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    if (!follows(2) || (first == 0xE0 && second < 0xA0)) return 0;
    return first == 0xED && second >= 0xA0 ? 0 : 3;  // surrogates
  }
  if (first >= 0xF0 && first <= 0xF4) {
    if (!follows(3) || (first == 0xF0 && second < 0x90)) return 0;
    return first == 0xF4 && second >= 0x90 ? 0 : 4;
  }
  return 0;
}

}  // namespace

absl::Status WithFailureClass(absl::Status status,
                              v1::FailureClass failure_class) {
  if (!status.ok()) {
    status.SetPayload(kFailureClassUrl,
                      absl::Cord(v1::FailureClass_Name(failure_class)));
  }
  return status;
}

std::optional<v1::FailureClass> FailureClassIn(const absl::Status& status) {
  const auto payload = status.GetPayload(kFailureClassUrl);
  v1::FailureClass failure_class;
  if (!payload.has_value() ||
      !v1::FailureClass_Parse(std::string(*payload), &failure_class)) {
    return std::nullopt;
  }
  return failure_class;
}

std::string ToUtf8(std::string text) {
  for (size_t i = 0; i < text.size();) {
    const size_t length = CharacterLength(text, i);
    if (length == 0) text[i] = '?';
    i += length == 0 ? 1 : length;
  }
  return text;
}

v1::Failure MakeFailure(v1::FailureClass failure_class,
                        const std::string& message, const v1::MemberKey& rank,
                        absl::Time time) {
  v1::Failure failure;
  failure.set_failure_class(failure_class);
  failure.set_message(ToUtf8(message));
  *failure.mutable_time() =
      google::protobuf::util::TimeUtil::NanosecondsToTimestamp(
          absl::ToUnixNanos(time));
  failure.set_attempt(rank.attempt());
  failure.set_rank(rank.rank());
  return failure;
}

v1::Failure FailureOfExit(const MemberExit& exit, const v1::MemberKey& rank,
                          absl::Time time) {
  std::string message;
  v1::FailureClass failure_class = v1::RANK_LOST;
  if (exit.out_of_memory_kill) {
    failure_class = v1::OUT_OF_MEMORY;
    message = absl::StrCat("the kernel killed member ", rank.rank(),
                           " for want of memory");
  } else if (!exit.known) {
    message = absl::StrCat("member ", rank.rank(),
                           " ended, no child any more of the worker, which was "
                           "restarted, and did not say how");
  } else if (exit.signal != 0) {
    message = absl::StrCat("member ", rank.rank(), " was ended by signal ",
                           exit.signal, " (", strsignal(exit.signal), ")");
  } else if (exit.code != 0) {
    message = absl::StrCat("member ", rank.rank(), " exited with code ",
                           exit.code, " and no word why");
  } else {
    message = absl::StrCat("member ", rank.rank(), " ended without a result");
  }
  v1::Failure failure = MakeFailure(failure_class, message, rank, time);
  failure.set_log_tail(ToUtf8(exit.log_tail));
  return failure;
}

}  // namespace comera::worker
