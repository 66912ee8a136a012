// absl::Time <-> google.protobuf.Timestamp, to the microsecond.
#ifndef COMERA_SERVER_RPC_PROTO_TIME_H_
#define COMERA_SERVER_RPC_PROTO_TIME_H_

#include "absl/time/time.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/timestamp.pb.h"

namespace comera::server {

inline google::protobuf::Timestamp ToTimestamp(absl::Time time) {
  const absl::Duration since = time - absl::UnixEpoch();
  absl::Duration rest;
  google::protobuf::Timestamp result;
  int64_t seconds = absl::IDivDuration(since, absl::Seconds(1), &rest);
  if (rest < absl::ZeroDuration()) {
    --seconds;
    rest += absl::Seconds(1);
  }
  result.set_seconds(seconds);
  result.set_nanos(
      static_cast<int32_t>(absl::ToInt64Microseconds(rest) * 1000));
  return result;
}

inline absl::Time FromTimestamp(const google::protobuf::Timestamp& time) {
  return absl::UnixEpoch() + absl::Seconds(time.seconds()) +
         absl::Nanoseconds(time.nanos());
}

inline google::protobuf::Duration ToProtoDuration(absl::Duration duration) {
  absl::Duration rest;
  google::protobuf::Duration result;
  result.set_seconds(absl::IDivDuration(duration, absl::Seconds(1), &rest));
  result.set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(rest)));
  return result;
}

inline absl::Duration FromProtoDuration(
    const google::protobuf::Duration& duration) {
  return absl::Seconds(duration.seconds()) +
         absl::Nanoseconds(duration.nanos());
}

}  // namespace comera::server

#endif  // COMERA_SERVER_RPC_PROTO_TIME_H_
