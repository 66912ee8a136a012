#ifndef COMERA_WORKER_REPORT_LOG_SHIPPER_H_
#define COMERA_WORKER_REPORT_LOG_SHIPPER_H_

#include <cstdint>
#include <map>
#include <string>
#include <tuple>

#include "comera/v1/worker_service.pb.h"
#include "google/protobuf/repeated_ptr_field.h"

namespace comera::worker {

// Sends members' logs to the coordinator in pieces, each repeated until it is
// acknowledged, up to the end of a log whose process has ended. The files stay.
// Not thread-safe.
class LogShipper {
 public:
  void Begin(const v1::MemberKey& rank, const std::string& path);
  // The log has reached its end.
  void End(const v1::MemberKey& rank);

  // Adds what is not acknowledged, at most `limit` bytes in all. Returns
  // whether there was anything.
  bool Fill(size_t limit,
            google::protobuf::RepeatedPtrField<v1::LogChunk>* chunks);
  void OnResponse(const google::protobuf::RepeatedPtrField<v1::LogAck>& acks);

  size_t size() const { return logs_.size(); }

 private:
  struct Log {
    std::string path;
    int64_t acknowledged = 0;
    bool ended = false;
    // The number of answers that did not acknowledge what was sent.
    int ignored = 0;
    bool sent = false;
  };
  using Key = std::tuple<std::string, int64_t, int32_t>;

  std::map<Key, Log> logs_;
};

}  // namespace comera::worker

#endif  // COMERA_WORKER_REPORT_LOG_SHIPPER_H_
