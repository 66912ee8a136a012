#ifndef COMERA_COMMON_LOG_H_
#define COMERA_COMMON_LOG_H_

#include <atomic>
#include <cstdint>
#include <sstream>

// Log lines on standard error:
//
//   LOG(INFO) << "event=started address=" << address;
//   LOG_IF(WARNING, !status.ok()) << "event=not_stored status=" << status;
//
//   I20260131 12:00:00.123456  4711 server.cc:42] event=started address=...
//
// The severities are INFO, WARNING, ERROR and FATAL; FATAL ends the process.
// What is streamed is not evaluated where the condition does not hold. Any
// thread may log; each line is written whole, and at once.
//
// The library behind it (spdlog) is not included here, so that the sources that
// log do not compile its templates.

namespace comera {

enum class LogSeverity { kInfo, kWarning, kError, kFatal };

// One line: collects what is streamed, and writes it when it is destroyed.
class LogMessage {
 public:
  // `file` must outlive the message.
  LogMessage(LogSeverity severity, const char* file, int line)
      : severity_(severity), file_(file), line_(line) {}
  ~LogMessage();
  LogMessage(const LogMessage&) = delete;
  LogMessage& operator=(const LogMessage&) = delete;

  std::ostream& stream() { return stream_; }

 protected:
  void Write();

 private:
  const LogSeverity severity_;
  const char* const file_;
  const int line_;
  bool written_ = false;
  std::ostringstream stream_;
};

// A line after which the process aborts.
class FatalLogMessage : public LogMessage {
 public:
  FatalLogMessage(const char* file, int line)
      : LogMessage(LogSeverity::kFatal, file, line) {}
  [[noreturn]] ~FatalLogMessage();
};

namespace internal {

// Gives both branches of the macros' conditional expression the type void; &
// binds less tightly than <<.
struct LogVoidify {
  void operator&(const std::ostream&) const {}
};

// True at the first call and at each `n`th one after it.
inline bool LogEveryNth(std::atomic<int64_t>& calls, int64_t n) {
  return calls.fetch_add(1, std::memory_order_relaxed) % n == 0;
}

}  // namespace internal
}  // namespace comera

#define COMERA_LOG_INFO \
  ::comera::LogMessage(::comera::LogSeverity::kInfo, __FILE__, __LINE__)
#define COMERA_LOG_WARNING \
  ::comera::LogMessage(::comera::LogSeverity::kWarning, __FILE__, __LINE__)
#define COMERA_LOG_ERROR \
  ::comera::LogMessage(::comera::LogSeverity::kError, __FILE__, __LINE__)
#define COMERA_LOG_FATAL ::comera::FatalLogMessage(__FILE__, __LINE__)

#define LOG(severity) COMERA_LOG_##severity.stream()

#define LOG_IF(severity, condition) \
  !(condition) ? (void)0 : ::comera::internal::LogVoidify() & LOG(severity)

// Logs the first of every `n` times that this line is reached.
#define LOG_EVERY_N(severity, n)                             \
  LOG_IF(severity, ([] {                                     \
           static ::std::atomic<int64_t> calls{0};           \
           return ::comera::internal::LogEveryNth(calls, n); \
         }()))

// Ends the process where an invariant does not hold; what is streamed is added
// to the line.
#define CHECK(condition)                           \
  (condition) ? (void)0                            \
              : ::comera::internal::LogVoidify() & \
                    LOG(FATAL) << "Check failed: " #condition " "

#endif  // COMERA_COMMON_LOG_H_
