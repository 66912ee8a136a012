#ifndef COMERA_SERVER_API_WORKER_TEXTS_H_
#define COMERA_SERVER_API_WORKER_TEXTS_H_

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "comera/v1/predict_service.pb.h"
#include "common/rpc_channel.h"

namespace comera::server {

// A text that a worker generates for this server.
class WorkerText {
 public:
  virtual ~WorkerText() = default;
  // Asks for the next piece, one at a time.
  virtual void Read() = 0;
  virtual void Cancel() = 0;
};

// This server's calls of workers' PredictService.Generate. Thread-safe.
class WorkerTexts {
 public:
  struct Options {
    // Certificates for workers' ports. Without an authority and a certificate
    // the connections are not encrypted.
    ChannelSecurity security;
    // Whether texts and tickets may leave this machine unencrypted.
    bool unencrypted = false;
  };
  // Called on gRPC's threads, one after another; `on_end` comes last.
  struct Events {
    std::function<void(v1::GenerateResponse)> on_piece;
    std::function<void(const absl::Status&)> on_end;
  };

  explicit WorkerTexts(const Options& options) : options_(options) {}

  // Calls the worker at `address`, host:port, with a ticket for the model,
  // without a deadline; may read files. FailedPrecondition: the text would
  // leave this machine unencrypted. Unavailable: Stop() was called. Errors of
  // OpenChannel.
  absl::StatusOr<std::shared_ptr<WorkerText>> Start(
      const std::string& address, const std::string& ticket,
      const v1::GenerateRequest& request, Events events);

  // Starts no more, and waits until those that run have ended: cancel them
  // first.
  void Stop();

 private:
  class Call;

  absl::Status Begin();
  void End();

  const Options options_;
  std::mutex mutex_;
  std::condition_variable idle_;
  int calls_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_API_WORKER_TEXTS_H_
