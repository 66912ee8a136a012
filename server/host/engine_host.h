// What the hosts of the server's state machines have in common.
#ifndef COMERA_SERVER_HOST_ENGINE_HOST_H_
#define COMERA_SERVER_HOST_ENGINE_HOST_H_

#include <functional>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "server/host/commit.h"
#include "server/runtime/event_loop.h"
#include "server/store/job_store.h"
#include "server/store/store_thread.h"

namespace comera::server {

// Owns an engine, a state machine that takes the time and returns effects, and
// runs its operations on an event loop. The effects of an operation go through
// the store's thread first; when they are durable, the host carries them out
// and replies. So nobody is told what a crash could take back.
//
// A subclass says where effects are stored and how they are carried out.
//
// Threads: CommitThenReply() may be called from any thread. All else, the
// subclass's functions included, runs on the loop.
template <typename Engine, typename Effects>
class EngineHost {
 public:
  template <typename T>
  using Callback = std::function<void(absl::StatusOr<T>)>;
  using StatusCallback = std::function<void(const absl::Status&)>;
  template <typename T>
  using Operation =
      std::function<absl::StatusOr<T>(Engine*, absl::Time now, Effects*)>;
  // Makes the audit log's entry of an operation that succeeded.
  template <typename T>
  using Audit = std::function<AuditRow(const T&, absl::Time now)>;

  virtual ~EngineHost() = default;

  // Runs `operation` on the loop and replies there with its value or its error
  // once its effects and the entry of `audit` are durable. An operation without
  // effects waits as well, for the earlier ones whose result it tells.
  // Unavailable: the host stops, or the store failed. ResourceExhausted: the
  // host is read-only, and the operation was not run.
  template <typename T>
  void CommitThenReply(Operation<T> operation, Callback<T> done,
                       Audit<T> audit = nullptr) {
    loop().Post([this, operation = std::move(operation), done = std::move(done),
                 audit = std::move(audit)]() mutable {
      RunThenReply<T>(operation, std::move(done), audit);
    });
  }

  // The same for an operation without a value.
  void CommitThenReply(
      std::function<absl::Status(Engine*, absl::Time now, Effects*)> operation,
      StatusCallback done) {
    using Nothing = std::monostate;
    CommitThenReply<Nothing>(
        [operation = std::move(operation)](
            Engine* engine, absl::Time now,
            Effects* effects) -> absl::StatusOr<Nothing> {
          const absl::Status status = operation(engine, now, effects);
          if (!status.ok()) return status;
          return Nothing();
        },
        [done = std::move(done)](const absl::StatusOr<Nothing>& nothing) {
          done(nothing.status());
        });
  }

  // Loop only.
  const Engine& engine() const { return engine_; }

  // Whether operations may change anything now; else ResourceExhausted.
  virtual absl::Status CheckWritable() const { return absl::OkStatus(); }

  virtual EventLoop& loop() = 0;
  // Null once the host stops.
  virtual StoreThread* store() = 0;

 protected:
  template <typename... Args>
  explicit EngineHost(Clock* clock, Args&&... args)
      : clock_(clock), engine_(std::forward<Args>(args)...) {}

  Engine* mutable_engine() { return &engine_; }
  absl::Time now() const { return clock_->Now(); }

  // CommitThenReply() for a caller who is on the loop.
  template <typename T>
  void RunThenReply(const Operation<T>& operation, Callback<T> done,
                    const Audit<T>& audit = nullptr) {
    if (store() == nullptr) return done(StoppingError());
    if (absl::Status status = CheckWritable(); !status.ok()) {
      return done(status);
    }
    Effects effects;
    absl::StatusOr<T> value = operation(&engine_, now(), &effects);
    std::vector<AuditRow> rows;
    if (audit != nullptr && value.ok()) rows.push_back(audit(*value, now()));
    Commit(
        std::move(effects),
        [value = std::move(value),
         done = std::move(done)](const absl::Status& status) {
          if (!status.ok()) return done(status);
          done(value);
        },
        std::move(rows));
  }

  // Makes the effects durable, then carries them out, then calls `done`.
  void Commit(
      Effects effects, StatusCallback done = [](const absl::Status&) {},
      std::vector<AuditRow> audit = {}) {
    StoreBatch batch = ToBatch(effects);
    batch.audit = std::move(audit);
    auto shared = std::make_shared<Effects>(std::move(effects));
    CommitThen(store(), &loop(), std::move(batch),
               [this, shared, done = std::move(done)](absl::Status status) {
                 if (status.ok()) {
                   OnCommitted(std::move(*shared));
                 } else {
                   OnCommitFailed(status, *shared);
                 }
                 done(status);
               });
    AfterOperation();
  }

 private:
  // What of the effects goes into the store.
  virtual StoreBatch ToBatch(const Effects& effects) const = 0;
  // The effects are durable: shows them to readers and carries out the rest.
  virtual void OnCommitted(Effects effects) = 0;
  virtual void OnCommitFailed(const absl::Status& status,
                              const Effects& effects) {}
  // The engine has changed, whether or not that is durable yet.
  virtual void AfterOperation() {}

  Clock* const clock_;
  // Loop only.
  Engine engine_;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_HOST_ENGINE_HOST_H_
